"""Limits of the kernel that a plan must keep."""

from __future__ import annotations

MAX_STRING = 128 * 1024
"""Bytes of one argument or variable with its NUL: MAX_ARG_STRLEN of Linux, 32 pages of 4 KiB (execve(2))."""
_HEADROOM = 64
"""Room for the longest prefix a runtime puts before a variable's name."""


def too_long(text: str) -> bool:
    """Whether `text` cannot be one argument, or one `NAME=value` of an environment."""
    return len(text.encode("utf-8", "surrogateescape")) + _HEADROOM >= MAX_STRING
