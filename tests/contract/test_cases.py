"""Which cases follow from a manifest, and what counts as the same value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import parameter, recipe
from contract.cases import Case, Cases, packed
from contract.frameworks.companions import beside, each, one_gpu, same, together
from contract.frameworks.runs import Answer
from contract.suite import Outcome, differences, equal
from contract.values import LARGE, tried

from tuneplane.plan.hydra import Raw


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"type": "int", "range": "[1, inf)"}, [1, 3, LARGE]),
        ({"type": "int", "range": "(1, 3)"}, [2]),
        ({"type": "int", "range": "[-1, 4294967295]"}, [-1, 1, 4294967295]),
        ({"type": "float", "range": "(0, 1]"}, [1e-9, 0.25, 1.0]),
        ({"type": "float", "range": "[0, 1)"}, [0.0, 0.25, 1 - 1e-9]),
        ({"type": "bool"}, [True, False]),
        ({"type": "enum", "choices": ["a", "b-c"], "spelled": {"b-c": "b_c"}}, ["a", "b-c", "b_c"]),
        ({"type": "list", "items": "int", "range": "[0, inf)"}, [[0], [0, 2, LARGE]]),
        ({"type": "content", "words": ["default"]}, ["a template.jinja", "default"]),
    ],
)
def test_a_parameter_is_tried_at_its_bounds_and_choices(fields: Mapping[str, Any], values: list[Any]) -> None:
    assert tried(parameter(**fields)) == values


@pytest.mark.parametrize(
    ("value", "found", "same"),
    [
        (1, 1, True), (1, 1.0, True), (1, True, False), (True, 1, False), (True, True, True), ("1", 1, False),
        (1, "1", False), ("a", "a", True), ([1, "a"], [1, "a"], True), ([1], [1, 2], False), ((0.2, 0.3), [0.2, 0.3], True),
        ([], None, False), (None, None, True), (Raw("true"), True, True), (Raw("true"), "true", False),
        (Raw("1"), 1, True), (Raw("grpo"), "grpo", True), (0.1, 0.1, True), (0.1, 0.10000001, False),
    ],
)  # fmt: skip
def test_what_is_the_same_value(value: Any, found: Any, same: bool) -> None:
    assert equal(value, found) is same


def test_a_difference_and_a_change_are_told() -> None:
    answer = Answer(values={"a": 1, "b": "x", "c": "u,v"}, changed={"b": "y", "c": ["u", "v"]})
    expected = {"a": 2, "b": "x", "c": "u,v"}
    assert list(differences(expected, answer, {"c": lambda text: text.split(",")})) == [
        "a is 1 upstream, set was 2",
        "b is changed by upstream from 'x' to 'y'",
    ]


def test_an_outcome_has_one_fault() -> None:
    case = Case("x=1", {})
    assert Outcome(case, "no").fault == "x=1: refused by tp: no"
    assert Outcome(case, "", Answer(error="why")).fault == "x=1: refused by upstream: why"
    assert Outcome(case, "", Answer(), ("a", "b")).fault == "x=1: a; b"
    assert Outcome(case, "", Answer(unchecked="no GPU")).fault == ""


def test_companions_are_given_the_value() -> None:
    table = together(each("a b", beside(c=1, d=same)), each("b", one_gpu(e=lambda value: 2 * value)))
    assert table["a"](5) == {"c": 1, "d": 5}
    assert table["b"](5) == {"c": 1, "d": 5, "profile": "h200:1", "e": 10}


def test_values_share_a_case_unless_they_say_different_things_or_are_refused() -> None:
    one, two = Case("a=1", {"a": 1}, ("a",)), Case("b=1", {"b": 1, "c": 2}, ("b",))
    other, bad, small = (
        Case("a=2", {"a": 2}, ("a",)),
        Case("d=1", {"d": 1}, ("d",)),
        Case("e=1", {"e": 1}, ("e",), "h200:1"),
    )
    companion = Case("c=2", {"c": 2}, ("c",))
    found = packed([one, two, other, bad, small, companion], lambda case: "d" not in case.params)
    assert [case.about for case in found] == [("a", "b"), ("a", "c"), ("d",), ("e",)]
    assert found[0].params == {"a": 1, "b": 1, "c": 2} and found[3].profile == "h200:1"


class Toy:
    alone = frozenset({"fast=True"})
    values: Mapping[str, list[Any]] = {"steps": [4]}
    companions = each("steps", beside(rate=0.5, unknown=1))

    def base(self, _: Any) -> Mapping[str, Any]:
        return {"note": "base"}

    def variants(self, _: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "a variant", {"rate": 0.25, "profile": "cpu:1", "validation": False, "more": {"args": ["x"]}}


MANIFEST = """\
schema: 1
name: toy/tuned
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: supervised
requires: {core: ">=0.1,<0.2"}
framework: {kind: toy, default: 2.0.0, versions: {2.0.0: {runtime_id: toy-2.0.0}}}
launch: {kind: torchrun, entry: {experiment: main.py}}
config: {style: flags}
data: {kind: any}
parameters:
  rate: {type: float, range: "(0, 1]", path: rate, doc: {en: Rate}}
  steps: {type: int, range: "[1, inf)", path: steps, doc: {en: Steps}}
  fast: {type: bool, path: fast, doc: {en: Fast}}
  note: {type: str, path: note, doc: {en: Note}, excludes: [other]}
  other: {type: bool, path: note, doc: {en: Other}}
"""


def test_every_value_of_every_parameter_is_in_a_case(tmp_path: Path) -> None:
    legal = Cases(recipe(tmp_path, MANIFEST), Toy()).all(
        lambda case: not {"note", "other"} <= case.params.keys()
    )
    cases = list(legal)
    assert cases[0] == Case("starter", {"note": "base"})
    assert cases[1] == Case("fast=True", {"note": "base", "fast": True}, ("fast",))
    assert cases[-1] == Case("a variant", {"note": "base", "rate": 0.25}, (), "cpu:1", False, {"args": ["x"]})
    counted = [(name, case.params[name]) for case in cases for name in case.about]
    assert sorted(name for name, _ in counted) == sorted(
        ["rate"] * 3 + ["steps"] + ["fast"] * 2 + ["note"] * 7 + ["other"] * 2
    )
    steps = next(case for case in cases if "steps" in case.about)
    assert steps.params["rate"] == 0.5 and "unknown" not in steps.params
    assert all("note" not in case.params for case in cases if "other" in case.about)
