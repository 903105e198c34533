"""YAML documents in which every value remembers its file and line, and their checking against dataclasses."""
