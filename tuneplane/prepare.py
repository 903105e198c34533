"""The edge where everything a plan follows from is read: experiment, lock, catalog, site, image, data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.params import BadValue, read_text
from tuneplane.catalog.recipe import Recipe
from tuneplane.columns import column_refusals
from tuneplane.documents.text import decoded
from tuneplane.documents.tree import Mark, Scalar
from tuneplane.errors import ImageError, InputError
from tuneplane.experiment.config import CONFIG_FILE, Config, Located, Written, read_config
from tuneplane.experiment.freeze import Limits, freeze
from tuneplane.experiment.journal import View
from tuneplane.experiment.locate import LOCK_FILE, Experiment, find_experiment
from tuneplane.experiment.locations import locate, locate_path
from tuneplane.experiment.lock import admit, read_lock
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.faults import Faults
from tuneplane.in_force import catalog_of, shelf_of
from tuneplane.plan.build import make_plan
from tuneplane.plan.command import Command, image_variable
from tuneplane.plan.files import file_of
from tuneplane.plan.images import asked_of, image_trouble, node_arch
from tuneplane.plan.inputs import Inputs, Request
from tuneplane.plan.model import Image, Plan, Refusal
from tuneplane.plan.paths import path_value
from tuneplane.runs.helper import helper
from tuneplane.runtimes.image import Wanted, found_image, named_image
from tuneplane.sites.folders import place
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site
from tuneplane.sites.options import USER_OPTIONS

RESOURCE_KEYS = ("profile", "time", *USER_OPTIONS)


@dataclass(frozen=True)
class Prepared:
    """A plan with what it was made from.

    admitted: the registry and serial, None for the bundled catalog; columns: what the data lack, where a job looks too.
    """

    experiment: Experiment
    config: Config
    recipe: Recipe
    named_site: NamedSite
    plan: Plan
    files: Snapshot
    helper: Snapshot
    admitted: dict[str, Any] | None = None
    columns: tuple[Refusal, ...] = ()

    @property
    def refusals(self) -> list[Refusal]:
        """What `submit` refuses and a compiled script ends on."""
        return [*self.plan.refusals, *self.columns, *image_trouble(self.plan.image)]

    @property
    def warnings(self) -> list[str]:
        """The same in words."""
        return [refusal.sentence for refusal in self.refusals]

    def insist(self) -> None:
        """Refuse what only a compile may leave open. Raises InputError or ImageError with all of it."""
        faults = Faults()
        for refusal in self.refusals:
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


def prepare(
    word: str, named_site: NamedSite, request: Request, language: str = "en", instead: View | None = None
) -> Prepared:
    """Read everything once and make the plan. Raises what any of the parts raises.

    instead: files of the experiment as they would be, in place of those that are there.
    """
    experiment = find_experiment(word)
    config, files = frozen(experiment, named_site.site, request, instead)
    lock = read_lock(_frozen_data(experiment, files, LOCK_FILE), f"{experiment.label}/{LOCK_FILE}")
    catalog = catalog_of(named_site)
    recipe = admit(lock, catalog, experiment)
    site = named_site.site
    if site.runtime.kind != "host":
        request = with_own_image(request, recipe)
    rides_along = helper()
    has_file = frozenset(file.path for file in files.files)
    cache = place(site, site.folders.model_cache)

    def find(key: str, item: Written, path: str | None) -> Located:
        return locate(key, item, experiment.folder, cache) if path is None else locate_path(key, item, path)

    inputs = Inputs(
        experiment=experiment.name,
        experiment_dir=str(experiment.folder),
        config=config,
        recipe=recipe,
        site_name=named_site.name,
        site_digest=named_site.digest,
        site=site,
        request=request,
        located=located(str(experiment.folder), config, recipe, request, has_file, find),
        image=_image(named_site, recipe, config, request),
        has_file=has_file,
        files_digest=files.digest,
        helper_digest=rides_along.digest,
        command=_command(experiment, named_site, request),
        language=language,
        config_name=f"{experiment.label}/{CONFIG_FILE}",
        registry=str(named_site.registry) if named_site.foreign and named_site.registry else "",
        keys=table_of_keys(catalog, recipe) if config.overrides else None,
        texts=named_texts(recipe, config, request, files),
    )
    plan = make_plan(inputs)
    columns = tuple(column_refusals(plan, recipe))
    return Prepared(experiment, config, recipe, named_site, plan, files, rides_along, catalog.origin, columns)


def _image(named_site: NamedSite, recipe: Recipe, config: Config, request: Request) -> Image | None:
    site = named_site.site
    if site.runtime.kind == "host":
        return None
    arch = node_arch(site, config)
    wanted = Wanted(recipe.runtime_id, arch, tuple(asked_of(recipe, site)), request.image, request.image_by)
    shelf = shelf_of(named_site, recipe.runtime_id) if wanted.given is None and recipe.runtime_id else None
    registered = shelf.current if shelf else {}
    return found_image(named_image(wanted, site, registered, shelf.serial if shelf else 0), registered)


def with_own_image(request: Request, recipe: Recipe) -> Request:
    """The request with the image that the user's variable for the framework names, unless an option names one."""
    name = image_variable(recipe.framework)
    own = os.environ.get(name)
    return replace(request, image=own, image_by=name) if own and request.image is None else request


