"""The tables of upstream's keys are what the real packages have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contract.keys import ROOT, TABLES, Table, differences, made
from kept import Unavailable
from torch_python import unavailable


@pytest.mark.torch
@pytest.mark.parametrize(
    ("table", "version"), [(table, version) for table in TABLES for version in table.versions]
)
def test_the_tables_are_those_of_the_packages(table: Table, version: str) -> None:
    try:
        wanted = dict(made(table, version))
    except Unavailable as error:
        unavailable(str(error))
    faults = [fault for file, text in wanted.items() for fault in differences(file, text, ROOT)]
    assert not faults, "\n".join([*faults, "scripts/upstream-keys writes the tables anew"])


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """A checkout with one table and one recipe."""
    folder = tmp_path / "recipes/toy"
    (folder / "_keys").mkdir(parents=True)
    (folder / "_keys/main-1.0.json").write_text(text({"a.rate": "float", "b": "int", "old": "str"}))
    (folder / "recipe.yaml").write_text("name: toy/tuned\nparameters:\n  rate: {type: float, path: old}\n")
    return folder


def text(keys: dict[str, str]) -> str:
    return json.dumps({"source": "here", "keys": keys}, indent=1) + "\n"


def test_a_difference_names_the_line_to_edit(recipes: Path, tmp_path: Path) -> None:
    file = recipes / "_keys/main-1.0.json"
    assert list(differences(file, file.read_text(), tmp_path)) == []
    assert list(differences(file, text({"a.rate": "int", "a.steps": "int", "b": "int"}), tmp_path)) == [
        'recipes/toy/_keys/main-1.0.json:4: "a.rate" is of type int upstream',
        'recipes/toy/_keys/main-1.0.json:5: upstream has a key more: "a.steps": "int"',
        'recipes/toy/_keys/main-1.0.json:6: "old" is no more upstream',
        "  recipes/toy/recipe.yaml:3: rate: {type: float, path: old}",
    ]


def test_a_table_that_is_missing_lacks_everything(recipes: Path, tmp_path: Path) -> None:
    found = list(differences(recipes / "_keys/other-1.0.json", text({"a": "int"}), tmp_path))
    assert found == ['recipes/toy/_keys/other-1.0.json:4: upstream has a key more: "a": "int"']
