"""The difference between two recipes, and which parameter of one is which of the other."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, recipe, replaced, write_recipe
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.documents.shape import construct
from tuneplane.experiment.difference import (
    Change,
    digest_of_starter,
    digest_of_texts,
    of_fields,
    of_recipes,
    of_starters,
    of_texts,
)
from tuneplane.experiment.lock import fields_of
from tuneplane.experiment.succession import guessed, parameter_of, successors

TEXT = {"en": "Words"}


def manifest(versions: dict[str, Any], parameters: dict[str, Any], **more: Any) -> Manifest:
    """A manifest; parameters: name → its fields, an integer where none are given."""
    made = {
        "schema": 1, "name": "toy/x", "version": "1", "title": TEXT, "summary": TEXT, "category": "c", "requires": {"core": ">=0"},
        "framework": {"kind": "toy", "default": next(iter(versions)), "versions": {name: filled(version) for name, version in versions.items()}},
        "launch": {"kind": "process", "entry": {"experiment": "main.py"}}, "config": {"style": "flags"}, "data": {"kind": "text"},
        "parameters": {name: parameter(fields) for name, fields in parameters.items()}, **more,
    }  # fmt: skip
    found = construct(Manifest, made)
    assert isinstance(found, Manifest)
    return found


def parameter(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "int", "doc": TEXT, "path": "p", **fields}


def filled(version: dict[str, Any]) -> dict[str, Any]:
    added = {name: parameter(fields) for name, fields in version.get("add", {}).items()}
    return {**version, **({"add": added} if added else {})}


def changes(old: Recipe, new: Recipe, names: dict[str, str] | None = None) -> list[tuple[str, ...]]:
    same = {name: name for name in old.parameters if name in new.parameters}
    return [dataclasses.astuple(change) for change in of_recipes(old, new, same if names is None else names)]


# --- names ---

BOTH = manifest(
    {"1": {"rename": {"rate": "lr", "steps": "n"}, "remove": ["warmup"], "add": {"kl": {}, "old": {}}}, "2": {"add": {"new": {"formerly": ["old"]}}}},
    {"rate": {}, "steps": {}, "warmup": {}, "seed": {}},
)  # fmt: skip


def test_from_one_version_to_another_of_one_manifest() -> None:
    assert successors(BOTH, "1", BOTH, "2") == {"lr": "rate", "n": "steps", "seed": "seed", "old": "new"}
    assert successors(BOTH, "2", BOTH, "1") == {"rate": "lr", "steps": "n", "seed": "seed"}
    for version in "12":
        names = resolve(BOTH, version).parameters
        assert successors(BOTH, version, BOTH, version) == {name: name for name in names}


def test_from_one_publication_to_the_next() -> None:
    old = manifest({"1": {"rename": {"a": "alpha"}}}, {"a": {}, "b": {}, "c": {}, "d": {}})
    new = manifest(
        {
            "1": {"rename": {"first": "alpha"}, "remove": ["second"]},
            "2": {"remove": ["c"], "add": {"c": {"type": "str"}, "dd": {"formerly": ["d"]}}},
        },
        {"first": {"formerly": ["a"]}, "second": {"formerly": ["b"]}, "c": {}},
    )
    assert successors(old, "1", new, "1") == {"alpha": "alpha", "c": "c"}
    assert successors(old, "1", new, "2") == {"alpha": "first", "b": "second", "c": "c", "d": "dd"}


def test_names_that_change_places() -> None:
    old = manifest({"1": {}}, {"a": {}, "b": {}})
    new = manifest({"1": {}, "2": {"rename": {"a": "b", "b": "a"}}}, {"a": {}, "b": {}})
    assert successors(old, "1", new, "2") == {"a": "b", "b": "a"}
    assert successors(new, "2", new, "1") == {"b": "a", "a": "b"}


def test_two_that_become_one() -> None:
    old = manifest({"1": {}}, {"a": {}, "b": {}})
    new = manifest({"1": {}}, {"c": {"formerly": ["a", "b"]}})
    assert successors(old, "1", new, "1") == {"a": "c", "b": "c"}


def test_a_guess_without_the_old_manifest() -> None:
    new = manifest(
        {"2": {"rename": {"rate": "lr"}, "remove": ["gone"], "add": {"kl": {"formerly": ["penalty"]}}}},
        {"rate": {"formerly": ["r"]}, "gone": {"formerly": ["g"]}},
    )
    assert guessed(new, "2") == {"r": "lr", "rate": "lr", "kl": "kl", "penalty": "kl"}


def test_a_parameter_by_name_or_alias(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    assert [parameter_of(made, key) for key in ("rate", "lr", "learning-rate")] == ["rate", "rate", None]


# --- what differs ---


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('range: "(0, 1]"', 'range: "(0, 2]"', [("parameters.rate", "range", "(0, 1]", "(0, 2]")]),
        ("default: 0.1, ", "", [("parameters.rate", "default", "0.1", "")]),
        ("default: 0.1, ", "default: 1.0, ", [("parameters.rate", "default", "0.1", "1.0")]),
        ("type: int, range", "type: float, range", [("parameters.steps", "type", "int", "float")]),
        ("path: steps", "path: max-steps", [("parameters.steps", "path", "steps", "max-steps")]),
        ("alias: lr, ", "", [("parameters.rate", "alias", "lr", "")]),
        ("type: int, range", "unit: steps, type: int, range", [("parameters.steps", "unit", "", "steps")]),
        ("kind: torchrun", "kind: process", [("launch.kind", "changed", "torchrun", "process")]),
        ("experiment: main.py", "module: main", [("launch.entry.experiment", "removed", "main.py", ""), ("launch.entry.module", "added", "", "main")]),
        ("style: flags", "style: argv", [("config.style", "changed", "flags", "argv")]),
        ("kind: any}", "kind: any, train: required}", [("data.train", "added", "", "required")]),
        ("data:", "pinned: {a.b: x, c: y}\ndata:", [("pinned.a.b", "added", "", "x"), ("pinned.c", "added", "", "y")]),
        ("data:", "environment: {A: x}\ndata:", [("environment.A", "added", "", "x")]),
        ("data:", "model: optional\ndata:", [("model", "changed", "none", "optional")]),
        ("data:", "metrics: {names: {loss: {}}}\ndata:", [("metrics.names.loss", "added", "", "{}")]),
        ("data:", "checkpoints: {format: f, pattern: 'p{step}'}\ndata:", [("checkpoints.format", "added", "", "f"), ("checkpoints.pattern", "added", "", "p{step}")]),
        ("data:", "rules: [{require: rate < 1, when: steps is none, message: {en: No}}]\ndata:", [("rules", "added", "", "rate < 1 when steps is none")]),
        ("{runtime_id: toy-2.0.0}", "{runtime_id: toy-2.0.0, requires: [toy==2]}", [("requires", "changed", "[]", '["toy==2"]')]),
    ],
)  # fmt: skip
def test_one_change(tmp_path: Path, old: str, new: str, expected: list[tuple[str, ...]]) -> None:
    before, now = recipe(tmp_path / "a"), recipe(tmp_path / "b", replaced(MANIFEST, (old, new)))
    assert changes(before, now) == expected
    assert changes(before, before) == [] and before.digest != now.digest
    back = {"added": "removed", "removed": "added"}
    assert sorted(changes(now, before)) == sorted(
        (what, back.get(how, how), b, a) for what, how, a, b in expected
    )


def test_parameters_come_go_and_get_other_names(tmp_path: Path) -> None:
    before = recipe(tmp_path / "a")
    text = replaced(
        MANIFEST,
        ("  rate: {type: float", "  speed: {type: float"),
        ("  steps:", "  warmup: {type: int, default: 3, path: w, doc: {en: W}}\n  n:"),
    )
    now = recipe(tmp_path / "b", text)
    assert changes(before, now, {"rate": "speed"}) == [
        ("parameters.speed", "renamed", "rate", "speed"),
        ("parameters.steps", "removed", "a whole number in [1, inf)", ""),
        ("parameters.warmup", "added", "", "a whole number, by default 3"),
        ("parameters.n", "added", "", "a whole number in [1, inf)"),
    ]


def test_rules_in_another_order(tmp_path: Path) -> None:
    rules = ["{require: rate < 1, message: {en: A}}", "{require: steps > 1, message: {en: B}}"]
    one, two = (
        recipe(tmp_path / name, MANIFEST + f"rules: [{', '.join(order)}]\n")
        for name, order in (("a", rules), ("b", rules[::-1]))
    )
    assert changes(one, two) == [("rules", "changed", "the same", "in another order")]


def test_texts_are_apart(tmp_path: Path) -> None:
    before = recipe(tmp_path / "a")
    text = replaced(MANIFEST, ("title: {en: Toy}", "title: {en: Toy, zh: 玩具}"), ("doc: {en: Rate}", "group: loss, doc: {en: Pace}"),
                    ("{runtime_id: toy-2.0.0}", "{runtime_id: toy-2.0.0, status: deprecated, sunset: 2031-01-01}"))  # fmt: skip
    now = recipe(tmp_path / "b", text)
    assert changes(before, now) == [] and before.digest == now.digest and fields_of(before) == fields_of(now)
    assert of_texts(before, now, {}) == (
        "status",
        "sunset",
        "title",
        "parameters.rate.doc",
        "parameters.rate.group",
    )
    assert of_texts(before, before, {}) == () and digest_of_texts(before) != digest_of_texts(now)


def test_a_text_is_followed_to_another_name(tmp_path: Path) -> None:
    before = recipe(tmp_path / "a")
    now = recipe(tmp_path / "b", replaced(MANIFEST, ("  rate: {type: float", "  speed: {type: float")))
    assert of_texts(before, now, {"rate": "speed"}) == ()


def test_fields_of_locks() -> None:
    assert of_fields({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == (
        Change("b", "changed", "2", "3"),
        Change("c", "changed", "", "4"),
    )


def test_starters() -> None:
    old, new = (
        {"a": ("1", False), "b": ("1", False), "c": ("1", False)},
        {"b": ("1", True), "c": ("1", False), "d": ("1", False)},
    )
    assert of_starters(old, new) == (Change("a", "removed"), Change("b", "changed"), Change("d", "added"))
    assert digest_of_starter(old) != digest_of_starter(new) == digest_of_starter(dict(reversed(new.items())))


# --- nothing that the digest sees is left out ---

scalars = st.sampled_from(["x", "", "1", "true", "[1]", "{}", "a.b"])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from(["none", "optional"]),
    "requires": st.lists(scalars, max_size=2),
    "pinned": st.dictionaries(st.sampled_from(["a", "b.c"]), scalars, max_size=2),
    "environment": st.dictionaries(st.sampled_from(["A", "B"]), scalars, max_size=2),
    "rules": st.lists(st.builds(lambda require, when: {"require": require, "when": when, "message": TEXT}, scalars, st.sampled_from(["true", "x"])), max_size=3),
    "checkpoints": st.one_of(st.none(), st.just({"format": "f", "pattern": "p"})),
    "launch": st.sampled_from([{"kind": "process", "entry": {"module": "m"}}, {"kind": "process", "entry": {"module": "m"}, "words": True}]),
    "metrics": st.dictionaries(st.sampled_from(["loss", "doc"]), st.sampled_from([{}, {"better": "lower"}]), max_size=2).map(lambda names: {"names": names}),
    "parameters": st.dictionaries(
        st.sampled_from(["a", "b", "doc"]),
        st.fixed_dictionaries({"type": st.sampled_from(["int", "str"]), "doc": st.just(TEXT)},
                              optional={"default": st.sampled_from([1, 1.0, True, "1", "", None, [1], [True]]), "range": st.sampled_from(["", "[0, 1]"]),
                                        "choices": st.lists(scalars, max_size=2), "alias": scalars, "formerly": st.just(["z"])}),
        max_size=2),
}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(FIELDS), st.data())
def test_digests_differ_exactly_where_something_is_said(fields: dict[str, Any], data: st.DataObject) -> None:
    base = {"name": "n", "version": "1", "title": TEXT, "summary": TEXT, "category": "c", "core": ">=0", "framework": "f", "framework_version": "1",
            "status": "supported", "sunset": "", "runtime_id": "r", "config": {"style": "argv"}, "data": {"kind": "k"}, "owned": {}}  # fmt: skip
    other = copy.deepcopy(fields)
    key = data.draw(st.sampled_from(sorted(FIELDS)))
    other[key] = data.draw(FIELDS[key])
    old, new = (construct(Recipe, {**base, **made}) for made in (fields, other))
    names = {name: name for name in old.parameters if name in new.parameters}
    assert bool(of_recipes(old, new, names)) == (old.digest != new.digest)


def test_each_field_of_a_published_manifest_is_in_it(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    made = resolve(catalog(tmp_path).manifest("toy/tuned"))
    assert {
        change[0].partition(".")[0] for change in changes(made, dataclasses.replace(made, parameters={}))
    } == {"parameters"}