def frozen(
    experiment: Experiment, site: Site, request: Request, instead: View | None = None
) -> tuple[Config, Snapshot]:
    """The configuration and the frozen files, the one read from the other.

    Which files are data is said in the configuration, so it is looked at first; should it change before it is
    frozen, the freeze starts again.
    """
    name = f"{experiment.label}/{CONFIG_FILE}"
    limits = Limits(site.freeze.max_bytes, site.freeze.max_files)
    text = None
    for _ in range(5):
        text = text if text is not None else decoded(experiment.read(CONFIG_FILE), name)
        config = request.written(read_config(text, name, RESOURCE_KEYS))
        data = [Path(item.text) for item in (config.model, *config.data.values()) if item is not None]
        files = freeze(experiment.folder, name=experiment.label, exclude=data, limits=limits, instead=instead)
        same = decoded(_frozen_data(experiment, files, CONFIG_FILE), name)
        if same == text:
            return config, files
        text = same
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


def located(
    folder: str,
    config: Config,
    recipe: Recipe,
    request: Request,
    has_file: frozenset[str],
    find: Callable[[str, Written, str | None], Located],
) -> dict[str, Located]:
    """Model, data and path parameters by key, less those that are frozen.

    folder: the experiment's; find: (key, text, path of a parameter, None for the others) → what lies there.
    """
    given = {"model": config.model, **{f"data.{key}": item for key, item in config.data.items()}}
    found = {key: find(key, item, None) for key, item in given.items() if item is not None}
    for name, item in _path_parameters(recipe, config, request):
        value = path_value(folder, has_file, item.text)
        if isinstance(value, str):
            found[f"params.{name}"] = find(f"params.{name}", item, value)
    return found


def _path_parameters(
    recipe: Recipe, config: Config, request: Request, kinds: tuple[str, ...] = ("path",)
) -> Iterator[tuple[str, Written]]:
    """The texts that the command line, or else the configuration, gives to parameters of these types."""
    for name, parameter in recipe.parameters.items():
        names = {name, parameter.alias} - {""}
        texts = [text for key, text in request.settings if key in names]
        if parameter.type not in kinds:
            continue
        if texts:
            yield name, Written(texts[-1], Mark("command line"), f"--set {name}")
            continue
        for key in names & config.params.keys():
            node = config.params[key].node
            if isinstance(node, Scalar) and node.text:
                yield name, Written(node.text, config.params[key].mark, config.params[key].key)


def table_of_keys(catalog: Catalog, recipe: Recipe) -> dict[str, str] | None:
    """Upstream's keys → their types; None where the method has no table of them."""
    if not recipe.keys:
        return None
    table: dict[str, str] = json.loads(catalog.attached(recipe.name, recipe.keys))["keys"]
    return table


def named_texts(recipe: Recipe, config: Config, request: Request, files: Snapshot) -> dict[str, str]:
    """Contents of the frozen files that parameters name by what is in them; what is no UTF-8 is left out."""
    found = {}
    kinds = ("function", "content")
    given = {name: item.text for name, item in _path_parameters(recipe, config, request, kinds)}
    defaults = {name: p.default for name, p in recipe.parameters.items() if p.type in kinds and p.default}
    for name, value in {**defaults, **given}.items():
        try:
            file = file_of(recipe.parameters[name], read_text(recipe.parameters[name], value))
            text = files.text(file) if file else None
        except (BadValue, InputError):
            continue
        if file and text is not None:
            found[file] = text
    return found


def _command(experiment: Experiment, named_site: NamedSite, request: Request) -> tuple[str, ...]:
    """The command that prints the same script, with nothing that depends on the current folder."""
    from tuneplane.sites.load import site_files

    known = site_files().get(named_site.name) == named_site.file
    if request.image is not None:
        request = replace(request, image=os.path.abspath(request.image))
    return Command(
        site=named_site.name if known else str(named_site.file),
        registry=str(named_site.registry) if named_site.foreign else "",
        experiment_dir=str(experiment.folder),
        request=request,
    ).words()
