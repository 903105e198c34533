"""Upgrading an experiment to the recipe in force: everything is decided first, then written all at once."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import partial

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.errors import InputError, shown
from tuneplane.experiment.carrying import digest_of
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.difference import Difference, Starter
from tuneplane.experiment.journal import View, Write, write_all
from tuneplane.experiment.locate import LOCK_FILE, Experiment
from tuneplane.experiment.lock import Lock, admit, fields_of, lock_text, read_lock
from tuneplane.experiment.snapshot import FrozenFile
from tuneplane.experiment.starter import Move, starter_moves
from tuneplane.files import sha256
from tuneplane.moving import Succession, moved_config
from tuneplane.prepare import table_of_keys
from tuneplane.sites.model import Site
from tuneplane.standing import Origin, compared, lock_of, origin_of, starter_of, version_for


@dataclass(frozen=True)
class Upgrade:
    """What an upgrade would do. known: whether the recipe that the experiment was made with is known."""

    experiment: Experiment
    lock: Lock
    recipe: Recipe
    known: bool
    difference: Difference
    moves: tuple[Move, ...]
    writes: tuple[Write, ...]

    @property
    def files(self) -> View:
        """The files as they would be."""
        return {w.path: FrozenFile(w.path, w.after, bool(w.mode & stat.S_IXUSR)) for w in self.writes}


def plan_upgrade(
    experiment: Experiment, catalog: Catalog, site: Site, framework_version: str | None, language: str = "en"
) -> Upgrade:
    """What is to be done; nothing is written.

    Raises LockError when the lock names nothing in force, InputError when the configuration does not fit the new
    recipe, with every fault.
    """
    lock = lock_of(experiment)
    if not catalog.has(lock.method):
        admit(lock, catalog, experiment)
    manifest = catalog.manifest(lock.method)
    recipe = resolve(manifest, framework_version or version_for(lock, manifest))
    text = lock_text(recipe)
    admit(read_lock(text.encode(), lock.name), catalog, experiment)
    origin, starter = origin_of(lock, catalog), starter_of(catalog, lock.method)
    moves, writes = starter_moves(
        experiment.folder, catalog.starter(lock.method), _known(lock, recipe, origin, starter)
    )
    old, keys = origin.manifest if origin else None, partial(table_of_keys, catalog, recipe)
    change = Succession(lock.framework_version, manifest, recipe, old, keys)
    data = experiment.read(CONFIG_FILE)
    moved, renamed = moved_config(data, f"{experiment.label}/{CONFIG_FILE}", change, site, language)
    moves += renamed
    if renamed:
        writes.append(_rewritten(experiment, CONFIG_FILE, data, moved))
    if fields_of(recipe) != lock.fields:
        writes.append(_rewritten(experiment, LOCK_FILE, experiment.read(LOCK_FILE), text.encode()))
        what = f"{recipe.name} {recipe.version} on {recipe.framework} {recipe.framework_version}"
        moves.append(Move(LOCK_FILE, "locked", what))
    _check_entry(experiment, recipe, writes)
    difference = compared(lock, origin, manifest, recipe, starter)
    return Upgrade(experiment, lock, recipe, origin is not None, difference, tuple(moves), tuple(writes))


def carry_out(upgrade: Upgrade) -> None:
    """Write what was planned, all of it or nothing. Raises InputError when a file changed since it was planned."""
    if upgrade.writes and not write_all(upgrade.experiment.folder, upgrade.writes):
        label = upgrade.experiment.label
        what = f"a file of {shown(label, 300)} changed while it was upgraded: nothing is upgraded"
        raise InputError.of(what, hint="the same once more")


def _known(lock: Lock, recipe: Recipe, origin: Origin | None, now: Starter) -> tuple[Starter, ...] | None:
    """The starters an unedited file can be from; under a current lock that in force is one of them."""
    if origin is not None:
        return origin.starters
    return (now,) if recipe.digest == lock.digest else None


def _rewritten(experiment: Experiment, file: str, before: bytes, after: bytes) -> Write:
    """Raises InputError for a file that is a link: its target may be others' as well."""
    if digest_of(experiment.folder, file) != sha256(before):
        name = f"{experiment.label}/{file}"
        link = os.path.islink(experiment.folder / file)
        what = "is a link, whose target may be others' too" if link else "changes while it is read"
        raise InputError.of(f"{shown(name, 300)} {what}", name, "a regular file at rest")
    mode = stat.S_IMODE(os.lstat(experiment.folder / file).st_mode)
    return Write(file, sha256(before), after, mode)


def _check_entry(experiment: Experiment, recipe: Recipe, writes: list[Write]) -> None:
    """What the new recipe starts is there. Raises InputError."""
    entry = recipe.launch.entry.experiment
    written = {write.path for write in writes}
    if entry and entry not in written and not os.path.isfile(experiment.folder / entry):
        what = f"{recipe.name} runs {shown(entry)} now, and there is no such file"
        raise InputError.of(what, experiment.label, hint=f"write {entry}, then the same once more")
