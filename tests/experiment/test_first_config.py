"""The configuration that an experiment begins with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, config, recipe, replaced

from tuneplane.catalog.load import load_catalog
from tuneplane.catalog.params import default_value, read_node
from tuneplane.catalog.recipe import resolve
from tuneplane.experiment.carried import Carried
from tuneplane.experiment.first_config import config_text

ODD = """\
  text: {type: str, default: "a: b # 'c' \\"d\\"", path: text, doc: {en: "With: # signs", zh: 文字}}
  blank: {type: str, default: "", path: blank, doc: {en: Blank}}
  nul: {type: str, default: "null", path: nul, doc: {en: The word}}
  number: {type: str, default: "1.10", path: number, doc: {en: Number}}
  lines: {type: str, default: "a\\nb\\u2028c", path: lines, doc: {en: Lines}}
  words: {type: list, items: str, default: ["a, b", "", "[c]", "~"], path: words, doc: {en: Words}}
  sizes: {type: list, items: int, default: [1, -2], path: sizes, doc: {en: Sizes}}
  none: {type: list, items: int, default: [], path: none, doc: {en: None}}
  wait: {type: duration, default: 90m, path: wait, doc: {en: Wait}}
  fast: {type: bool, default: false, path: fast, doc: {en: Fast}}
  kind: {type: enum, choices: ["no", "-"], default: "-", path: kind, doc: {en: Kind}}
  file: {type: path, default: "~/x y", path: file, doc: {en: File}}
"""


def recipes(tmp_path: Path) -> list[Any]:
    shipped = load_catalog()
    return [resolve(shipped.manifest(name), version) for name, entry in shipped.entries.items() for version in entry.versions] + [
        recipe(tmp_path, replaced(MANIFEST, ("category: supervised", "category: supervised\nmodel: optional"), ("data: {kind: any}", "data: {kind: any, train: required, validation: optional}")) + ODD)]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_first_configuration_sets_nothing_and_names_everything(tmp_path: Path, language: str) -> None:
    for made in recipes(tmp_path):
        text = config_text(made, language)
        found = config(text)
        assert not found.params and (found.model is None) == (made.model != "required")
        # what is commented out, taken as it stands, is every parameter with its default
        spoken = config(re.sub(r"(?m)^  # (?=[a-z_0-9]+:)", "  ", text))
        assert spoken.params.keys() == made.parameters.keys()
        for name, parameter in made.parameters.items():
            default = default_value(parameter)
            if default is not None:
                assert read_node(parameter, spoken.params[name].node) == default, name


def test_every_other_commented_line_is_valid_when_taken(tmp_path: Path) -> None:
    for made in recipes(tmp_path):
        lines = [
            line.removeprefix("# ")
            for line in config_text(made, "en").splitlines()
            if re.match(r"# [a-z]+: ", line)
        ]
        found = config("\n".join(lines) + "\n")
        assert found.env and found.secrets and "time" in found.resources
        assert bool(found.pools) == any(pool.need == "required" for pool in made.launch.pools.values())
        assert ("profile" in found.resources) != bool(found.pools)
        assert bool(found.tracking) == (made.tracking != ["console"]) and bool(found.overrides) == bool(
            made.keys
        )
        assert (found.model is not None) == (made.model == "optional")


# --- with what is carried over ---

KEPT = Carried(
    model="./my model",
    data={"train": ["a.jsonl", "b c.jsonl"], "validation": ["v"]},
    params={"rate": "1e-6", "steps": "0x10"},
    overrides={"a.b": "[1, 'x']"},
    env={"A": "1", "B": "x y"},
    secrets=["K", "L"],
    tracking=["console"],
    resources={"time": "4h", "account": "null"},
    pools={"trainer": "h200:8", "a,b": "cpu:1"},
    args=["a b", ""],
)


def test_what_is_carried_is_set(tmp_path: Path) -> None:
    made = recipe(tmp_path, replaced(MANIFEST, ("data: {kind: any}", "data: {kind: any, train: required, validation: optional}")).replace("category: supervised", "category: supervised\nmodel: required"))  # fmt: skip
    found = config(config_text(made, "en", KEPT))
    assert found.model is not None and found.model.text == KEPT.model
    assert {key: item.text for key, item in found.data.items()} == {
        "train": "a.jsonl",
        "train.1": "b c.jsonl",
        "validation": "v",
    }
    assert {key: read_node(made.parameters[key], item.node) for key, item in found.params.items()} == {
        "rate": 1e-6,
        "steps": 16,
    }
    assert list(found.overrides) == ["a.b"]
    for section in ("env", "resources", "pools"):
        assert {key: item.text for key, item in getattr(found, section).items()} == getattr(KEPT, section)
    for section in ("secrets", "tracking", "args"):
        assert [item.text for item in getattr(found, section)] == getattr(KEPT, section)


def test_what_is_needed_and_not_carried_wants_to_be_named(tmp_path: Path) -> None:
    made = recipe(tmp_path, replaced(MANIFEST, ("data: {kind: any}", "data: {kind: any, train: required, validation: optional}")))  # fmt: skip
    assert "\ndata: {train: data/train, validation: v}    # any\n" in config_text(
        made, "en", Carried(data={"validation": ["v"]})
    )
