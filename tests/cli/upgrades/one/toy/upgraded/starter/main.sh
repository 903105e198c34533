echo main one "$@"
