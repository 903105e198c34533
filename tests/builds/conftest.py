from builders import cold_cache, own_cache  # noqa: F401
