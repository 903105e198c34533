"""Who set which parameter: the command line over `config.yaml` over the recipe's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import BadValue, as_set, default_value, read_node, read_text, written
from tuneplane.catalog.recipe import Recipe
from tuneplane.catalog.rules import broken, names_in, value_of
from tuneplane.documents.tree import Scalar
from tuneplane.errors import InputError, TuneplaneError, nearest, shown
from tuneplane.experiment.config import COMMAND_LINE, CONFIG_FILE, Config, WrittenNode
from tuneplane.faults import Faults
from tuneplane.names import looks_secret
from tuneplane.plan.model import Setting

DEFAULT = "recipe default"
DERIVED = "recipe"
"""Who set what follows from other values."""


def settle(
    recipe: Recipe, config: Config, assignments: Sequence[tuple[str, str]], faults: Faults
) -> list[Setting]:
    """One setting for each parameter of the recipe, unset ones with value None, in the recipe's order.

    assignments: (key, text) of every `--set`, of which the last wins. Faults are added, not raised.
    """
    names = _Names(recipe, faults)
    chosen: dict[str, list[tuple[str, Any, str]]] = {name: [] for name in recipe.parameters}
    for key, text in assignments:
        where = f"--set {key}"
        if name := names.parameter(key, where, text):
            _choose(
                chosen[name],
                COMMAND_LINE,
                where,
                lambda p, t=text: read_text(p, t),
                recipe.parameters[name],
                faults,
            )
    for candidates in chosen.values():
        candidates.reverse()
    for key, item in config.params.items():
        if name := names.parameter(key, item.where, _text(item)):
            if any(source == CONFIG_FILE for source, _, _ in chosen[name]):
                faults.add(
                    InputError, f"{shown(name)} is set twice, under its name and its alias", item.where
                )
            _choose(
                chosen[name],
                CONFIG_FILE,
                item.where,
                lambda p, n=item.node: read_node(p, n),
                recipe.parameters[name],
                faults,
            )
    for key, item in config.overrides.items():
        names.override(key, item)
    settings = [_setting(name, parameter, chosen[name]) for name, parameter in recipe.parameters.items()]
    _check_excluded(recipe, settings, faults)
    return _less_excluded(recipe, settings)


def _less_excluded(recipe: Recipe, settings: Sequence[Setting]) -> list[Setting]:
    """Without the defaults of parameters in whose place a user set another."""
    chosen = {setting.key for setting in settings if setting.where}
    others = {other for name in chosen for other in recipe.parameters[name].excludes}
    return [
        Setting(setting.key, None, "not set")
        if setting.source == DEFAULT
        and (setting.key in others or chosen.intersection(recipe.parameters[setting.key].excludes))
        else setting
        for setting in settings
    ]


def _check_excluded(recipe: Recipe, settings: Sequence[Setting], faults: Faults) -> None:
    """Two parameters that a user set and that stand in place of each other."""
    by_name = {setting.key: setting for setting in settings if setting.where}
    for name, setting in by_name.items():
        for other in recipe.parameters[name].excludes:
            if other in by_name:
                what = f"{shown(name)} and {shown(other)} cannot both be set"
                where = f"{setting.where}, {by_name[other].where}"
                faults.add(InputError, what, where, "one of them")


def derived(
    recipe: Recipe, settings: Sequence[Setting], values: Mapping[str, Any], faults: Faults
) -> list[Setting]:
    """The settings, where those that nobody set have the values that follow from others.

    values: what expressions see beside the parameters. Faults are the recipe's.
    """
    found = {setting.key: setting for setting in settings}
    seen = {**values, **{key: setting.value for key, setting in found.items()}}
    for name, parameter in recipe.parameters.items():
        if not parameter.otherwise or found[name].value is not None:
            continue
        if any(found[other].value is not None for other in parameter.excludes):
            continue
        try:
            value = value_of(parameter.otherwise, seen)
            if value is not None:
                seen[name] = read_text(parameter, written(value))
                found[name] = replace(found[name], value=seen[name], source=DERIVED)
        except BadValue as error:
            faults.add(InputError, f"what follows for {shown(name)}: {error.what}", "", error.expected)
        except TuneplaneError as error:
            faults.take(error)
    return list(found.values())


def _choose(
    candidates: list[tuple[str, Any, str]],
    source: str,
    where: str,
    read: Any,
    parameter: Parameter,
    faults: Faults,
) -> None:
    try:
        candidates.append((source, read(parameter), where))
    except BadValue as error:
        faults.add(InputError, error.what, where, error.expected)


def _setting(name: str, parameter: Parameter, candidates: list[tuple[str, Any, str]]) -> Setting:
    default = default_value(parameter)
    if default is not None:
        candidates = [*candidates, (DEFAULT, default, "")]
    if not candidates:
        return Setting(name, None, "not set")
    source, value, where = candidates[0]
    lost = tuple((s, as_set(parameter, v), w) for s, v, w in candidates[1:])
    return Setting(name, value, source, where, lost)


class _Names:
    """Turns what a user wrote as a key into a parameter's name, or says why it is none."""

    def __init__(self, recipe: Recipe, faults: Faults) -> None:
        self.recipe, self.faults = recipe, faults
        self.aliases = {p.alias: name for name, p in recipe.parameters.items() if p.alias}
        self.paths = {path: name for name, p in reversed(recipe.parameters.items()) for path in p.keys}

    def parameter(self, key: str, where: str, text: str) -> str | None:
        """The parameter's name. text: the value, as it is written."""
        if self._refused(key, where, text):
            return None
        name = self.aliases.get(key, key)
        if name in self.recipe.parameters:
            return name
        if key in self.paths:
            hint = f"the name `{self.paths[key]}`"
        elif not self.recipe.parameters:
            hint = f"none: {self.recipe.name} takes no parameters"
        else:
            known = [*self.recipe.parameters, *self.aliases]
            close = nearest(key, known)
            hint = f"`{close}`?" if close else "a parameter of this method"
        self.faults.add(
            InputError, f"unknown parameter {shown(key)}", where, hint, f"tp methods {self.recipe.name}"
        )
        return None

    def override(self, key: str, item: WrittenNode) -> None:
        where, recipe = item.where, self.recipe
        if self._refused(key, where, _text(item)):
            return
        if key in self.paths:
            self.faults.add(
                InputError, f"{shown(key)} has a name of its own", where, f"`params.{self.paths[key]}`"
            )
        elif not recipe.keys:
            what = f"{recipe.name} takes no overrides: it has no index of upstream keys to check them against"
            hint = f"tp methods {recipe.name}"
            self.faults.add(InputError, what, where, "its parameters under `params`", hint)

    def _refused(self, key: str, where: str, text: str) -> bool:
        """Whether the key is pinned, owned by the platform, without effect, or names a secret."""
        recipe, key = self.recipe, key.lstrip("+")
        if key in recipe.parameters:
            return False
        if key in recipe.owned:
            self.faults.add(InputError, f"{shown(key)} belongs to tp", where, recipe.owned[key].by)
        elif key in recipe.pinned:
            what = f"{shown(key)} is what makes this method: it is always `{recipe.pinned[key]}`"
            other = recipe.elsewhere.get(key, {}).get(text)
            hint = f"tp new NAME --method {other}" if other and other != recipe.name else ""
            self.faults.add(InputError, what, where, hint=hint or f"tp methods {recipe.name}")
        elif right := self._heeded(key):
            what = f"{recipe.framework} takes {shown(key)} and does not heed it"
            self.faults.add(InputError, what, where, f"`{right}`")
        elif looks_secret(key):
            hint = "list its name under `secrets` and put the value into the secrets file"
            self.faults.add(InputError, f"{shown(key)} looks like a secret", where, hint=hint)
        else:
            return False
        return True

    def _heeded(self, key: str) -> str:
        """What upstream heeds in place of a key that it ignores; a section stands for the keys in it."""
        for ignored, right in self.recipe.ignored.items():
            if key == ignored:
                return self._named(right)
            if key.startswith(f"{ignored}."):
                return self._named(right + key[len(ignored) :])
        return ""

    def _named(self, path: str) -> str:
        """A parameter's name where the key has one."""
        return f"params.{self.paths[path]}" if path in self.paths else path


def _text(item: WrittenNode) -> str:
    return item.node.text if isinstance(item.node, Scalar) else ""


def check_rules(
    recipe: Recipe,
    settings: Sequence[Setting],
    values: Mapping[str, Any],
    profile: str,
    language: str,
    faults: Faults,
) -> None:
    """Add a fault for each cross-parameter rule that does not hold. values: what rules see beside the parameters."""
    by_name = {setting.key: setting for setting in settings}
    for rule in broken(recipe.rules, {**values, **{key: item.value for key, item in by_name.items()}}):
        used = [
            by_name[name] for name in sorted(names_in(rule.require) | names_in(rule.when)) if name in by_name
        ]
        where = ", ".join(
            f"{s.where or s.key} = {as_set(recipe.parameters[s.key], s.value)}"
            for s in used
            if s.value is not None
        )
        faults.add(InputError, rule.message.read(language), where, f"{rule.require} on {profile}")
