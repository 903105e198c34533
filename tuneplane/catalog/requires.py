"""What a method asks of an image's packages: requirements as PEP 508 writes them, less markers and URLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping


def required_name(requirement: str) -> str:
    """`flash_attn[extra]>=2` → `flash-attn`."""
    return normalized(re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0])


def normalized(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unmet(requires: Iterable[str], packages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(requirement, what is there instead) of each that is not met; packages: normalized name → version, empty or
    missing where there is none. A local version such as `+cu130` meets what the public one meets.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    for text in requires:
        name = required_name(text)
        held = packages.get(name, "")
        try:
            met = bool(held) and Requirement(text).specifier.contains(held, prereleases=True)
        except (InvalidRequirement, InvalidVersion):
            met = False
        if not met:
            yield text, f"{name} {held}" if held else ""


def fault(text: str) -> str:
    """Why a requirement is none; empty when it is one."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    return "only a name and versions are looked at" if found.url or found.marker else ""
