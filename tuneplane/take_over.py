"""A new experiment of another method, made from one that is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.params import function_of
from tuneplane.catalog.recipe import Recipe
from tuneplane.crossing import Crossing, cross, parameter_value, read_old
from tuneplane.documents.text import flow
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.difference import Starter
from tuneplane.experiment.first_config import config_text
from tuneplane.experiment.freeze import freeze
from tuneplane.experiment.locate import LOCK_FILE, Experiment
from tuneplane.experiment.lock import Lock, lock_text
from tuneplane.experiment.merging import merged_files
from tuneplane.experiment.scaffold import make
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.faults import Faults
from tuneplane.plan.files import check_function
from tuneplane.standing import origin_of, starter_of


def take_over(
    name: str, old: Experiment, lock: Lock, catalog: Catalog, new: Recipe, language: str
) -> tuple[Path, Crossing]:
    """Make `./NAME` of the method `new` from the experiment `old`. Raises InputError; then nothing is left behind."""
    made = read_old(old, lock, catalog, new)
    inputs = [item for item in (made.config.model, *made.config.data.values()) if item is not None]
    frozen = freeze(old.folder, name=old.label, exclude=[Path(item.text) for item in inputs])
    mine = Snapshot(tuple(file for file in frozen.files if file.path not in (CONFIG_FILE, LOCK_FILE)))
    starter = catalog.starter(new.name)
    files, made.moves = merged_files(mine, starter, _starters(lock, catalog))
    fresh = {path for path, (data, _) in starter.items() if files.data(path) == data}
    moved = _path_from(old.folder, Path.cwd() / name, {file.path for file in mine.files})
    cross(made, catalog, moved, fresh)
    made.notes += _functions(made, files, fresh)
    return make(name, files, config_text(new, language, made.carried), lock_text(new)), made


def _starters(lock: Lock, catalog: Catalog) -> Sequence[Starter]:
    """The starters that the experiment's files can be from."""
    if not catalog.has(lock.method):
        return ()
    origin = origin_of(lock, catalog)
    return origin.starters if origin else (starter_of(catalog, lock.method),)


def _functions(made: Crossing, files: Snapshot, fresh: Collection[str]) -> Iterator[str]:
    """What is to be looked at in the user's files whose functions the new method calls."""
    old, new, params = made.old, made.new, made.carried.params
    for name, parameter in new.parameters.items():
        if parameter.type != "function" or params.keys() & set(parameter.excludes):
            continue
        text = params.get(name) or (flow(str(parameter.default)) if parameter.default is not None else "")
        if not text:
            continue
        file, function = function_of(parameter, parameter_value(parameter, text))
        content, faults = files.text(file), Faults()
        if content is None:
            yield f"{name}: there is no file {file}"
            continue
        check_function(content, file, function, "", faults)
        yield from (
            f"{name}: {p.what}, which {new.name} calls, expected {p.expected}" for _, p in faults.found
        )
        if not faults.found and file not in fresh and old is not None and old.framework != new.framework:
            yield f"{name}: {new.framework} may call {function} of {file} with other arguments than {old.framework}"


def _path_from(old: Path, new: Path, frozen: set[str]) -> Callable[[str], str]:
    """A path of an experiment in `old` → the same for one in `new`, which has the frozen files itself."""

    def moved(text: str) -> str:
        if text.startswith(("/", "~")):
            return text
        path = os.path.normpath(os.path.join(old, text))
        inside = os.path.relpath(path, old)
        if not os.path.exists(path) or any(f == inside or f.startswith(f"{inside}/") for f in frozen):
            return text
        return os.path.relpath(path, new)

    return moved
