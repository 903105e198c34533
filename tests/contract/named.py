"""The parameters that each method must offer, and the upstream keys that they must reach, from `named.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("named.yaml")


@cache
def _read() -> Any:
    return yaml.safe_load(FILE.read_text())


def methods() -> list[str]:
    return list(_read()["methods"])


def named(method: str, version: str) -> dict[str, str]:
    """Name → upstream key on a release, less the names that the table says are not there."""
    entry = _read()["methods"][method]
    parts = [entry, *(_read()["shared"][name] for name in entry.get("shared", []))]
    found = {name: key for part in parts for on in ("all", version) for name, key in part.get(on, {}).items()}
    return {name: key for name, key in found.items() if name not in absent(method)}


def absent(method: str) -> dict[str, str]:
    """Names that the method does not offer → why."""
    found: dict[str, str] = _read()["absent"].get(method, {})
    return found
