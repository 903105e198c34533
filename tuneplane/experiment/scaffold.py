"""Making an experiment: starter files, a configuration that names every parameter, and the lock."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import as_set, default_value, expectation, written
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.documents.text import flow
from tuneplane.errors import InputError, shown
from tuneplane.experiment.config import CONFIG_FILE
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
    return _make(name, files, config_text(recipe, language), lock_text(recipe))


def fork(name: str, old: Experiment, catalog: Catalog, method: str, framework_version: str) -> Path:
    """Make `./NAME` from what another experiment would freeze, with a lock on the recipe in force."""
    recipe = resolve(catalog.manifest(method), framework_version)
    files = freeze(old.folder, name=old.label)
    config = files.text(CONFIG_FILE)
    return _make(name, files, config_text(recipe, "en") if config is None else config, lock_text(recipe))


def _make(name: str, files: Snapshot, config: str, lock: str) -> Path:
    """Write the folder under another name and rename it: it is there whole or not at all."""
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


def config_text(recipe: Recipe, language: str) -> str:
    """A `config.yaml` that sets nothing and names everything that can be set."""
    lines = [
        f"# {recipe.name} on {recipe.framework} {recipe.framework_version}: {recipe.title.read(language)}",
        f"# `tp methods {recipe.name}` explains every key; what is commented out shows the default.",
    ]
    if recipe.model != "none":
        lines.append(
            f"{'' if recipe.model == 'required' else '# '}model: /path/to/model    # or a Hub id, org/name[@revision]"
        )
    if recipe.data.train != "none":
        prefix = "" if recipe.data.train == "required" else "# "
        both = "{train: data/train, validation: data/validation}"
        lines.append(
            f"{prefix}data: {both if recipe.data.validation != 'none' else '{train: data/train}'}    # {recipe.data.kind}"
        )
    if recipe.launch.words:
        lines.append("# args: [--words, for, the program]")
    if recipe.parameters:
        lines += ["", "params:"]
        lines += _parameter_lines(recipe, language)
    lines += [
        "",
        "# env: {NAME: value}",
        "# secrets: [NAME]                  # values stand in the secrets file, never here",
        "# resources: {profile: NAME:N, time: 4h}    # `tp site show` lists the profiles",
    ]
    return "\n".join(lines) + "\n"


def _parameter_lines(recipe: Recipe, language: str) -> list[str]:
    lines, group = [], ""
    for name, parameter in recipe.parameters.items():
        if parameter.group != group:
            group = parameter.group
            lines.append(f"  # -- {group}")
        default = default_value(parameter)
        setting = f"# {name}:" + ("" if default is None else f" {_yaml(parameter, default)}")
        lines.append(
            f"  {setting:<34} # {parameter.doc.read(language)}: {expectation(parameter).replace('`', '')}"
        )
    return lines


def _yaml(parameter: Parameter, value: object) -> str:
    """A default as YAML text."""
    if isinstance(value, list):
        return "[" + ", ".join(flow(written(item)) for item in value) + "]"
    return flow(as_set(parameter, value))
