"""The `config.yaml` that an experiment begins with: it names everything that can be set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tuneplane.catalog.manifest import TRAINER
from tuneplane.catalog.params import default_value
from tuneplane.catalog.recipe import Recipe
from tuneplane.catalog.takes import group_name, grouped, takes
from tuneplane.documents.text import flow
from tuneplane.experiment.carried import Carried
from tuneplane.experiment.setting import setting_text


def config_text(recipe: Recipe, language: str, carried: Carried | None = None) -> str:
    """A configuration that sets what is carried over and nothing else."""
    kept = carried or Carried()
    lines = [
        f"# {recipe.name} on {recipe.framework} {recipe.framework_version}: {recipe.title.read(language)}",
        f"# `tp methods {recipe.name}` explains every key; what is commented out shows the default.",
        *_inputs(recipe, kept),
    ]
    if kept.args:
        lines.append(f"args: {_list(kept.args)}")
    elif recipe.launch.words:
        lines.append("# args: [--words, for, the program]")
    if recipe.parameters:
        lines += ["", "params:", *_parameters(recipe, language, kept.params)]
    lines += ["", *_overrides(recipe, kept), *_rest(recipe, kept)]
    return "\n".join(lines) + "\n"


def _inputs(recipe: Recipe, kept: Carried) -> Iterator[str]:
    if recipe.model != "none":
        mark = "" if kept.model or recipe.model == "required" else "# "
        yield f"{mark}model: {flow(kept.model or '/path/to/model')}    # or a Hub id, org/name[@revision]"
    data = recipe.data
    if data.train != "none" or data.validation != "none":
        named = {part: f"data/{part}" for part in ("train", "validation") if getattr(data, part) != "none"}
        if kept.data:
            # what is needed and not there still wants to be named
            named = {part: text for part, text in named.items() if getattr(data, part) == "required"}
            named |= {part: _one_or_list(paths) for part, paths in kept.data.items()}
        mark = "" if kept.data or "required" in (data.train, data.validation) else "# "
        parts = [f"{part}: {named[part]}" for part in ("train", "validation") if part in named]
        yield f"{mark}data: {{{', '.join(parts)}}}    # {data.kind}"


def _parameters(recipe: Recipe, language: str, kept: Mapping[str, str]) -> Iterator[str]:
    colon = "：" if language == "zh" else ": "
    for group, members in grouped(recipe.parameters).items():
        yield f"  # -- {group_name(group, language)}"
        for name, parameter in members.items():
            default = default_value(parameter)
            setting = f"# {name}:" + ("" if default is None else f" {setting_text(parameter, default)}")
            if name in kept:
                setting = f"{name}: {kept[name]}"
            yield f"  {setting:<34} # {parameter.doc.read(language)}{colon}{takes(parameter, language)}"


def _overrides(recipe: Recipe, kept: Carried) -> Iterator[str]:
    if kept.overrides:
        yield "overrides:"
        yield from (f"  {key}: {value}" for key, value in kept.overrides.items())
    elif recipe.keys:
        yield "# overrides: {upstream.key: value}    # what has no name above"


def _rest(recipe: Recipe, kept: Carried) -> Iterator[str]:
    if kept.env:
        yield "env:"
        yield from (f"  {name}: {flow(text)}" for name, text in kept.env.items())
    else:
        yield "# env: {NAME: value}"
    names = _list(kept.secrets) if kept.secrets else "[NAME]"
    yield f"{'' if kept.secrets else '# '}secrets: {names:<23} # values stand in the secrets file, never here"
    if kept.tracking:
        yield f"tracking: {_list(kept.tracking)}"
    elif recipe.tracking != ["console"]:
        yield f"# tracking: [console, tensorboard]    # of {', '.join(recipe.tracking)}"
    yield from _resources(recipe, kept)


def _resources(recipe: Recipe, kept: Carried) -> Iterator[str]:
    hint = "# `tp site show` lists the profiles"
    if kept.resources or kept.pools:
        yield f"resources:    {hint}"
        yield from (f"  {key}: {flow(text)}" for key, text in kept.resources.items())
        if kept.pools:
            yield "  pools:"
            yield from (f"    {flow(roles)}: {flow(text)}" for roles, text in kept.pools.items())
        return
    needed = [pool.roles[0] for pool in recipe.launch.pools.values() if pool.need == "required"]
    if needed:
        pools = ", ".join(f"{role}: NAME:N" for role in (TRAINER, *needed))
        yield f"# resources: {{pools: {{{pools}}}, time: 4h}}    {hint}"
    else:
        yield f"# resources: {{profile: NAME:N, time: 4h}}    {hint}"


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(flow, words)) + "]"


def _one_or_list(paths: Sequence[str]) -> str:
    return flow(paths[0]) if len(paths) == 1 else _list(paths)
