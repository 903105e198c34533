"""Parameters that a framework version replaces by others, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuneplane.catalog.manifest import Migration
from tuneplane.catalog.params import BadValue, default_value, read_node
from tuneplane.catalog.recipe import Recipe
from tuneplane.experiment.config import Config
from tuneplane.experiment.succession import parameter_of


@dataclass(frozen=True)
class Migrated:
    """An entry that fits. keys: those of `params` that go, in their order in the file."""

    keys: tuple[str, ...]
    entry: Migration


def later(old: str, new: str) -> bool:
    """Whether the framework version `new` comes after `old`; versions that are no numbers have no order."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(new) > Version(old)
    except InvalidVersion:
        return False


def migrated(config: Config, before: Recipe, entries: Sequence[Migration]) -> list[Migrated]:
    """The first entries that fit what is set, where a parameter that is not set counts with its default in `before`.

    A parameter belongs to one entry, and an entry of which nothing is set says nothing.
    """
    keys = {name: key for key in config.params if (name := parameter_of(before, key)) is not None}
    found: list[Migrated] = []
    taken: set[str] = set()
    for entry in entries:
        names = set(entry.before)
        if names & taken or not names & keys.keys() or not names <= before.parameters.keys():
            continue
        if all(_value(config, before, name, keys) == _wanted(before, name, entry) for name in names):
            taken |= names
            found.append(Migrated(tuple(key for name, key in keys.items() if name in names), entry))
    return found


def naming(name: str, before: Recipe, entries: Sequence[Migration]) -> Iterator[Migration]:
    """The entries that say what becomes of values of a parameter."""
    return (e for e in entries if name in e.before and e.before.keys() <= before.parameters.keys())


def _value(config: Config, before: Recipe, name: str, keys: dict[str, str]) -> Any:
    """The value that counts; a value that is none of the parameter's fits nothing."""
    parameter = before.parameters[name]
    if name not in keys:
        return default_value(parameter)
    try:
        return read_node(parameter, config.params[keys[name]].node)
    except BadValue as error:
        return error


def _wanted(before: Recipe, name: str, entry: Migration) -> Any:
    """An entry's value as one of the parameter, also where a later version would not take it."""
    try:
        return default_value(replace(before.parameters[name], default=entry.before[name]))
    except BadValue:
        return _Nothing


class _Nothing:
    """Equals nothing that a parameter can be."""
