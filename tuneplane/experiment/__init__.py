"""The user's folder: its configuration, its lock, its scaffolding and its frozen snapshot."""
