echo util two
