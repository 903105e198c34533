"""The parameters that each method must offer, from `named.yaml`."""

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


def named(method: str, version: str) -> set[str]:
    """The names for a release, less those that the table says are not there."""
    entry = _read()["methods"][method]
    parts = [entry, _read()["shared"].get(entry.get("shared"), {})]
    names = {name for part in parts for key in ("all", version) for name in str(part.get(key, "")).split()}
    return names - absent(method).keys()


def absent(method: str) -> dict[str, str]:
    """Names that the method does not offer → why."""
    found: dict[str, str] = _read()["absent"].get(method, {})
    return found
