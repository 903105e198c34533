from builders import own_cache  # noqa: F401
