"""Who set which parameter: the command line over `config.yaml` over the recipe's default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import BadValue, as_set, default_value, read_node, read_text
from tuneplane.catalog.recipe import Recipe
from tuneplane.catalog.rules import broken, pool_names
from tuneplane.errors import InputError, nearest, shown
from tuneplane.experiment.config import COMMAND_LINE, CONFIG_FILE, Config
from tuneplane.faults import Faults
from tuneplane.names import looks_secret
from tuneplane.plan.model import Pool, Setting

DEFAULT = "recipe default"


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
        if name := names.parameter(key, where, "--set"):
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
        if name := names.parameter(key, item.where, "params"):
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
        names.override(key, item.where)
    return [_setting(name, parameter, chosen[name]) for name, parameter in recipe.parameters.items()]


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
        self.paths = {p.path: name for name, p in recipe.parameters.items() if p.path}

    def parameter(self, key: str, where: str, section: str) -> str | None:
        if self._refused(key, where):
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

    def override(self, key: str, where: str) -> None:
        if self._refused(key, where):
            return
        if key in self.paths:
            self.faults.add(
                InputError, f"{shown(key)} has a name of its own", where, f"`params.{self.paths[key]}`"
            )
            return
        what = (
            f"{self.recipe.name} takes no overrides: it has no index of upstream keys to check them against"
        )
        self.faults.add(
            InputError, what, where, "its parameters under `params`", f"tp methods {self.recipe.name}"
        )

    def _refused(self, key: str, where: str) -> bool:
        """Whether the key is pinned, owned by the platform or names a secret."""
        if key in self.recipe.pinned:
            what = f"{shown(key)} is what makes this method: it is always `{self.recipe.pinned[key]}`"
            self.faults.add(InputError, what, where, hint=f"tp methods {self.recipe.name}")
        elif key in self.recipe.owned:
            self.faults.add(InputError, f"{shown(key)} belongs to tp", where, f"`{self.recipe.owned[key]}`")
        elif looks_secret(key) and key not in self.recipe.parameters:
            hint = "list its name under `secrets` and put the value into the secrets file"
            self.faults.add(InputError, f"{shown(key)} looks like a secret", where, hint=hint)
        else:
            return False
        return True


def check_rules(
    recipe: Recipe, settings: Sequence[Setting], held: Sequence[Pool], language: str, faults: Faults
) -> None:
    """Add a fault for each cross-parameter rule that does not hold. held: the pools, the launch's own first."""
    made = held[0].topology
    values: dict[str, Any] = {setting.key: setting.value for setting in settings}
    values |= {
        "nodes": made.nodes,
        "gpus_per_node": made.gpus_per_node,
        "processes_per_node": made.processes_per_node,
        "world_size": made.world_size,
    }
    values |= dict.fromkeys(pool_names(recipe.launch), 0)
    for pool in held[1:]:
        name = pool.name.replace("-", "_")
        values |= {f"{name}_nodes": pool.topology.nodes, f"{name}_gpus_per_node": pool.topology.gpus_per_node}
    by_name = {setting.key: setting for setting in settings}
    for rule in broken(recipe.rules, values):
        from tuneplane.catalog.rules import names_in

        used = [
            by_name[name] for name in sorted(names_in(rule.require) | names_in(rule.when)) if name in by_name
        ]
        where = ", ".join(
            f"{s.where or s.key} = {as_set(recipe.parameters[s.key], s.value)}"
            for s in used
            if s.value is not None
        )
        faults.add(InputError, rule.message.read(language), where, f"{rule.require} on {made.profile}")
