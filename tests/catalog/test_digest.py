"""The digest a lock names: all that can change a script, a run or a refusal is in it, and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, recipe, replaced

from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.shape import construct

TEXT = {"en": "Words", "zh": "文字"}
PARAMETER = {"type": "enum", "doc": TEXT, "path": "a.b", "default": "x", "range": "[0, 1]", "choices": ["x", "y"], "items": "int",
             "unit": "steps", "alias": "p", "group": "g", "formerly": ["q"], "also": ["a.c"], "otherwise": "x", "excludes": ["r"],
             "spelled": {"x": "X"}, "function": "f", "function_path": "f.p", "words": ["default"]}  # fmt: skip
FULL: dict[str, Any] = {
    "name": "toy/full", "version": "1.0.0", "title": TEXT, "summary": TEXT, "category": "c", "core": ">=0.1", "framework": "toy",
    "framework_version": "1", "status": "supported", "sunset": "2030-01-01", "runtime_id": "toy-1", "requires": ["toy==1"],
    "launch": {
        "kind": "torchrun", "entry": {"experiment": "a.py", "module": ""}, "interpreter": ["python3"], "words": True, "rendezvous": "c10d",
        "options": {"o": "v"}, "roles": ["r"],
        "pools": {"p": {"roles": ["q"], "need": "optional", "server": {"words": ["w"], "ready": "/r", "timeout": "1m"}}},
    },
    "config": {"style": "hydra", "index": "i", "open": ["o"], "booleans": "presence"},
    "data": {
        "kind": "any", "train": "optional", "validation": "none", "doc": TEXT, "formats": ["json"], "separators": ",",
        "layouts": [{"columns": ["c"], "when": "x"}],
    },
    "model": "none", "use": TEXT, "tracking": ["wandb"], "keys": "0" * 64,
    # names that a user's eye could take for texts are data here
    "environment": {"title": "v", "doc": "v"}, "pinned": {"doc": "v"}, "owned": {"group": {"by": "b", "value": "v"}},
    "variables": {"title": "v"}, "elsewhere": {"doc": {"x": "y"}}, "ignored": {"doc": "v"},
    "parameters": {"title": PARAMETER, "group": {**PARAMETER, "default": ["x"]}, "message": {**PARAMETER, "default": 7}},
    "rules": [{"require": "nodes > 1", "message": TEXT, "when": "true"}],
    "checkpoints": {
        "format": "f", "pattern": "p", "resume": "none", "complete": {"file": "f", "tracker": ""},
        "pointer": {"file": "f", "text": "t", "beside": ["b"]},
        "warning": {"tell": "file", "signal": "USR2", "stopped": 3},
    },
    "metrics": {"source": "report", "names": {"doc": {"better": "lower", "aliases": ["loss"]}}},
}  # fmt: skip
TEXTS = [
    r"title\.(en|zh)", r"summary\.(en|zh)", r"data\.doc\.(en|zh)", r"parameters\.\w+\.doc\.(en|zh)", r"parameters\.\w+\.group", r"parameters\.\w+\.formerly\.\d",
    r"rules\.\d\.message\.(en|zh)", r"status", r"sunset", r"use\.(en|zh)", r"elsewhere\..*",
]  # fmt: skip
"""Leaves of a recipe that only people, or an upgrade, read."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path


def parent_of(data: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def digest(data: dict[str, Any]) -> str:
    made = construct(Recipe, data)
    assert isinstance(made, Recipe)
    return made.digest


LEAVES = list(leaves(FULL))


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_each_field_by_itself(path: tuple[Any, ...]) -> None:
    changed = copy.deepcopy(FULL)
    parent = parent_of(changed, path)
    old = parent[path[-1]]
    if path[:3] == ("launch", "entry", "module"):
        changed["launch"]["entry"] = {"experiment": "", "module": "a.py"}
    elif path == ("checkpoints", "complete", "tracker"):
        changed["checkpoints"]["complete"] = {"file": "", "tracker": "f"}
    else:
        parent[path[-1]] = (
            not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}x"
        )
    is_text = any(re.fullmatch(pattern, ".".join(map(str, path))) for pattern in TEXTS)
    assert (digest(changed) == digest(FULL)) == is_text


