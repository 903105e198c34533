"""The edge where everything a plan follows from is read: experiment, lock, catalog, site, image, data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.text import decoded, read_text
from tuneplane.documents.tree import Mark, Scalar
from tuneplane.errors import ImageError, InputError
from tuneplane.experiment.config import CONFIG_FILE, Config, Located, Written, read_config
from tuneplane.experiment.freeze import Limits, freeze
from tuneplane.experiment.locate import LOCK_FILE, Experiment, find_experiment
from tuneplane.experiment.locations import locate, locate_path
from tuneplane.experiment.lock import admit, read_lock
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.plan.build import Inputs, Request, make_plan
from tuneplane.plan.faults import Faults
from tuneplane.plan.model import Plan
from tuneplane.plan.paths import path_value
from tuneplane.runs.helper import helper
from tuneplane.runtimes.image import find_image
from tuneplane.sites.catalog import catalog_of
from tuneplane.sites.folders import place
from tuneplane.sites.load import NamedSite, load_site
from tuneplane.sites.options import USER_OPTIONS

RESOURCE_KEYS = ("profile", "time", *USER_OPTIONS)


@dataclass(frozen=True)
class Prepared:
    """A plan with what it was made from."""

    experiment: Experiment
    config: Config
    recipe: Recipe
    named_site: NamedSite
    plan: Plan
    files: Snapshot
    helper: Snapshot

    @property
    def warnings(self) -> list[str]:
        """What `submit` refuses and a compiled script ends on."""
        return [refusal.sentence for refusal in self.plan.refusals]

    def insist(self) -> None:
        """Refuse what only a compile may leave open. Raises InputError or ImageError with all of it."""
        faults = Faults()
        for refusal in self.plan.refusals:
            kind = InputError if refusal.code == InputError.exit_code else ImageError
            faults.add(kind, refusal.what, refusal.where, hint=refusal.remedy)
        if self.plan.secrets:
            from tuneplane.experiment.secrets import check_file

            file = Path(place(self.named_site.site, self.named_site.site.folders.secrets))
            try:
                check_file(file, self.plan.secrets, where=self.config.secrets[0].where)
            except InputError as error:
                faults.take(error)
        faults.check()


def prepare(word: str, site_name: str | None, request: Request, language: str = "en") -> Prepared:
    """Read everything once and make the plan. Raises what any of the parts raises."""
    named_site = load_site(site_name)
    experiment = find_experiment(word)
    config, files = _frozen(experiment, named_site, request)
    lock = read_lock(_frozen_data(experiment, files, LOCK_FILE), f"{experiment.label}/{LOCK_FILE}")
    recipe = admit(lock, catalog_of(named_site), experiment)
    site = named_site.site
    rides_along = helper()
    inputs = Inputs(
        experiment=experiment.name,
        experiment_dir=str(experiment.folder),
        config=config,
        recipe=recipe,
        site_name=named_site.name,
        site_digest=named_site.digest,
        site=site,
        request=request,
        located=_located(experiment, config, recipe, request, files, place(site, site.folders.model_cache)),
        image=find_image(request.image, recipe.runtime_id, site.runtime.images)
        if site.runtime.kind != "host"
        else None,
        has_file=frozenset(file.path for file in files.files),
        files_digest=files.digest,
        helper_digest=rides_along.digest,
        command=_command(experiment, named_site, request),
        language=language,
        config_name=f"{experiment.label}/{CONFIG_FILE}",
    )
    return Prepared(experiment, config, recipe, named_site, make_plan(inputs), files, rides_along)


def _frozen(experiment: Experiment, named_site: NamedSite, request: Request) -> tuple[Config, Snapshot]:
    """The configuration and the frozen files, the one read from the other.

    Which files are data is said in the configuration, so it is looked at first; should it change before it is
    frozen, the freeze starts again.
    """
    name = f"{experiment.label}/{CONFIG_FILE}"
    limits = Limits(named_site.site.freeze.max_bytes, named_site.site.freeze.max_files)
    text = None
    for _ in range(5):
        text = text if text is not None else read_text(experiment.folder / CONFIG_FILE, name)
        config = request.written(read_config(text, name, RESOURCE_KEYS))
        data = [Path(item.text) for item in (config.model, *config.data.values()) if item is not None]
        files = freeze(experiment.folder, name=experiment.label, exclude=data, limits=limits)
        frozen = decoded(_frozen_data(experiment, files, CONFIG_FILE), name)
        if frozen == text:
            return config, files
        text = frozen
    raise InputError.of(f"{name} keeps changing while it is read")


def _frozen_data(experiment: Experiment, files: Snapshot, name: str) -> bytes:
    """One of the two files that every snapshot holds."""
    data = files.data(name)
    if data is None:
        why = dict(files.left_out).get(name, "it is left out")
        raise InputError.of(
            f"{name} would not be frozen: {why}", f"{experiment.label}/{name}", "a regular file"
        )
    return data


def _located(
    experiment: Experiment, config: Config, recipe: Recipe, request: Request, files: Snapshot, cache: str
) -> dict[str, Located]:
    """Model, data and path parameters by key, less those that are frozen. cache: the site's model cache."""
    given = {"model": config.model, **{f"data.{key}": item for key, item in config.data.items()}}
    found = {
        key: locate(key, item, experiment.folder, cache) for key, item in given.items() if item is not None
    }
    frozen = [file.path for file in files.files]
    for name, item in _path_parameters(recipe, config, request):
        value = path_value(str(experiment.folder), frozen, item.text)
        if isinstance(value, str):
            found[f"params.{name}"] = locate_path(f"params.{name}", item, value)
    return found


def _path_parameters(recipe: Recipe, config: Config, request: Request) -> Iterator[tuple[str, Written]]:
    """The paths that the command line, or else the configuration, gives to parameters."""
    for name, parameter in recipe.parameters.items():
        names = {name, parameter.alias} - {""}
        texts = [text for key, text in request.settings if key in names]
        if parameter.type != "path":
            continue
        if texts:
            yield name, Written(texts[-1], Mark("command line"), f"--set {name}")
            continue
        for key in names & config.params.keys():
            node = config.params[key].node
            if isinstance(node, Scalar) and node.text:
                yield name, Written(node.text, config.params[key].mark, config.params[key].key)


def _command(experiment: Experiment, named_site: NamedSite, request: Request) -> tuple[str, ...]:
    """The command that prints the same script, with nothing that depends on the current folder."""
    from tuneplane.sites.load import site_files

    known = site_files().get(named_site.name) == named_site.file
    words = [
        "tp",
        "--site",
        named_site.name if known else str(named_site.file),
        "compile",
        str(experiment.folder),
    ]
    options = {
        "--profile": request.profile,
        "--time": request.time,
        "--model": request.model,
        "--train-data": request.train_data,
        "--validation-data": request.validation_data,
        "--image": os.path.abspath(request.image) if request.image else None,
    }
    for option, value in options.items():
        words += [option, value] if value is not None else []
    for key, text in request.settings:
        words += ["--set", f"{key}={text}"]
    return (*words, "--", *request.words) if request.words else tuple(words)
