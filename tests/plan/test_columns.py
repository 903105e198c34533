"""Which columns data files need follows from the recipe's layouts and what the parameters say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import recipe as written_recipe
from builders import replaced
from plan.cases import RECIPE, plan, refused

from tuneplane.catalog.recipe import Recipe
from tuneplane.experiment.config import Located
from tuneplane.job.checks.columns import read_files
from tuneplane.plan.columns import renaming
from tuneplane.plan.model import Plan

KEYS = """\
  prompt_key: {type: str, default: prompt, path: prompt-key, doc: {en: Column}}
  label_key: {type: str, path: label-key, doc: {en: Column}}
  image_keys: {type: list, items: str, path: image-keys, doc: {en: Columns}}
  chat: {type: bool, default: false, path: chat, doc: {en: Chat}}
  style: {type: str, otherwise: "'pairs' if chat else none", path: style, doc: {en: Style}}
rules:
"""
NEEDS = "train: optional, validation: optional"


def recipe(root: Path, data: str) -> Recipe:
    """The tuned recipe with parameters that name columns, and more under `data`."""
    text, count = re.subn(r"(?m)^data: .*$", lambda _: f"data: {{kind: any, {NEEDS}, {data}}}", RECIPE)
    assert count == 1
    return written_recipe(root, replaced(text, ("rules:\n", KEYS)))


def local(**paths: str) -> dict[str, Located]:
    """Local files by key, `__1` for the second of a list."""
    keys = {f"data.{key.replace('__', '.')}": path for key, path in paths.items()}
    return {key: Located(key, path, path, True, where=f"config.yaml {key}") for key, path in keys.items()}


def layouts(recipe: Recipe, text: str = "", **over: Any) -> list[tuple[str, ...]]:
    over.setdefault("located", local(train="/d/a.jsonl"))
    (file,) = plan(recipe, text, **over).data
    return [*file.layouts]


def option(made: Plan) -> str | None:
    return dict(made.launch).get("--columns")


def test_columns_by_name_and_by_parameter(tmp_path: Path) -> None:
    made = recipe(tmp_path, 'layouts: [{columns: ["{prompt_key}", answer, meta.id]}]')
    assert layouts(made) == [("prompt", "answer", "meta.id")]
    assert layouts(made, "params: {prompt_key: question}") == [("question", "answer", "meta.id")]


def test_a_parameter_that_is_not_set_asks_for_no_column(tmp_path: Path) -> None:
    made = recipe(tmp_path, 'layouts: [{columns: ["{prompt_key}", "{label_key}", "{image_keys}"]}]')
    assert layouts(made) == [("prompt",)]
    assert layouts(made, 'params: {label_key: ""}') == [("prompt",)]
    assert layouts(made, "params: {label_key: l, image_keys: [a, b]}") == [("prompt", "l", "a", "b")]
    assert layouts(made, "params: {label_key: prompt}") == [("prompt",)]
    lone = recipe(tmp_path / "lone", 'layouts: [{columns: ["{label_key}"]}]')
    assert plan(lone, located=local(train="/d/a.jsonl")).data == ()


def test_layouts_that_apply(tmp_path: Path) -> None:
    data = """layouts: [
      {columns: [messages], when: chat},
      {columns: [prompt, response], when: not chat},
      {columns: [text], when: label_key is none and world_size > 1},
      {columns: [chosen, rejected], when: style == 'pairs'},
      {columns: [messages], when: "train_data[0].endswith('.jsonl')"}]"""
    made = recipe(tmp_path, data)
    assert layouts(made) == [("prompt", "response"), ("text",), ("messages",)]
    assert layouts(made, "params: {chat: true}") == [("messages",), ("text",), ("chosen", "rejected")]
    assert layouts(made, "params: {label_key: x}") == [("prompt", "response"), ("messages",)]
    assert layouts(made, "resources: {profile: h200:1}") == [("prompt", "response"), ("messages",)]


def test_a_condition_that_cannot_be_evaluated(tmp_path: Path) -> None:
    made = recipe(tmp_path, "layouts: [{columns: [a], when: 1 / (steps or 0) > 2}]")
    code, problems = refused(made, located=local(train="/d/a.jsonl"))
    assert code == 3 and "cannot be evaluated" in problems[0][0]


def test_every_local_file_and_none_of_the_hub(tmp_path: Path) -> None:
    made = recipe(tmp_path, "layouts: [{columns: [a]}]")
    files = local(train="/d/a b.jsonl", train__1="/d/é.parquet", validation="/d/c")
    hub = {
        "data.validation": Located("data.validation", "a/b", "/hub/x", True, commit="c" * 40),
        "data.train": Located("data.train", "a/b", None, False, missing="data.train `a/b` is not there"),
        "params.extra": Located("params.extra", "/e.jsonl", "/e.jsonl", True),
    }
    found = plan(made, located=files)
    assert [(file.key, file.path, file.layouts) for file in found.data] == [
        ("data.train", "/d/a b.jsonl", (("a",),)),
        ("data.train.1", "/d/é.parquet", (("a",),)),
        ("data.validation", "/d/c", (("a",),)),
    ]
    text = option(found)
    assert text and read_files(text) == found.data
    for located in (hub, {}):
        assert option(plan(made, located=located)) is None


def test_without_layouts_nothing_is_looked_at(tmp_path: Path) -> None:
    made = recipe(tmp_path, "formats: [jsonl]")
    found = plan(made, located=local(train="/d/a.jsonl"))
    assert found.data == () and option(found) is None


@pytest.mark.parametrize("path", ["/d/a.txt", "/d/a", "/d/a.JSONL", "/d/a.jsonl.gz", "/d/a.csv", "/d/.jsonl"])
def test_a_format_that_is_not_read(tmp_path: Path, path: str) -> None:
    made = recipe(tmp_path, "formats: [jsonl, json, parquet]")
    for fine in ("/d/a.jsonl", "/d/a.json", "/d/a.b.parquet"):
        plan(made, located=local(train=fine))
    code, problems = refused(made, located=local(train="/d/a.json", train__1=path))
    assert (code, problems) == (3, [(f"toy/tuned does not read `{path}`", "config.yaml data.train.1")])


def test_no_formats_are_any(tmp_path: Path) -> None:
    plan(recipe(tmp_path, "layouts: []"), located=local(train="/d/folder"))


def test_what_upstream_splits_at(tmp_path: Path) -> None:
    made = recipe(tmp_path, 'separators: ",@", formats: [jsonl]')
    plan(made, located=local(train="/d/a b.jsonl"))
    code, problems = refused(made, located=local(train="/d@x/a,b.jsonl"))
    assert code == 3 and problems == [
        ("toy splits paths of data at `,`: `/d@x/a,b.jsonl`", "config.yaml data.train"),
        ("toy splits paths of data at `@`: `/d@x/a,b.jsonl`", "config.yaml data.train"),
    ]
    hub = Located("data.train", "a/b", "/hub,1/x", True, commit="c" * 40, where="config.yaml:1 data.train")
    assert (
        refused(made, located={"data.train": hub})[1][0][0] == "toy splits paths of data at `,`: `/hub,1/x`"
    )
    model = Located("model", "/m,1", "/m,1", True)
    assert plan(made, "model: /m,1", located={"model": model})


def test_which_parameter_renames_a_column(tmp_path: Path) -> None:
    made = recipe(tmp_path, 'layouts: [{columns: ["{prompt_key}", "{label_key}", "{image_keys}", chat]}]')
    settings = plan(made, "params: {prompt_key: q, image_keys: [a, b], style: x}").settings
    assert [renaming(made, settings, name) for name in ("q", "b", "chat", "x", "prompt")] == [
        "prompt_key", "image_keys", "", "", "",
    ]  # fmt: skip
