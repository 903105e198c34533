"""Inputs → plan, without reading anything."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from tuneplane import __version__
from tuneplane.catalog.params import written
from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.tree import Mark
from tuneplane.errors import ImageError, InputError, SiteError, TuneplaneError, shown
from tuneplane.experiment.config import COMMAND_LINE, CONFIG_FILE, Config, Written
from tuneplane.plan.directives import directives
from tuneplane.plan.environment import layered, platform
from tuneplane.plan.faults import Faults
from tuneplane.plan.limits import too_long
from tuneplane.plan.model import Image, Located, Plan, Provenance, Ref, Refusal, Setting, Topology, Value
from tuneplane.plan.settings import check_rules, settle
from tuneplane.plan.topology import time_limit, topology
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Request:
    """What the command line adds to the experiment. settings: (key, text) of each `--set`."""

    profile: str | None = None
    time: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    train_data: str | None = None
    validation_data: str | None = None
    image: str | None = None
    words: tuple[str, ...] = ()

    def written(self, config: Config) -> Config:
        """`config` with the model, data, resources and words that the command line names in their place."""
        mark = Mark(COMMAND_LINE)

        def over(text: str | None, option: str, below: Written | None) -> Written | None:
            lost = ((CONFIG_FILE, below.text, below.where),) if below else ()
            return Written(text, mark, option, lost) if text is not None else below

        data = dict(config.data)
        for key, text, option in (
            ("train", self.train_data, "--train-data"),
            ("validation", self.validation_data, "--validation-data"),
        ):
            if item := over(text, option, data.get(key)):
                data[key] = item
        resources = dict(config.resources)
        for key, text in (("profile", self.profile), ("time", self.time)):
            if item := over(text, f"--{key}", resources.get(key)):
                resources[key] = item
        return Config(
            model=over(self.model, "--model", config.model),
            data=data,
            params=config.params,
            overrides=config.overrides,
            env=config.env,
            secrets=config.secrets,
            tracking=config.tracking,
            resources=resources,
            args=[Written(word, mark, "--") for word in self.words] if self.words else config.args,
        )


@dataclass(frozen=True)
class Inputs:
    """All that a plan follows from. config: already with what the command line says in its place."""

    experiment: str
    experiment_dir: str
    config: Config
    recipe: Recipe
    site_name: str
    site_digest: str
    site: Site
    request: Request
    located: dict[str, Located]
    image: Image | None
    has_file: frozenset[str]
    files_digest: str
    helper_digest: str
    command: tuple[str, ...] = ()
    language: str = "en"
    config_name: str = "config.yaml"


def make_plan(inputs: Inputs) -> Plan:
    """The plan. Raises the error with the lowest exit code, holding every problem found."""
    faults = Faults()
    config, recipe, site = inputs.config, inputs.recipe, inputs.site
    made, seconds = _placement(site, config, faults)
    settings = settle(recipe, config, inputs.request.settings, faults)
    _check_needs(inputs, faults)
    _check_tracking(config, recipe, faults)
    # rules see values and topology: they speak only when both are sound
    if made is not None and not faults.found:
        check_rules(recipe, settings, made, inputs.language, faults)
    words = _words(inputs, settings, faults)
    faults.check()
    assert made is not None
    base = platform(made, inputs.located, site.network.online, home_path(site.folders.model_cache))
    variables = layered(base, site.environment, recipe.environment, config, faults)
    lines = directives(
        site,
        made,
        seconds,
        config.resources,
        {"experiment": inputs.experiment, "method": recipe.name},
        faults,
    )
    faults.check()
    return Plan(
        provenance=_provenance(inputs),
        scheduler=site.scheduler,
        runtime=site.runtime.kind,
        topology=made,
        seconds=seconds,
        launch_kind=recipe.launch.kind,
        words=words,
        settings=tuple(settings),
        environment=tuple(variables),
        directives=tuple(lines) if site.scheduler == "slurm" else (),
        params=_params(inputs, settings),
        secrets=tuple(sorted({secret.text for secret in config.secrets})),
        image=inputs.image,
        located=tuple(inputs.located.values()),
        refusals=tuple(refusals(inputs)),
    )


def home_path(folder: str) -> Value | None:
    """A folder of the site file as a value: below the user's home when it starts with `~/`."""
    if not folder:
        return None
    return Ref("home", folder[1:]) if folder.startswith("~/") else folder


def refusals(inputs: Inputs) -> list[Refusal]:
    """What is not there now."""
    found = [
        Refusal(InputError.exit_code, item.missing, item.where, item.remedy)
        for item in inputs.located.values()
        if item.missing
    ]
    image = inputs.image
    if image is not None and image.sha256 is None:
        what = f"the image {shown(image.path, 400)} does not exist"
        found.append(Refusal(ImageError.exit_code, what, image.source))
    return found


def _placement(site: Site, config: Config, faults: Faults) -> tuple[Topology | None, int]:
    profile = config.resources.get("profile")
    try:
        made = topology(
            site, profile.text if profile else site.default_profile, profile.where if profile else "site"
        )
    except TuneplaneError as error:
        faults.take(error)
        return None, 0
    time = config.resources.get("time")
    try:
        if site.scheduler == "local" and made.nodes > 1:
            raise SiteError.of(
                f"{shown(made.profile)} is {made.nodes} nodes", profile.where if profile else "", "one node"
            )
        return made, time_limit(
            site, made, time.text if time else site.default_time, time.where if time else "site"
        )
    except TuneplaneError as error:
        faults.take(error)
        return made, 0


