"""Whether this `tp` is one of the versions a recipe asks for."""

from __future__ import annotations

import operator
import re

from tuneplane import __version__

_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)\Z")
_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def satisfies(requirement: str, version: str = __version__) -> bool:
    """Whether `version` meets `requirement`, a list such as `>=0.1,<0.2`. Raises ValueError when it is no list."""
    met = True
    for clause in requirement.split(","):
        match = _CLAUSE.match(clause.strip())
        if not match:
            raise ValueError(f"{requirement} is not a list of versions")
        met = met and _COMPARE[match.group(1)](_release(version), _release(match.group(2)))
    return met


def misfit(requirement: str) -> str:
    """`too old` or `too new` when this `tp` does not meet `requirement`, else nothing. Raises ValueError."""
    unmet = [clause.strip() for clause in requirement.split(",") if not satisfies(clause)]
    if not unmet:
        return ""
    return "too old" if any(clause.startswith(">") for clause in unmet) else "too new"
