"""Lengths of time as users write them, refused where Slurm would read something else.

Slurm reads `90` as minutes, `90:30` as minutes and seconds and has no hours:minutes (sbatch(1), `--time`);
so a bare number and two fields are refused with both readings.
"""

from __future__ import annotations

import re

from tuneplane.errors import shown

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WORDED = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?\Z", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)\Z", re.ASCII)
FORMS = "`90m`, `12h`, `1d12h`, `H:MM:SS` or `D-HH:MM:SS`"
LONGEST = 366 * 86400
_LONGEST_TEXT = 40


def parse_duration(text: str) -> int:
    """Seconds. Raises ValueError with a sentence that names the readings of an ambiguous text."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{shown(text)} is not a length of time")
    if re.fullmatch(r"\d+", text, re.ASCII):
        raise ValueError(f"{text} could be {text} minutes (as Slurm reads it) or {text} seconds")
    if match := re.fullmatch(r"(\d+):(\d+)", text, re.ASCII):
        first, second = match.groups()
        raise ValueError(
            f"{text} could be {first} hours {second} minutes or {first} minutes {second} seconds (as Slurm reads it)"
        )
    if match := _CLOCK.match(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        if match.group(1) and hours > 23:
            raise ValueError(f"{text} has more than 23 hours beside its days")
        total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    elif text and (match := _WORDED.match(text)):
        total = sum(int(part or 0) * _UNITS[unit] for part, unit in zip(match.groups(), "dhms", strict=True))
    else:
        raise ValueError(f"{shown(text)} is not a length of time")
    if not 0 < total <= LONGEST:
        raise ValueError(f"{text} is not between one second and {LONGEST // 86400} days")
    return total


def slurm_time(seconds: int) -> str:
    """The one form that Slurm reads in no other way: `D-HH:MM:SS`."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{day}-{hour:02d}:{minute:02d}:{second:02d}"


def spoken(seconds: int) -> str:
    """`1d12h`, `90m` and the like, the shortest that is exact."""
    parts = []
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
