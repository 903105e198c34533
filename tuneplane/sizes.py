"""Sizes as Slurm writes them: `1800G`, `512M`; a bare number is megabytes."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]+)([KMGT]?)\Z")
_POWERS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError when it is no size."""
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"`{text}` is no size such as `10G`")
    return int(match[1]) << _POWERS[match[2]]


def is_size(text: str) -> bool:
    """Whether Slurm reads it as a size."""
    return _SIZE.match(text) is not None
