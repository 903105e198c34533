"""The shared folder: publications numbered by serial, each immutable, found without a lock."""
