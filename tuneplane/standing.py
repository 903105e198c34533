"""How an experiment's lock stands against the catalog in force, and what changed since it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.core_version import misfit
from tuneplane.errors import LockError, Problem
from tuneplane.experiment.difference import (
    Difference,
    Starter,
    digest_of_starter,
    digest_of_texts,
    of_fields,
    of_recipes,
    of_starters,
    of_texts,
)
from tuneplane.experiment.locate import LOCK_FILE, Experiment, find_experiment
from tuneplane.experiment.lock import Lock, admit, fields_of, read_lock
from tuneplane.experiment.succession import successors
from tuneplane.files import sha256

if TYPE_CHECKING:
    from tuneplane.registry.past import Published

CURRENT, DEPRECATED, STALE = "current", "deprecated", "stale"
VERSION_REMOVED, METHOD_REMOVED, UNKNOWN = "version removed", "method removed", "unknown here"
CORE, MALFORMED = "core", "malformed"


@dataclass(frozen=True)
class Origin:
    """What an experiment was made from. starters: every starter published with that very recipe, the newest first."""

    manifest: Manifest
    recipe: Recipe
    starters: tuple[Starter, ...]


@dataclass(frozen=True)
class Standing:
    """state: one of those above, CORE followed by ` too old` or ` too new`.

    problems: why it is not admitted; recipe: the one in force for it; origin: what it was made from, None when nobody
    knows; digests: of the texts and the starter in force, which no lock names.
    """

    name: str
    state: str
    experiment: Experiment | None = None
    lock: Lock | None = None
    recipe: Recipe | None = None
    origin: Origin | None = None
    difference: Difference = field(default_factory=Difference)
    digests: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def admitted(self) -> bool:
        return self.state in (CURRENT, DEPRECATED)


def standing(word: str, catalog: Catalog) -> Standing:
    """How the experiment `word` stands. Raises InputError when there is none of that name."""
    experiment = find_experiment(word)
    try:
        lock = lock_of(experiment)
    except LockError as error:
        return Standing(experiment.label, MALFORMED, experiment, problems=error.problems)
    problems: tuple[Problem, ...] = ()
    try:
        admit(lock, catalog, experiment)
    except LockError as error:
        problems = error.problems
    try:
        state = _state(lock, catalog)
    except ValueError:
        return Standing(experiment.label, MALFORMED, experiment, lock, problems=problems)
    except LockError as error:
        # a manifest that a newer `tp` published
        return Standing(experiment.label, f"{CORE} too old", experiment, lock, problems=error.problems)
    if not catalog.has(lock.method):
        return Standing(experiment.label, state, experiment, lock, problems=problems)
    manifest, origin = catalog.manifest(lock.method), origin_of(lock, catalog)
    recipe = resolve(manifest, version_for(lock, manifest))
    starter = starter_of(catalog, lock.method)
    return Standing(
        name=experiment.label,
        state=state,
        experiment=experiment,
        lock=lock,
        recipe=recipe,
        origin=origin,
        difference=compared(lock, origin, manifest, recipe, starter),
        digests={"texts": digest_of_texts(recipe), "starter": digest_of_starter(starter)},
        problems=problems,
    )


def lock_of(experiment: Experiment) -> Lock:
    """The experiment's lock. Raises LockError when it is malformed."""
    return read_lock(experiment.read(LOCK_FILE), f"{experiment.label}/{LOCK_FILE}")


def version_for(lock: Lock, manifest: Manifest) -> str:
    """The framework version an upgrade leads to: the lock's while there is one, else the manifest's default."""
    framework = manifest.framework
    return lock.framework_version if lock.framework_version in framework.versions else framework.default


def _state(lock: Lock, catalog: Catalog) -> str:
    """Raises ValueError when the lock's `requires.core` is no list of versions."""
    method, version = lock.method, lock.framework_version
    if not catalog.has(method):
        return UNKNOWN if catalog.last_serial(method) is None else METHOD_REMOVED
    manifest = catalog.manifest(method)
    if version not in manifest.framework.versions:
        never = catalog.origin is not None and catalog.last_serial(method, version) is None
        return UNKNOWN if never else VERSION_REMOVED
    recipe = resolve(manifest, version)
    if core := misfit(recipe.core) or misfit(lock.fields["requires.core"]):
        return f"{CORE} {core}"
    if fields_of(recipe) != lock.fields:
        return STALE
    return DEPRECATED if recipe.status == "deprecated" else CURRENT


def origin_of(lock: Lock, catalog: Catalog) -> Origin | None:
    """What the lock was made from: the newest published recipe of its digest, None when there is none."""
    version = lock.framework_version
    found = [
        published
        for published in _published(catalog, lock.method)
        if version in published.manifest.framework.versions
        and resolve(published.manifest, version).digest == lock.digest
    ]
    if not found:
        return None
    manifest = found[0].manifest
    starters = tuple(published.starter for published in found)
    return Origin(manifest, resolve(manifest, version), starters)


def _published(catalog: Catalog, method: str) -> list[Published]:
    """The method's states, the newest first; without a registry there is only the present one."""
    from tuneplane.registry.catalog import PublishedCatalog
    from tuneplane.registry.past import Published, published_before

    if isinstance(catalog, PublishedCatalog):
        return list(published_before(catalog, method))
    return [Published(0, catalog.manifest(method), dict(starter_of(catalog, method)))]


def starter_of(catalog: Catalog, method: str) -> Starter:
    """Digests of the method's starter in force."""
    from tuneplane.registry.catalog import PublishedCatalog

    if isinstance(catalog, PublishedCatalog):
        named = catalog.digests(method)
        return named[1] if named else {}
    return {path: (sha256(data), runs) for path, (data, runs) in catalog.starter(method).items()}


def compared(
    lock: Lock, origin: Origin | None, manifest: Manifest, recipe: Recipe, starter: Starter
) -> Difference:
    """What changed from the lock to `recipe`; of a recipe that nobody knows, only the lock's own fields."""
    fields = of_fields(lock.fields, fields_of(recipe))
    if origin is None:
        return Difference(fields)
    names = successors(origin.manifest, lock.framework_version, manifest, recipe.framework_version)
    return Difference(
        (*fields, *of_recipes(origin.recipe, recipe, names)),
        of_texts(origin.recipe, recipe, names),
        of_starters(origin.starters[0], starter),
    )
