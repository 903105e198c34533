"""Image files: their heads and digests, registering them, and what nodes check and copy."""
