"""Which entry of a framework version fits what an experiment sets."""

from __future__ import annotations

from typing import Any

import pytest
from builders import config, parameter

from tuneplane.catalog.manifest import Migration, Parameter
from tuneplane.catalog.recipe import Recipe
from tuneplane.experiment.migration import later, migrated, naming
from tuneplane.experiment.setting import given_text, setting_text

PARAMETERS = {
    "on": parameter("bool", default=False, path="on"),
    "kind": parameter("enum", choices=["a", "b", "c"], default="a", alias="sort", path="kind"),
    "span": parameter("list", items="float", path="span"),
    "size": parameter("int", path="size"),
}
ENTRIES = [
    Migration(before={"on": True, "kind": "b"}, after={"new": 1}),
    Migration(before={"on": True, "kind": "a"}, after={}),
    Migration(before={"on": False}, after={"off": True}),
    Migration(before={"span": [0.5, 5]}, after={"low": 0.5}),
    Migration(before={"size": None, "kind": "c"}, after={"c": 1}),
    Migration(before={"gone": 1}, after={"x": 1}),
    Migration(before={"size": "many"}, after={"x": 1}),
]


class Old:
    """The recipe as far as it counts."""

    parameters: dict[str, Parameter] = PARAMETERS


def found(text: str) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    before: Recipe = Old()  # type: ignore[assignment]
    return [(item.keys, item.entry.after) for item in migrated(config(text), before, ENTRIES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params: {kind: b, on: true}", [(("kind", "on"), {"new": 1})]),
        ("params: {on: True}", [(("on",), {})]),
        ("params: {on: false}", [(("on",), {"off": True})]),
        ("params: {kind: b}", [(("kind",), {"off": True})][:0]),
        ("params: {sort: b, on: true}", [(("sort", "on"), {"new": 1})]),
        ("params: {kind: c, on: true}", [(("kind",), {"c": 1})]),
        ("params: {kind: c, size: 1, on: true}", []),
        ("params: {span: [.5, 5.0]}", [(("span",), {"low": 0.5})]),
        ("params: {span: [5]}", []),
        ("params: {size: many}", []),
        ("params: {gone: 1}", []),
        ("params: {on: maybe}", []),
        ("params: {}", []),
        ("params: {span: [0.5, 5], on: false}", [(("on",), {"off": True}), (("span",), {"low": 0.5})]),
    ],
)
def test_the_first_entry_that_fits(text: str, expected: list[Any]) -> None:
    assert found(text) == expected


def test_which_entries_name_a_parameter() -> None:
    before: Recipe = Old()  # type: ignore[assignment]
    assert list(naming("on", before, ENTRIES)) == ENTRIES[:3]
    assert not list(naming("gone", before, ENTRIES))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("0.9.0", "0.9.1", True), ("0.9.1", "0.9.0", False), ("0.9", "0.10", True), ("1", "1", False), ("user-managed", "2", False)],
)  # fmt: skip
def test_later(old: str, new: str, expected: bool) -> None:
    assert later(old, new) is expected


@pytest.mark.parametrize(
    ("made", "given", "text"),
    [
        (parameter("str"), "a, b", '"a, b"'),
        (parameter("str"), "null", '"null"'),
        (parameter("bool"), True, "true"),
        (parameter("list", items="str"), ["a", "b c"], '[a, "b c"]'),
        (parameter("duration"), "90m", "1h30m"),
        (parameter("float"), 1, "1.0"),
    ],
)
def test_a_value_as_it_is_written(made: Parameter, given: Any, text: str) -> None:
    assert given_text(made, given) == text
    assert setting_text(parameter("int"), 3) == "3"
