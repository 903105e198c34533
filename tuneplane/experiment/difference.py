"""What changed from one recipe to another, field by field and parameter by parameter. Nothing is read here.

Two recipes of different digests always differ in `changes`, and recipes of one digest never do: both follow from the
same canonical form.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuneplane.catalog.manifest import Parameter, Rule
from tuneplane.catalog.params import expectation, written
from tuneplane.catalog.recipe import TEXTS, Recipe, canonical
from tuneplane.files import sha256

Starter = Mapping[str, tuple[str, bool]]
"""Path of a starter file → (sha256, executable)."""

_IDENTITY = {"name", "version", "core", "framework", "framework_version", "runtime_id"}
_OWN_WAY = {"parameters", "rules"}


@dataclass(frozen=True)
class Change:
    """One difference. how: `changed`, `added`, `removed`, `renamed`, or which field of a parameter it is."""

    what: str
    how: str
    before: str = ""
    now: str = ""


@dataclass(frozen=True)
class Difference:
    """changes: what can change a script, a run or a refusal; texts: keys of changed texts; starter: files."""

    changes: tuple[Change, ...] = ()
    texts: tuple[str, ...] = ()
    starter: tuple[Change, ...] = ()


def of_fields(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """The fields of two locks that differ."""
    return tuple(
        Change(key, "changed", before.get(key, ""), now.get(key, ""))
        for key in (*before, *(key for key in now if key not in before))
        if before.get(key) != now.get(key)
    )


def of_recipes(old: Recipe, new: Recipe, names: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs beside the fields a lock has. names: parameter of `old` → the same one in `new`."""
    before, now = (_rest(recipe) for recipe in (old, new))
    return (*_parameters(old, new, names), *_rules(old, new), *_of_texts(before, now))


def of_texts(old: Recipe, new: Recipe, names: Mapping[str, str]) -> tuple[str, ...]:
    """Keys of the texts that differ, by the new recipe's names."""
    before, now = dict(_texts(old, names)), dict(_texts(new, {}))
    return tuple(key for key in now if key in before and before[key] != now[key])


def digest_of_texts(recipe: Recipe) -> str:
    """sha256 of what only people read."""
    return _digest([(key, repr(text)) for key, text in _texts(recipe, {})])


def digest_of_starter(starter: Starter) -> str:
    """sha256 of a starter's files."""
    return _digest(sorted((path, *entry) for path, entry in starter.items()))


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, ensure_ascii=True).encode())


def of_starters(old: Starter, new: Starter) -> tuple[Change, ...]:
    """The starter files that differ."""
    found = []
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            how = "added" if path not in old else "removed" if path not in new else "changed"
            found.append(Change(path, how))
    return tuple(found)


def _parameters(old: Recipe, new: Recipe, names: Mapping[str, str]) -> Iterator[Change]:
    for name, parameter in old.parameters.items():
        successor = names.get(name)
        if successor is None:
            yield Change(f"parameters.{name}", "removed", _described(parameter))
            continue
        what = f"parameters.{successor}"
        if successor != name:
            yield Change(what, "renamed", name, successor)
        before, now = canonical(parameter), canonical(new.parameters[successor])
        for field in dataclasses.fields(Parameter):
            # as JSON: to Python 1, 1.0 and true are the same
            if json.dumps(before.get(field.name)) != json.dumps(now.get(field.name)):
                yield Change(what, field.name, _text(before.get(field.name)), _text(now.get(field.name)))
    kept = set(names.values())
    for name, parameter in new.parameters.items():
        if name not in kept:
            yield Change(f"parameters.{name}", "added", "", _described(parameter))


def _described(parameter: Parameter) -> str:
    words = expectation(parameter).replace("`", "")
    return words if parameter.default is None else f"{words}, by default {_text(parameter.default)}"


def _rules(old: Recipe, new: Recipe) -> Iterator[Change]:
    before, now = ([rule_text(rule) for rule in recipe.rules] for recipe in (old, new))
    if before != now and Counter(before) == Counter(now):
        yield Change("rules", "changed", "the same", "in another order")
    for text in (Counter(before) - Counter(now)).elements():
        yield Change("rules", "removed", text)
    for text in (Counter(now) - Counter(before)).elements():
        yield Change("rules", "added", "", text)


def rule_text(rule: Rule) -> str:
    """What the rule demands, in one line."""
    return rule.require if rule.when == "true" else f"{rule.require} when {rule.when}"


def _of_texts(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for key in (*before, *(key for key in now if key not in before)):
        if before.get(key) != now.get(key):
            how = "added" if key not in before else "removed" if key not in now else "changed"
            yield Change(key, how, before.get(key, ""), now.get(key, ""))


def _rest(recipe: Recipe) -> dict[str, str]:
    """The canonical form less what is compared in a way of its own, and less what is empty."""
    fields = {key: value for key, value in canonical(recipe).items() if value not in ({}, None)}
    return _flat({key: value for key, value in fields.items() if key not in _IDENTITY | _OWN_WAY})


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """Leaves under their dotted keys, as text."""
    if isinstance(value, dict) and (value or not key):
        found: dict[str, str] = {}
        for name, item in value.items():
            found |= _flat(item, f"{key}.{name}" if key else name)
        return found
    return {key: _text(value)}


def _text(value: Any) -> str:
    """A value in one line: numbers and words as they are, the rest as JSON."""
    if value is None or value == "":
        return "" if value is None else '""'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else written(value)


def _texts(recipe: Recipe, names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """(key, text) of everything that only people read, and how the version stands."""
    yield from (("status", recipe.status), ("sunset", recipe.sunset))
    yield from _texts_in(recipe, "", names)


def _texts_in(value: Any, key: str, names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        items = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        for name, item in items:
            path = f"{key}.{name}" if key else name
            if name in TEXTS:
                yield path, item
            else:
                yield from _texts_in(item, path, names)
    elif isinstance(value, dict):
        for name, item in value.items():
            known = names.get(name, name) if key == "parameters" else name
            yield from _texts_in(item, f"{key}.{known}", names)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _texts_in(item, f"{key}.{i}", names)