def test_the_full_recipe_leaves_no_field_out() -> None:
    """A field added to a model fails here until it stands in FULL, and so is judged above."""

    def check(cls: Any, data: Any) -> None:
        if dataclasses.is_dataclass(cls):
            names = {field.name for field in dataclasses.fields(cls)}
            assert names == data.keys(), cls

    made = construct(Recipe, FULL)
    todo: list[tuple[Any, Any]] = [(made, FULL)]
    while todo:
        value, data = todo.pop()
        if dataclasses.is_dataclass(value):
            check(type(value), data)
            todo += [(getattr(value, name), data[name]) for name in data]
        elif isinstance(value, (dict, list)):
            keys = value if isinstance(value, dict) else range(len(value))
            todo += [(value[key], data[key]) for key in keys]


@pytest.mark.parametrize(
    "path", [("environment",), ("pinned",), ("owned",), ("parameters",), ("metrics", "names")]
)
def test_names_count(path: tuple[str, ...]) -> None:
    changed = copy.deepcopy(FULL)
    mapping = parent_of(changed, path)[path[-1]]
    name, value = mapping.popitem()
    less = digest(changed)
    mapping[f"{name}_2"] = value
    assert len({digest(FULL), less, digest(changed)}) == 3


def test_the_order_of_keys_does_not_count() -> None:
    turned = dict(reversed(FULL.items())) | {"parameters": dict(reversed(FULL["parameters"].items()))}
    assert digest(turned) == digest(FULL)


@pytest.mark.parametrize("key", ["requires"])
def test_the_order_of_lists_counts(key: str) -> None:
    assert digest({**FULL, key: ["a", "b"]}) != digest({**FULL, key: ["b", "a"]})


SAME = [
    ("title: {en: Toy}", "title: {en: Another, zh: 玩具}"), ("summary: {en: A toy}", "summary: {en: B}"), ("doc: {en: Rate}", "doc: {en: R}, group: z"),
    ("2.0.0: {runtime_id", "3.0.0: {remove: [rate], runtime_id: toy-3}\n    2.0.0: {runtime_id"),
    ("2.0.0: {runtime_id", "2.0.0: {status: deprecated, sunset: 2030-01-01, runtime_id"),
    ("schema: 1", "schema: 1 # a comment"),
]  # fmt: skip
OTHER = [
    ("default: 0.1", "default: 0.2"), ("range: \"(0, 1]\"", "range: \"[0, 1]\""), ("path: steps", "path: step"), (", alias: lr", ""), ("version: 1.0.0", "version: 1.0.1"),
    ("2.0.0: {runtime_id", "2.0.0: {defaults: {rate: 1}, runtime_id"), ("2.0.0: {runtime_id", "2.0.0: {remove: [steps], runtime_id"),
    ('">=0.1,<0.2"', '">=0.1"'), ("data: {kind: any}", "data: {kind: any, train: required}"),
]  # fmt: skip


@pytest.mark.parametrize(("pair", "same"), [(p, True) for p in SAME] + [(p, False) for p in OTHER])
def test_changes_of_a_manifest(tmp_path: Path, pair: tuple[str, str], same: bool) -> None:
    before = recipe(tmp_path / "a", version="2.0.0").digest
    after = recipe(tmp_path / "b", replaced(MANIFEST, pair), "2.0.0").digest
    assert (before == after) == same


def test_starters_and_other_defaults_of_the_framework_do_not_count(tmp_path: Path) -> None:
    before = recipe(tmp_path, version="2.0.0").digest
    starter = tmp_path / "toy/tuned/starter"
    starter.mkdir()
    (starter / "main.py").write_text("print()")
    text = replaced(
        MANIFEST,
        ("default: 2.0.0", "default: 3.0.0"),
        ("2.0.0: {runtime_id", "3.0.0: {}\n    2.0.0: {runtime_id"),
    )
    assert recipe(tmp_path, text, "2.0.0").digest == before


def test_the_digest_is_a_sha256() -> None:
    assert re.fullmatch("[0-9a-f]{64}", digest(FULL))


def test_a_field_that_a_later_tp_gives_to_manifests_changes_no_digest() -> None:
    """Such a field is as it is by default in every recipe that does not use it: those are not in the digest."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Later(Recipe):
        pools: dict[str, str] = dataclasses.field(default_factory=dict)
        exporter: str = ""

    now: Recipe = construct(Recipe, FULL)
    fields = {field.name: getattr(now, field.name) for field in dataclasses.fields(now)}
    assert Later(**fields).digest == now.digest
    assert Later(**fields, exporter="x").digest != now.digest
