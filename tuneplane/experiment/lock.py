"""`recipe.lock.json`: which recipe an experiment was made with, and the handshake with the catalog in force."""

from __future__ import annotations

import json
from dataclasses import dataclass
from shlex import quote
from typing import Any

from tuneplane import __version__
from tuneplane.catalog.load import Catalog
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.core_version import satisfies
from tuneplane.documents.text import decoded
from tuneplane.documents.tree import plain
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError, LockError, Problem, shown
from tuneplane.experiment.locate import Experiment

SCHEMA = 1


@dataclass(frozen=True)
class Lock:
    """The fields of the lock, by their dotted names: all are text."""

    fields: dict[str, str]
    name: str

    @property
    def method(self) -> str:
        return self.fields["recipe.name"]

    @property
    def framework_version(self) -> str:
        return self.fields["framework.version"]

    @property
    def digest(self) -> str:
        return self.fields["recipe.digest"]


def fields_of(recipe: Recipe) -> dict[str, str]:
    """The fields a lock on `recipe` has."""
    return {
        "recipe.name": recipe.name,
        "recipe.version": recipe.version,
        "recipe.digest": recipe.digest,
        "framework.kind": recipe.framework,
        "framework.version": recipe.framework_version,
        "framework.runtime_id": recipe.runtime_id,
        "requires.core": recipe.core,
    }


def lock_text(recipe: Recipe) -> str:
    """`recipe.lock.json` for `recipe`, the same bytes for the same recipe."""
    nested: dict[str, Any] = {"schema": SCHEMA}
    for key, value in fields_of(recipe).items():
        section, _, name = key.partition(".")
        nested.setdefault(section, {})[name] = value
    return json.dumps(nested, indent=2, ensure_ascii=True) + "\n"


def read_lock(content: bytes, name: str) -> Lock:
    """The lock of a file; `name` is what messages call it. Raises LockError when it is malformed."""
    try:
        data = plain(parse(decoded(content, name), name))
    except InputError as error:
        raise LockError(*error.problems) from None
    if data.get("schema") != SCHEMA:
        what = (
            f"the lock has schema {shown(data['schema'])}" if "schema" in data else "the lock has no `schema`"
        )
        raise LockError.of(what, f"{name} schema", str(SCHEMA), _AFRESH)
    missing = []
    fields: dict[str, str] = {}
    for key in _FIELDS:
        section, _, word = key.partition(".")
        value = data.get(section, {}).get(word) if isinstance(data.get(section), dict) else None
        if not isinstance(value, str):
            missing.append(shown(key))
        else:
            fields[key] = value
    if missing:
        raise LockError.of(f"the lock has no text for {', '.join(missing)}", name, hint=_AFRESH)
    return Lock(fields, name)


_AFRESH = "tp new NAME --method METHOD"
_FIELDS = (
    "recipe.name",
    "recipe.version",
    "recipe.digest",
    "framework.kind",
    "framework.version",
    "framework.runtime_id",
    "requires.core",
)


def admit(lock: Lock, catalog: Catalog, experiment: Experiment) -> Recipe:
    """The recipe the lock names, when lock and catalog agree on every field.

    Raises LockError naming each difference: a stale lock is refused, never upgraded in passing.
    """
    fork = f"tp new {quote(f'{experiment.name}-2')} --from {quote(experiment.label)}"
    if lock.method not in catalog.entries:
        raise LockError.of(
            f"the method {shown(lock.method)} is not in the catalog",
            f"{lock.name} recipe.name",
            hint="tp methods",
        )
    manifest = catalog.manifest(lock.method)
    if lock.framework_version not in manifest.framework.versions:
        raise LockError.of(
            f"{lock.method} has no framework version {shown(lock.framework_version)} any more",
            f"{lock.name} framework.version",
            "one of " + ", ".join(manifest.framework.versions),
            f"{fork} --framework-version {quote(manifest.framework.default)}",
        )
    recipe = resolve(manifest, lock.framework_version)
    for requirement, whose in ((lock.fields["requires.core"], "the lock"), (recipe.core, "the recipe")):
        _check_core(requirement, whose, lock.name)
    published = fields_of(recipe)
    differences = [
        Problem(
            f"the lock is stale: {key} is {shown(lock.fields[key])}",
            f"{lock.name} {key}",
            shown(published[key]),
            fork,
        )
        for key in _FIELDS
        if lock.fields[key] != published[key]
    ]
    if differences:
        raise LockError(*differences)
    return recipe


def _check_core(requirement: str, whose: str, name: str) -> None:
    try:
        met = satisfies(requirement)
    except ValueError as error:
        raise LockError.of(str(error), f"{name} requires.core", "`>=A.B,<C.D`") from None
    if not met:
        raise LockError.of(
            f"{whose} needs tuneplane {requirement}, this is {__version__}",
            f"{name} requires.core",
            hint=f"pip install 'tuneplane{requirement}'",
        )
