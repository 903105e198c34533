"""`recipe.lock.json`: which recipe an experiment was made with, and the handshake with the catalog in force."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from tuneplane import __version__
from tuneplane.catalog.interface import Catalog
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
        raise LockError(*(replace(p, hint=p.hint or _AFRESH) for p in error.problems)) from None
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
    upgrade = f"tp recipe upgrade {quote(experiment.label)}"
    if not catalog.has(lock.method):
        what = f"the method {shown(lock.method)} {_gone(catalog, lock.method)}"
        raise LockError.of(what, f"{lock.name} recipe.name", hint="tp methods")
    manifest = catalog.manifest(lock.method)
    if lock.framework_version not in manifest.framework.versions:
        gone = _gone(catalog, lock.method, lock.framework_version)
        raise LockError.of(
            f"the framework version {shown(lock.framework_version)} of {lock.method} {gone}",
            f"{lock.name} framework.version",
            "one of " + ", ".join(manifest.framework.versions),
            f"{upgrade} --framework-version {quote(manifest.framework.default)}",
        )
    recipe = resolve(manifest, lock.framework_version)
    _check_core(recipe.core, "the recipe", lock.name)
    _check_core(lock.fields["requires.core"], "the lock", lock.name, upgrade)
    published = fields_of(recipe)
    differences = [
        Problem(
            f"the lock is stale: {key} is {shown(lock.fields[key])}",
            f"{lock.name} {key}",
            shown(published[key]),
            upgrade,
        )
        for key in _FIELDS
        if lock.fields[key] != published[key]
    ]
    if differences:
        raise LockError(*differences)
    return recipe


def deprecation(recipe: Recipe, experiment: Experiment) -> list[str]:
    """What a user should know of a framework version that is admitted for a while only."""
    if recipe.status != "deprecated":
        return []
    version = f"{recipe.framework} {recipe.framework_version}"
    upgrade = f"tp recipe upgrade {quote(experiment.label)} --framework-version V"
    return [
        f"{recipe.name} on {version} is deprecated and goes on {recipe.sunset}; "
        f"`tp methods {recipe.name}` shows the versions V that stay, `{upgrade}` moves to one"
    ]


def _gone(catalog: Catalog, method: str, framework_version: str = "") -> str:
    """Whether what is not in the catalog was published once, in words."""
    if catalog.origin is None:
        return "is not in the catalog"
    last = catalog.last_serial(method, framework_version)
    if last is None:
        return "is unknown here: no serial of the registry has it"
    return f"has been removed: serial {last} was the last that had it"


def _check_core(requirement: str, whose: str, name: str, upgrade: str = "") -> None:
    """Refuse what is for another `tp`; where only the lock is behind, `upgrade` renews it."""
    where = f"{name} requires.core"
    try:
        unmet = [clause.strip() for clause in requirement.split(",") if not satisfies(clause)]
    except ValueError:
        what = f"{shown(requirement)} is not a list of versions"
        raise LockError.of(what, where, "`>=A.B,<C.D`", upgrade) from None
    if unmet:
        age = "too old" if any(clause.startswith(">") for clause in unmet) else "too new"
        what = f"tuneplane {__version__} is {age}: {whose} needs {requirement}"
        install = f"pip install 'tuneplane{requirement}'"
        raise LockError.of(what, where, hint=upgrade if upgrade and age == "too new" else install)
