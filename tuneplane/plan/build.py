"""Inputs → plan, without reading anything."""

from __future__ import annotations

from typing import Any

from tuneplane import __version__
from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, TuneplaneError, shown
from tuneplane.experiment.config import Config
from tuneplane.faults import Faults
from tuneplane.job.checks.columns import DataFile
from tuneplane.plan import apptainer
from tuneplane.plan.columns import check_paths, data_files
from tuneplane.plan.comeback import comes_back, warning
from tuneplane.plan.directives import Asked, directives
from tuneplane.plan.environment import computed, layered, platform, with_home
from tuneplane.plan.expressions import seen, sizes, surroundings
from tuneplane.plan.files import check_files
from tuneplane.plan.images import check_image, image_refusals, unchecked
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.launch import launch_options
from tuneplane.plan.model import (
    Plan,
    Pool,
    Provenance,
    Refusal,
    Setting,
    Topology,
    Value,
)
from tuneplane.plan.mounts import check_mounts
from tuneplane.plan.paths import site_path
from tuneplane.plan.pools import components, pools
from tuneplane.plan.settings import check_rules, derived, settle
from tuneplane.plan.topology import time_limit
from tuneplane.plan.words import command, not_parameters, upstream
from tuneplane.sites.model import Site


def make_plan(inputs: Inputs) -> Plan:
    """The plan. Raises the error with the lowest exit code, holding every problem found."""
    faults = Faults()
    config, recipe, site = inputs.config, inputs.recipe, inputs.site
    held = pools(site, recipe.launch, config, recipe.name, faults)
    made = held[0].topology if held else None
    seconds = _seconds(site, held, config, faults)
    settings = settle(recipe, config, inputs.request.settings, faults)
    _check_needs(inputs, faults)
    _check_tracking(config, recipe, faults)
    check_files(inputs, settings, faults)
    check_paths(inputs, faults)
    told: list[Setting] = []
    variables: dict[str, Value] = {}
    data: tuple[DataFile, ...] = ()
    # rules see values and topology: they speak only when both are sound
    if made is not None and not faults.found:
        around = {**surroundings(inputs), **sizes(recipe, held)}
        settings = derived(recipe, settings, around, faults)
        check_rules(recipe, settings, around, made.profile, inputs.language, faults)
        values = {**around, **seen(inputs, settings)}
        told = upstream(inputs, settings, values, faults)
        variables = computed(recipe, values, faults)
        data = data_files(inputs, values, faults)
    words = command(inputs, told, faults)
    cache = site_path(site.folders.model_cache)
    base = platform(held, inputs.located, site.network.online, cache) if held else []
    own = {**recipe.environment, **variables}
    environment = layered(with_home(base, words), site.environment, own, config, faults)
    names = {"experiment": inputs.experiment, "method": recipe.name}
    resume, why_not = comes_back(site, recipe)
    notice = warning(site, recipe, resume, seconds)
    request = Asked(
        site, seconds, config.resources, names, resume is not None and resume.policy == "requeue", notice
    )
    lines = directives(request, list(components(held)), faults)
    faults.check()
    assert made is not None
    requires = unchecked(inputs)
    plan = Plan(
        provenance=_provenance(inputs),
        scheduler=site.scheduler,
        runtime=site.runtime.kind,
        topology=made,
        seconds=seconds,
        launch_kind=recipe.launch.kind,
        words=words,
        settings=tuple(settings),
        environment=tuple(environment),
        told=tuple(not_parameters(recipe, told)),
        directives=tuple(lines) if site.scheduler == "slurm" else (),
        params=_params(inputs, settings),
        secrets=tuple(sorted({secret.text for secret in config.secrets})),
        image=inputs.image,
        requires=requires,
        located=tuple(inputs.located.values()),
        refusals=tuple(refusals(inputs)),
        pools=tuple(held) if len(held) > 1 else (),
        launch=launch_options(site, recipe, held, requires, data),
        warning=notice,
        resume=resume,
        why_not=why_not,
        data=data,
    )
    if plan.runtime != "host":
        check_mounts(plan)
    if plan.runtime == "apptainer":
        apptainer.check(plan)
    return plan


def refusals(inputs: Inputs) -> list[Refusal]:
    """What is not there now."""
    found = [
        Refusal(InputError.exit_code, item.missing, item.where, item.remedy)
        for item in inputs.located.values()
        if item.missing
    ]
    return [*found, *image_refusals(inputs)]


def _seconds(site: Site, held: list[Pool], config: Config, faults: Faults) -> int:
    time = config.resources.get("time")
    text, where = (time.text, time.where) if time else (site.default_time, "site")
    found = 0
    parts: list[Topology | None] = [pool.topology for pool in held]
    try:
        for made in parts or [None]:
            found = time_limit(site, made, text, where)
    except TuneplaneError as error:
        faults.take(error)
    return found


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
            f"{recipe.name} runs {shown(entry)}, and no such file would be frozen",
            file,
            hint=f"write {entry}, or look for it in `.tpignore` and `.gitignore`",
        )
    check_image(inputs, faults)


def _check_tracking(config: Config, recipe: Recipe, faults: Faults) -> None:
    for item in config.tracking:
        if item.text not in recipe.tracking:
            expected = "one of " + ", ".join(f"`{word}`" for word in recipe.tracking)
            if recipe.tracking == ["console"]:
                expected = "`console`; its metrics come through `tuneplane.report`"
            faults.add(
                InputError, f"{recipe.name} does not track to {shown(item.text)}", item.where, expected
            )
        elif item.text == "wandb" and WANDB_KEY not in [secret.text for secret in config.secrets]:
            what = "`wandb` needs its key"
            faults.add(
                InputError, what, item.where, hint=f"secrets: [{WANDB_KEY}], the value in the secrets file"
            )


WANDB_KEY = "WANDB_API_KEY"


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
        registry=inputs.registry,
    )
