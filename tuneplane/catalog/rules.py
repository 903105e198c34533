"""Cross-parameter rules: expressions in Jinja2's sandbox over parameters and topology."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tuneplane.catalog.manifest import Launch, Rule
from tuneplane.errors import InputError, shown

TOPOLOGY = ("nodes", "gpus_per_node", "processes_per_node", "world_size", "cpus_per_node")
"""Names a rule sees beside the parameters; a parameter that is not set is `none`."""
SURROUNDINGS = (
    "model",
    "train_data",
    "validation_data",
    "output",
    "files",
    "tracking",
    "online",
    "experiment",
    "joined",
)
"""Further names of an expression whose value is sent: see `plan.expressions`."""


def pool_names(launch: Launch) -> list[str]:
    """Further names for the sizes of pools, 0 where a run has no such pool: `judge_nodes`, `judge_gpus_per_node`."""
    return [
        f"{pool.replace('-', '_')}_{size}" for pool in launch.pools for size in ("nodes", "gpus_per_node")
    ]


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    # an expression sees its values alone, and is the same each time: no `range`, no `lipsum`, no random choice
    made.globals.clear()
    del made.filters["random"]
    return made


@cache
def _compiled(expression: str) -> Any:
    return _environment().compile_expression(expression, undefined_to_none=False)


def names_in(expression: str) -> set[str]:
    """The names an expression needs. Raises ValueError when it is not an expression."""
    from jinja2 import TemplateError, meta

    try:
        _compiled(expression)
        return meta.find_undeclared_variables(_environment().parse("{{ (" + expression + ") }}"))
    except TemplateError as error:
        raise ValueError(f"not an expression: {error}") from None


def broken(rules: list[Rule], values: Mapping[str, Any]) -> list[Rule]:
    """The rules that do not hold for `values`, which has every parameter and every name of TOPOLOGY.

    Raises InputError for a rule that cannot be evaluated.
    """
    if not rules:
        return []
    try:
        # in one go: dozens of expressions compiled by themselves take longer than all the rest of a compile
        found = _compiled("[" + ", ".join(f"({rule.when}) and not ({rule.require})" for rule in rules) + "]")(
            **values
        )
    except Exception:
        return [rule for rule in rules if holds(rule.when, values) and not holds(rule.require, values)]
    return [rule for rule, is_broken in zip(rules, found, strict=True) if is_broken]


def value_of(expression: str, values: Mapping[str, Any]) -> Any:
    """What the expression is. Raises InputError when it cannot be evaluated, whatever its reason: it is a recipe's."""
    if expression.isidentifier() and expression in values:
        return values[expression]
    try:
        return _compiled(expression)(**values)
    except Exception as error:
        raise InputError.of(f"{shown(expression)} cannot be evaluated: {error}") from None


def holds(expression: str, values: Mapping[str, Any]) -> bool:
    """Whether it is true. Raises InputError when it cannot be evaluated, whatever its reason: it is a recipe's."""
    try:
        return expression == "true" or bool(_compiled(expression)(**values))
    except Exception as error:
        raise InputError.of(f"the rule {shown(expression)} cannot be evaluated: {error}") from None
