"""What a node runs, one module for each kind of launch."""
