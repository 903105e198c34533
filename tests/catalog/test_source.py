"""Shared pieces merged in, site recipes laid over bundled ones, and what a framework version changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import MANIFEST, catalog, problems_of, recipe, replaced, whats, write_recipe

from tuneplane.catalog.recipe import resolve
from tuneplane.catalog.source import Layer, gather
from tuneplane.documents.tree import at, plain
from tuneplane.errors import InputError


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


# --- includes ---


def test_pieces_are_merged_in_order_and_keep_their_places(tmp_path: Path) -> None:
    write(tmp_path, "_all.yaml", "schema: 1\nx: {a: 1, b: 1, c: 1}\nl: [1, 2]\n")
    write(tmp_path, "f/_more.yaml", "include: [../_all.yaml]\nx: {b: 2, c: 2}\n")
    write(tmp_path, "f/_last.yaml", "x:\n  c: 3\n")
    write(tmp_path, "f/m/recipe.yaml", "include: [../_more.yaml, .././_last.yaml]\n\nx: {d: 4}\nl: [3]\n")
    tree = gather([Layer.read(tmp_path)])["f/m"].tree
    assert plain(tree) == {"schema": 1, "x": {"a": 1, "b": 2, "c": 3, "d": 4}, "l": [3]}
    places = {key: str(at(tree, ("x", key))[0]).removeprefix(f"{tmp_path}/") for key in "abcd"}
    assert places == {
        "a": "_all.yaml:2",
        "b": "f/_more.yaml:2",
        "c": "f/_last.yaml:2",
        "d": "f/m/recipe.yaml:3",
    }


def test_only_mappings_are_merged_anything_else_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "_x.yaml", "a: {p: 1}\nb: 1\nc: [1]\nd: {p: 1}\ne: 1\n")
    write(tmp_path, "f/m/recipe.yaml", "include: [../../_x.yaml]\na: 2\nb: {q: 2}\nc: {q: 2}\nd: ~\n")
    assert plain(gather([Layer.read(tmp_path)])["f/m"].tree) == {
        "a": 2, "b": {"q": 2}, "c": {"q": 2}, "d": None, "e": 1}  # fmt: skip


def test_a_fault_of_a_shared_piece_names_the_piece(tmp_path: Path) -> None:
    write(tmp_path, "_shared.yaml", "parameters:\n  steps: {type: int, default: x}\n")
    file = write_recipe(tmp_path, "include: [../../_shared.yaml]\n" + MANIFEST)
    with pytest.raises(InputError) as caught:
        _ = catalog(tmp_path).entries
    (problem,) = problems_of(caught)
    assert problem.where == f"{tmp_path}/_shared.yaml:2 parameters.steps.default" and file.exists()


@pytest.mark.parametrize(
    ("include", "what"),
    [("[../_gone.yaml]", "there is no shared piece `../_gone.yaml`"), ("[../other.yaml]", "there is no shared piece `../other.yaml`"),
     ("[../n/recipe.yaml]", "there is no shared piece `../n/recipe.yaml`"), ("[../../../_x.yaml]", "`../../../_x.yaml` leads out of the recipe folder"),
     ("[/etc/passwd]", "there is no shared piece `/etc/passwd`"), ("_x.yaml", "`include` is not a list"), ("[[a]]", "`include` names files"),
     ("['']", "there is no shared piece `\"\"`"), ("[..]", "there is no shared piece `..`")],
)  # fmt: skip
def test_what_cannot_be_included(tmp_path: Path, include: str, what: str) -> None:
    write(tmp_path, "f/other.yaml", "a: 1")
    write(tmp_path, "f/n/recipe.yaml", "a: 1")
    write(tmp_path, "f/m/recipe.yaml", f"# a comment\ninclude: {include}\n")
    with pytest.raises(InputError) as caught:
        gather([Layer.read(tmp_path)])
    assert [(p.what, p.where) for p in problems_of(caught)] == [
        (what, f"{tmp_path}/f/m/recipe.yaml:2 include")
    ]


@pytest.mark.parametrize(
    "pieces", [{"_a": "_a"}, {"_a": "_b", "_b": "_a"}, {"_a": "_b", "_b": "_c", "_c": "_b"}]
)
def test_pieces_that_include_each_other(tmp_path: Path, pieces: dict[str, str]) -> None:
    for name, other in pieces.items():
        write(tmp_path, f"f/{name}.yaml", f"include: [{other}.yaml]\n")
    write(tmp_path, "f/m/recipe.yaml", "include: [../_a.yaml]\n")
    with pytest.raises(InputError, match="shared pieces include each other") as caught:
        gather([Layer.read(tmp_path)])
    last = list(pieces)[-1]
    assert [p.where for p in problems_of(caught)] == [f"{tmp_path}/f/{last}.yaml:1 include"]


def test_the_same_piece_twice_is_no_cycle(tmp_path: Path) -> None:
    write(tmp_path, "f/_x.yaml", "a: 1")
    write(tmp_path, "f/_y.yaml", "include: [_x.yaml]\nb: 1")
    write(tmp_path, "f/m/recipe.yaml", "include: [../_x.yaml, ../_y.yaml]\n")
    assert plain(gather([Layer.read(tmp_path)])["f/m"].tree) == {"a": 1, "b": 1}


def test_which_folders_are_methods(tmp_path: Path) -> None:
    for path in (
        "f/m/recipe.yaml",
        "f/_m/recipe.yaml",
        "_f/m/recipe.yaml",
        ".f/m/recipe.yaml",
        "f/recipe.yaml",
        "f/m/deep/recipe.yaml",
        "f/n/other.yaml",
    ):
        write(tmp_path, path, "a: 1")
    assert sorted(Layer.read(tmp_path).methods()) == ["f/m"]


def test_a_recipe_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Layer.read(tmp_path / "gone")


# --- overlays ---


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path]:
    write_recipe(tmp_path / "low")
    return tmp_path / "low", tmp_path / "high"


def test_an_overlay_extends_the_method_below(layers: tuple[Path, Path]) -> None:
    low, high = layers
    overlay = "extends: toy/tuned\nsummary: {zh: 玩具}\nframework: {versions: {1.0.0: {runtime_id: toy-1}}}\nparameters: {rate: {default: 0.5}}\n"
    write_recipe(high, overlay)
    found = catalog(low, high)
    entry = found.entries["toy/tuned"]
    assert (entry.versions, found.folders("toy/tuned")) == (
        ["2.0.0", "1.0.0"],
        [low / "toy/tuned", high / "toy/tuned"],
    )
    assert (entry.summary.en, entry.summary.zh) == ("A toy", "玩具")
    made = resolve(found.manifest("toy/tuned"), "1.0.0")
    assert (made.runtime_id, made.parameters["rate"].default, made.parameters["rate"].path) == (
        "toy-1",
        0.5,
        "learning-rate",
    )


def test_a_fault_of_an_overlay_names_the_overlay(layers: tuple[Path, Path]) -> None:
    low, high = layers
    file = write_recipe(high, "extends: toy/tuned\nparameters:\n  rate: {default: 5}\n")
    with pytest.raises(InputError) as caught:
        _ = catalog(low, high).entries
    assert [p.where for p in problems_of(caught)] == [f"{file}:3 parameters.rate.default"]


def test_two_methods_of_one_name_collide(layers: tuple[Path, Path]) -> None:
    low, high = layers
    write_recipe(high)
    with pytest.raises(InputError) as caught:
        _ = catalog(low, high).entries
    (problem,) = problems_of(caught)
    assert problem.what == f"toy/tuned is in {low}/toy/tuned already"
    assert (problem.where, problem.expected) == (
        f"{high}/toy/tuned/recipe.yaml",
        "`extends: toy/tuned` to lay this manifest over that one",
    )


@pytest.mark.parametrize(
    ("name", "extends", "what"),
    [("toy/tuned", "toy/other", "a manifest extends the method of its own name"), ("toy/tuned", "[toy/tuned]", "a manifest extends the method of its own name"),
     ("toy/new", "toy/new", "there is no toy/new below to extend")],
)  # fmt: skip
def test_what_cannot_be_extended(layers: tuple[Path, Path], name: str, extends: str, what: str) -> None:
    low, high = layers
    file = write_recipe(high, f"\nextends: {extends}\n", name)
    with pytest.raises(InputError) as caught:
        _ = catalog(low, high).entries
    assert [(p.what, p.where) for p in problems_of(caught)] == [(what, f"{file}:2 extends")]


def test_a_new_method_of_an_overlay_stands_beside(layers: tuple[Path, Path]) -> None:
    low, high = layers
    write_recipe(high, replaced(MANIFEST, ("name: toy/tuned", "name: toy/more")), "toy/more")
    assert list(catalog(low, high).entries) == ["toy/more", "toy/tuned"]


def test_the_topmost_starter_counts(layers: tuple[Path, Path]) -> None:
    low, high = layers
    write_recipe(high, "extends: toy/tuned\n")
    found = catalog(low, high)
    assert found.starter("toy/tuned") == {}
    for root, text in ((low, b"low"), (high, b"high")):
        (root / "toy/tuned/starter/sub").mkdir(parents=True)
        (root / "toy/tuned/starter/sub/run.sh").write_bytes(text)
        (root / "toy/tuned/starter/sub/run.sh").chmod(0o755)
        for left in (".hidden", "old~", "__pycache__"):
            (root / "toy/tuned/starter" / left).mkdir()
            (root / "toy/tuned/starter" / left / "x").touch()
        assert found.starter("toy/tuned") == {"sub/run.sh": (text, True)}


# --- framework versions ---


def test_what_a_version_changes(tmp_path: Path) -> None:
    change = """\
    1.0.0:
      runtime_id: toy-1
      requires: [toy==1.0.0]
      launch: {kind: process, entry: {module: toy.old}}
      rename: {rate: speed}
      paths: {speed: old-rate}
      defaults: {speed: 0.5}
      remove: [steps]
      add: {passes: {type: int, path: passes, doc: {en: P}}}
