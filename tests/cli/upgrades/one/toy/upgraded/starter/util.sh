echo util one
