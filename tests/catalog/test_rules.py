"""Cross-parameter rules: what they see, and what they cannot reach."""

from __future__ import annotations

from typing import Any

import pytest

from tuneplane.catalog.manifest import Rule, Text
from tuneplane.catalog.rules import TOPOLOGY, broken, names_in
from tuneplane.errors import InputError

VALUES: dict[str, Any] = {
    "batch_size": 64, "rate": 0.1, "name": "adamw", "unset": None, "sizes": [1, 2],
    "nodes": 2, "gpus_per_node": 8, "processes_per_node": 8, "world_size": 16, "cpus_per_node": 96,
}  # fmt: skip


def holds(require: str, when: str = "true") -> bool:
    return not broken([Rule(require=require, when=when, message=Text(en="M"))], VALUES)


@pytest.mark.parametrize(
    "expression",
    ["batch_size % world_size == 0", "nodes * gpus_per_node == 16", "processes_per_node == 8 and nodes > 1", "unset is none",
     "rate is not none and rate < 1", 'name in ["adamw", "sgd"]', "sizes | length == 2", "sizes[1] == 2", "not (nodes == 1)",
     "unset is none or unset > 3", "batch_size // 3 == 21", "true", "True", "none is none", "name | upper == 'ADAMW'"],
)  # fmt: skip
def test_rules_that_hold_and_their_opposites(expression: str) -> None:
    assert holds(expression)
    assert not holds(f"not ({expression})")
    assert names_in(expression) <= VALUES.keys()


def test_when_decides_whether_a_rule_speaks() -> None:
    assert holds("rate > 5", when="nodes == 1")
    assert not holds("rate > 5", when="nodes == 2")


def test_only_the_broken_rules_are_named_in_their_order() -> None:
    rules = [Rule(require=text, message=Text(en=text)) for text in ("false", "nodes == 2", "rate > 1")]
    assert [rule.message.en for rule in broken(rules, VALUES)] == ["false", "rate > 1"]


def test_names() -> None:
    assert names_in("a + b.c > d[e] and f in ['g']") == {"a", "b", "d", "e", "f"}
    assert set(TOPOLOGY) <= VALUES.keys()


@pytest.mark.parametrize(
    "expression",
    ["().__class__", "''.__class__.__mro__[1].__subclasses__()", "name.__class__", "name['__class__']", "(name | attr('__class__'))",
     "[].append.__self__", "sizes.append(3)", "sizes.__init__.__globals__", "'{0.__class__}'.format(name)", "name.format.__func__",
     "(1).__class__.__base__", "'a'.mro()", "unset.real", "unset + 1", "rate / 0", "name < 3", "sizes | map('nofilter') | list"],
)  # fmt: skip
def test_what_cannot_be_evaluated_or_reached_is_refused(expression: str) -> None:
    try:
        names_in(expression)
    except ValueError:
        return
    with pytest.raises(InputError, match=r"^the rule .* cannot be evaluated"):
        broken([Rule(require=expression, message=Text(en="M"))], VALUES)


def test_a_failed_attempt_changes_no_value() -> None:
    with pytest.raises(InputError):
        holds("sizes.append(3) is none")
    assert VALUES["sizes"] == [1, 2]


@pytest.mark.parametrize(
    "expression",
    ["", "a b", "a =", "{{ a }}", "a }} b", "{% set x = 1 %}", "x | nofilter", "x is notest", "import os"],
)
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(ValueError, match=r"^not an expression: "):
        names_in(expression)
