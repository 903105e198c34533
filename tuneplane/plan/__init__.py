"""Everything decided before it is text: pure functions of the inputs, without reading a file or the environment."""
