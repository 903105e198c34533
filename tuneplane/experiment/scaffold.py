"""Making an experiment: files, a configuration that names every parameter, and the lock."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.recipe import resolve
from tuneplane.errors import InputError, shown
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.first_config import config_text
from tuneplane.experiment.freeze import freeze
from tuneplane.experiment.locate import LOCK_FILE, Experiment, check_name
from tuneplane.experiment.lock import lock_text
from tuneplane.experiment.snapshot import Snapshot


def scaffold(name: str, catalog: Catalog, method: str, framework_version: str | None, language: str) -> Path:
    """Make `./NAME` from the method's starter. Raises InputError; then nothing is left behind."""
    recipe = resolve(catalog.manifest(method), framework_version)
    starter = catalog.starter(method)
    contents = {path: data for path, (data, _) in starter.items()}
    files = Snapshot.of(contents, [path for path, (_, executable) in starter.items() if executable])
    return make(name, files, config_text(recipe, language), lock_text(recipe))


def fork(name: str, old: Experiment, catalog: Catalog, method: str, framework_version: str) -> Path:
    """Make `./NAME` from what another experiment would freeze, with a lock on the recipe in force."""
    recipe = resolve(catalog.manifest(method), framework_version)
    files = freeze(old.folder, name=old.label)
    config = files.text(CONFIG_FILE)
    return make(name, files, config_text(recipe, "en") if config is None else config, lock_text(recipe))


def make(name: str, files: Snapshot, config: str, lock: str) -> Path:
    """Write the folder `./NAME` under another name and rename it: it is there whole or not at all.

    config, lock: the texts of these two files, also where `files` has others. Raises InputError.
    """
    check_name(name)
    target = Path(name)
    if os.path.lexists(target):
        raise InputError.of(f"{shown(name)} is there already", hint="another name")
    try:
        work = Path(tempfile.mkdtemp(prefix=".tp-new-", dir="."))
    except OSError as error:
        raise InputError.of(f"cannot write to the current folder: {error.strerror}") from None
    try:
        made = work / "experiment"
        files.write(made)
        for file in files.files:
            if not file.target:
                (made / file.path).chmod(0o755 if file.executable else 0o644)
        for part, text in ((CONFIG_FILE, config), (LOCK_FILE, lock)):
            (made / part).write_text(text, encoding="utf-8")
        os.rename(made, target)
    except OSError as error:
        raise InputError.of(f"cannot make {shown(name)}: {error.strerror}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
