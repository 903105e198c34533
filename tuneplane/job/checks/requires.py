"""What a method asks of the packages here, where nobody looked into the image before.

Requirements are `name`, `name==1.2` or `name>=1.2,<2`. Versions are compared by the numbers of their release: a local
part (`+cu130`) and what follows the numbers (`rc1`, `.post2`) do not count.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Optional, Tuple

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(.*)\Z")
_CLAUSE = re.compile(r"(===|==|!=|<=|>=|~=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_NUMBERS = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)")

Release = Tuple[int, ...]


def installed(name: str) -> Optional[str]:
    """The version of a package that this Python finds, or None."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def unmet(requirement: str, version_of: Callable[[str], Optional[str]] = installed) -> str:
    """Why a requirement is not met, in one sentence; empty when it is, or when it cannot be read here."""
    match = _REQUIREMENT.match(requirement.strip())
    if match is None:
        return ""
    name, clauses = match.groups()
    held = version_of(name)
    if held is None:
        return f"the image has no {name}, and the method needs {requirement}"
    numbers = _NUMBERS.match(held)
    if numbers is None:
        return ""
    release = _release(numbers.group(1))
    if all(_meets(release, *clause.groups()) for clause in _CLAUSE.finditer(clauses)):
        return ""
    return f"the image has {name} {held}, and the method needs {requirement}"


def _release(text: str) -> Release:
    return tuple(int(part) for part in text.split("."))


def _meets(release: Release, operator: str, text: str, star: Optional[str]) -> bool:
    wanted = _release(text)
    same = _cut(release, len(wanted)) == wanted if star else _order(release, wanted) == 0
    results: Dict[str, bool] = {
        "==": same,
        "===": same,
        "!=": not same,
        "<": _order(release, wanted) < 0,
        "<=": _order(release, wanted) <= 0,
        ">": _order(release, wanted) > 0,
        ">=": _order(release, wanted) >= 0,
        "~=": _order(release, wanted) >= 0 and _cut(release, len(wanted) - 1) == wanted[:-1],
    }
    return results[operator]


def _cut(release: Release, length: int) -> Release:
    return (release + (0,) * length)[:length]


def _order(one: Release, other: Release) -> int:
    length = max(len(one), len(other))
    a, b = _cut(one, length), _cut(other, length)
    return (a > b) - (a < b)