def _check_needs(inputs: Inputs, faults: Faults) -> None:
    """Model, data, entry file and image: what the method needs is named, what it does not take is not."""
    config, recipe = inputs.config, inputs.recipe
    file = inputs.config_name
    given = {
        "model": config.model,
        "data.train": config.data.get("train"),
        "data.validation": config.data.get("validation"),
    }
    needs = {
        "model": recipe.model,
        "data.train": recipe.data.train,
        "data.validation": recipe.data.validation,
    }
    for key, need in needs.items():
        item = given[key]
        if need == "required" and item is None:
            faults.add(InputError, f"{recipe.name} needs {shown(key)}", file, "a path or a Hub id")
        elif need == "none" and item is not None:
            faults.add(
                InputError,
                f"{recipe.name} takes no {shown(key)}",
                item.where,
                hint=f"tp methods {recipe.name}",
            )
    entry = recipe.launch.entry.experiment
    if entry and entry not in inputs.has_file:
        faults.add(
            InputError,
            f"{recipe.name} runs {shown(entry)}, and the experiment has none",
            file,
            hint=f"write {entry}",
        )
    container = inputs.site.runtime.kind != "host"
    if container and inputs.image is None:
        wanted = f"for {shown(recipe.runtime_id)}" if recipe.runtime_id else f"for {recipe.name}"
        faults.add(ImageError, f"this site has no image {wanted}", hint="--image FILE.sif")
    if not container and inputs.request.image:
        faults.add(SiteError, "this site runs on the host, without images", "--image")


def _check_tracking(config: Config, recipe: Recipe, faults: Faults) -> None:
    for item in config.tracking:
        if item.text != "console":
            expected = "`console`; its metrics come through `tuneplane.report`"
            faults.add(
                InputError, f"{recipe.name} does not track to {shown(item.text)}", item.where, expected
            )


def _words(inputs: Inputs, settings: list[Setting], faults: Faults) -> tuple[Value, ...]:
    """The command after the launcher: interpreter, entry, parameters, the user's own words."""
    config, recipe = inputs.config, inputs.recipe
    launch = recipe.launch
    entry: list[Value] = ["-m", launch.entry.module] if launch.entry.module else [launch.entry.experiment]
    words: list[Value] = [*launch.interpreter, *entry]
    if recipe.config.style == "flags":
        words += _flags(inputs, settings)
    if config.args and not launch.words:
        faults.add(
            InputError,
            f"{recipe.name} takes no words of its own",
            config.args[0].where,
            "parameters",
            f"tp methods {recipe.name}",
        )
    for item in config.args if launch.words else []:
        if too_long(item.text):
            faults.add(
                InputError, f"the word has {len(item.text.encode())} bytes", item.where, "less than 128 KiB"
            )
        if "\0" in item.text:
            faults.add(InputError, "the word holds a NUL character", item.where)
        words.append(item.text)
    for setting in settings:
        if isinstance(setting.value, str) and too_long(setting.value):
            faults.add(
                InputError,
                f"the value has {len(setting.value.encode())} bytes",
                setting.where,
                "less than 128 KiB",
            )
    return tuple(words)


def _flags(inputs: Inputs, settings: list[Setting]) -> list[Value]:
    """`--path=value` in one word each, so that a value that begins with `-` stays a value."""
    words: list[Value] = []
    for setting in sorted(settings, key=lambda setting: inputs.recipe.parameters[setting.key].path):
        parameter = inputs.recipe.parameters[setting.key]
        if isinstance(setting.value, list):
            words += (
                [f"--{parameter.path}", *(written(item) for item in setting.value)] if setting.value else []
            )
        elif setting.value is not None and parameter.type == "path":
            words.append(_path_word(inputs, f"--{parameter.path}=", setting.value))
        elif setting.value is not None:
            words.append(f"--{parameter.path}={written(setting.value)}")
    return words


def _path_word(inputs: Inputs, prefix: str, text: str) -> Value:
    """The frozen copy of a file of the experiment; any other path where it lies."""
    inside = posixpath.normpath(text)
    if not text.startswith("/") and inside in inputs.has_file:
        return Ref("files", f"/{inside}", prefix)
    return prefix + posixpath.normpath(posixpath.join(inputs.experiment_dir, text))


def _params(inputs: Inputs, settings: list[Setting]) -> dict[str, Any]:
    """What `TUNEPLANE_PARAMS` holds: parameters that have a value, and the user's words."""
    values: dict[str, Any] = {setting.key: setting.value for setting in settings if setting.value is not None}
    return {
        "method": inputs.recipe.name,
        "params": values,
        "args": [item.text for item in inputs.config.args],
    }


def _provenance(inputs: Inputs) -> Provenance:
    recipe = inputs.recipe
    return Provenance(
        tool_version=__version__,
        method=recipe.name,
        recipe_version=recipe.version,
        recipe_digest=recipe.digest,
        framework=recipe.framework,
        framework_version=recipe.framework_version,
        runtime_id=recipe.runtime_id,
        site=inputs.site_name,
        site_digest=inputs.site_digest,
        experiment=inputs.experiment,
        experiment_dir=inputs.experiment_dir,
        files_digest=inputs.files_digest,
        files_count=len(inputs.has_file),
        helper_digest=inputs.helper_digest,
        command=inputs.command,
    )
