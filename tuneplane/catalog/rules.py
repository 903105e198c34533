"""Cross-parameter rules: expressions in Jinja2's sandbox over parameters and topology."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tuneplane.catalog.manifest import Launch, Rule
from tuneplane.errors import InputError, shown

TOPOLOGY = ("nodes", "gpus_per_node", "processes_per_node", "world_size")
"""Names a rule sees beside the parameters; a parameter that is not set is `none`."""


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
    return [rule for rule in rules if _true(rule.when, values) and not _true(rule.require, values)]


def _true(expression: str, values: Mapping[str, Any]) -> bool:
    """Raises InputError when the expression cannot be evaluated, whatever its reason: it is a recipe's."""
    try:
        return expression == "true" or bool(_compiled(expression)(**values))
    except Exception as error:
        raise InputError.of(f"the rule {shown(expression)} cannot be evaluated: {error}") from None