"""
    text = replaced(MANIFEST, ("    2.0.0: {runtime_id", f"{change}    2.0.0: {{runtime_id"))
    old = recipe(tmp_path, text, "1.0.0")
    assert (old.runtime_id, old.requires, old.launch.entry.module) == ("toy-1", ["toy==1.0.0"], "toy.old")
    assert {name: (p.path, p.default, p.alias) for name, p in old.parameters.items()} == {
        "speed": ("old-rate", 0.5, "lr"),
        "passes": ("passes", None, ""),
    }
    new = resolve(catalog(tmp_path).manifest("toy/tuned"))
    assert {name: (p.path, p.default) for name, p in new.parameters.items()} == {
        "rate": ("learning-rate", 0.1),
        "steps": ("steps", None),
    }
    assert (new.framework_version, new.launch.kind) == ("2.0.0", "torchrun")


def test_a_version_can_take_a_default_away(tmp_path: Path) -> None:
    text = replaced(MANIFEST, ("2.0.0: {runtime_id", "2.0.0: {defaults: {rate: ~}, runtime_id"))
    assert recipe(tmp_path, text).parameters["rate"].default is None


def test_a_version_can_define_a_parameter_anew(tmp_path: Path) -> None:
    anew = "remove: [rate], add: {rate: {type: int, path: rate, doc: {en: R}}}"
    made = recipe(tmp_path, replaced(MANIFEST, ("2.0.0: {runtime_id", f"2.0.0: {{{anew}, runtime_id")))
    assert (made.parameters["rate"].type, made.parameters["rate"].path) == ("int", "rate")


def test_a_version_that_there_is_not(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    with pytest.raises(InputError) as caught:
        resolve(catalog(tmp_path).manifest("toy/tuned"), "2.0.1")
    assert whats(caught) == ["toy/tuned has no framework version `2.0.1`, did you mean `2.0.0`?"]
    assert problems_of(caught)[0].expected == "one of 2.0.0"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("toy/tunde", "there is no method `toy/tunde`, did you mean `toy/tuned`?"),
        ("x", "there is no method `x`"),
    ],
)
def test_a_method_that_there_is_not(tmp_path: Path, name: str, what: str) -> None:
    write_recipe(tmp_path)
    for ask in (catalog(tmp_path).manifest, catalog(tmp_path).folders, catalog(tmp_path).starter):
        with pytest.raises(InputError) as caught:
            ask(name)
        assert whats(caught) == [what] and problems_of(caught)[0].hint == "tp methods"
