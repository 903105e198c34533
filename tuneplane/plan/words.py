"""The command after the launcher: interpreter, entry, what upstream is told, the user's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import function_of, sent, written
from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, TuneplaneError, shown
from tuneplane.faults import Faults
from tuneplane.plan import hydra
from tuneplane.plan.expressions import evaluated
from tuneplane.plan.files import file_of
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.limits import too_long
from tuneplane.plan.model import Ref, Setting, Value
from tuneplane.plan.overrides import override_values
from tuneplane.plan.paths import path_value


def command(inputs: Inputs, told: Sequence[Setting], faults: Faults) -> tuple[Value, ...]:
    """All words. told: what upstream is told, see `upstream`."""
    launch = inputs.recipe.launch
    entry: list[Value] = ["-m", launch.entry.module] if launch.entry.module else [launch.entry.experiment]
    # torchrun and Accelerate start a module themselves
    python = ["python3"] if launch.entry.module and launch.kind in ("process", "ray") else []
    words: list[Value] = [*(launch.interpreter or python), *entry]
    for setting in told:
        words += _words(inputs, setting, faults)
    return (*words, *_own_words(inputs, faults))


def upstream(
    inputs: Inputs, settings: Sequence[Setting], values: Mapping[str, Any], faults: Faults
) -> list[Setting]:
    """What upstream is told under its own keys, sorted: pinned, owned by tp, parameters, overrides.

    values: what expressions see. A parameter stands over a pin of its key.
    """
    recipe = inputs.recipe
    if recipe.config.style == "argv":
        return []
    told = {
        key: Setting(key, hydra.Raw(text), f"pinned by {recipe.name}") for key, text in recipe.pinned.items()
    }
    for key, owned in recipe.owned.items():
        try:
            value = evaluated(owned.value, values) if owned.value else None
        except TuneplaneError as error:
            faults.take(error)
            continue
        if value not in (None, []):
            told[key] = Setting(key, value, owned.by)
    for setting in settings:
        parameter = recipe.parameters[setting.key]
        for key, value in _of_parameter(inputs, parameter, setting.value):
            told[key] = Setting(key, value, setting.source, setting.where, setting.lost)
    for setting in override_values(recipe, inputs.config, inputs.keys, faults):
        told[setting.key] = setting
    return [told[key] for key in sorted(told)]


def not_parameters(recipe: Recipe, told: Sequence[Setting]) -> list[Setting]:
    """What upstream is told that no parameter says."""
    of_parameters = {key for p in recipe.parameters.values() for key in p.keys}
    return [setting for setting in told if setting.key not in of_parameters]


def _of_parameter(inputs: Inputs, parameter: Parameter, value: Any) -> list[tuple[str, Any]]:
    """Keys and values that a parameter stands for; none when it has no value or no key."""
    if value is None or not parameter.path:
        return []
    if parameter.type == "function":
        file, name = function_of(parameter, value)
        names = [(parameter.function_path, name)] if parameter.function_path else []
        return [(parameter.path, path_value(inputs.experiment_dir, inputs.has_file, file)), *names]
    if parameter.type == "content":
        named = file_of(parameter, value)
        text = inputs.texts.get(named) if named else parameter.spelled.get(value, value)
        return [(parameter.path, text)] if text else []
    if parameter.type == "path":
        value = path_value(inputs.experiment_dir, inputs.has_file, value)
    else:
        value = sent(parameter, value)
    return [(key, value) for key in (parameter.path, *parameter.also)]


_LIKE_A_FLAG = re.compile(r"-(?!\d+\Z|\d*\.\d+\Z)")
"""What argparse takes for a flag where a list's item is expected: only plain negative numbers are none."""


def _words(inputs: Inputs, setting: Setting, faults: Faults) -> list[Value]:
    """The words for one key. A flag is `--key=value` in one word, so that a value that begins with `-` stays a value; a
    list's items follow their flag as words, where that is not possible.
    """
    config, key, value = inputs.recipe.config, setting.key, setting.value
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and too_long(item):
            what = f"the value has {len(item.encode())} bytes"
            faults.add(InputError, what, setting.where, "less than 128 KiB")
    if config.style == "hydra":
        if hydra.is_filled_in(value):
            what = f"{shown(key)} holds `${{`, and upstream fills in what follows"
            faults.add(InputError, what, setting.where or inputs.config_name, "text without `${`")
        return [hydra.override(key, value, config.open)]
    if isinstance(value, list):
        items = [written(item) for item in value]
        for item in filter(_LIKE_A_FLAG.match, items):
            faults.add(InputError, f"the item {shown(item)} would be read as a flag", setting.where)
        return [f"--{key}", *items] if items else []
    if config.booleans == "presence" and _is_truth(value):
        return [f"--{key}"] if written(value) == "true" else []
    if isinstance(value, Ref):
        return [Ref(value.place, value.suffix, f"--{key}={value.prefix}")]
    return [f"--{key}={written(value)}"]


def _is_truth(value: Any) -> bool:
    """Whether the value is true or false, or a recipe's word for these."""
    return isinstance(value, bool) or (isinstance(value, hydra.Raw) and value in ("true", "false"))


def _own_words(inputs: Inputs, faults: Faults) -> list[Value]:
    config, recipe = inputs.config, inputs.recipe
    if config.args and not recipe.launch.words:
        faults.add(
            InputError,
            f"{recipe.name} takes no words of its own",
            config.args[0].where,
            "parameters",
            f"tp methods {recipe.name}",
        )
        return []
    for item in config.args:
        if too_long(item.text):
            faults.add(
                InputError, f"the word has {len(item.text.encode())} bytes", item.where, "less than 128 KiB"
            )
        if "\0" in item.text:
            faults.add(InputError, "the word holds a NUL character", item.where)
    return [item.text for item in config.args]
