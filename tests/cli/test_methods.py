"""`tp methods`: the list and one method, with every option, and a site's overlay."""

from __future__ import annotations

import json

import pytest
from cli.world import REPOSITORY, Expected, World

from tuneplane.catalog.interface import Entry
from tuneplane.catalog.load import load_catalog
from tuneplane.catalog.manifest import Text
from tuneplane.catalog.recipe import resolve
from tuneplane.cli.cells import width
from tuneplane.cli.methods_list import listing
from tuneplane.cli.methods_show import page

expected = Expected("methods")
OVERLAY = REPOSITORY / "tests/catalog_overlay"
TOY = REPOSITORY / "tests/cli/recipes"
IMAGES = "pytorch/image-classification"

CASES = {
    "list": ["methods"],
    "list in Chinese": ["methods", "--lang", "zh"],
    "list as JSON": ["methods", "--json"],
    "list by data": ["methods", "--data", "labelled-images"],
    "list by data as JSON": ["methods", "--data", "any", "--json", "--lang", "zh"],
    "one": ["methods", IMAGES],
    "one in Chinese": ["methods", IMAGES, "--lang", "zh"],
    "one without parameters": ["methods", "custom/custom"],
    "one as JSON": ["methods", "custom/custom", "--json"],
    "the default version named": ["methods", IMAGES, "--framework-version", "2.14.0"],
    "unknown method": ["methods", "pytorch/image-clasification"],
    "unknown method like none": ["methods", "x"],
    "unknown version": ["methods", IMAGES, "--framework-version", "2.14"],
    "unknown data": ["methods", "--data", "images"],
    "unknown data, nearly known": ["methods", "--data", "labeled-images"],
    "data of one method": ["methods", IMAGES, "--data", "any"],
    "a version without a method": ["methods", "--framework-version", "1"],
}


@pytest.mark.parametrize("case", CASES)
def test_methods(world: World, case: str) -> None:
    expected(world.tp(*CASES[case]), case, world)


def test_the_default_version_may_be_named(world: World) -> None:
    assert expected.section("the default version named") == expected.section("one")


CROSSING = REPOSITORY / "tests/cli/crossing"
WIDTHS = {
    "a kind at 80": (["methods", "--data", "verifiable-tasks"], "80"),
    "a kind at 80 in Chinese": (["methods", "--data", "verifiable-tasks", "--lang", "zh"], "80"),
    "a kind that nothing starts from": (["methods", "--data", "none"], "80"),
    "a kind that nothing starts from in Chinese": (["methods", "--data", "none", "--lang", "zh"], "80"),
    "kinds in Chinese": (["methods", "--data", "", "--lang", "zh"], "80"),
    "page at 80": (["methods", "alpha/align"], "80"),
    "page at 80 in Chinese": (["methods", "alpha/align", "--lang", "zh"], "80"),
    "page of another version": (["methods", "alpha/align", "--framework-version", "1.1.0"], "100"),
    "page at 140": (["methods", "beta/align"], "140"),
}


@pytest.mark.parametrize("case", WIDTHS)
def test_in_terminals_of_several_widths(world: World, case: str) -> None:
    world.site("two", "local", recipes=[str(CROSSING)])
    words, cells = WIDTHS[case]
    said = world.tp(*words, TUNEPLANE_SITE="two", COLUMNS=cells)
    if not case.startswith("a kind at"):
        expected(said, case, world)
    longest = max(said.out.splitlines(), key=width, default="")
    assert width(longest) <= int(cells), longest


@pytest.mark.parametrize("cells", [40, 60, 79, 80, 100, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_line_of_any_bundled_method_is_too_long(world: World, lang: str, cells: int) -> None:
    """Words that cannot be broken, such as paths, may be."""
    catalog = load_catalog()
    pages = [listing(catalog.entries.values(), lang, cells)]
    for name in catalog.entries:
        manifest = catalog.manifest(name)
        pages += [
            page(manifest, resolve(manifest, version), lang, cells) for version in manifest.framework.versions
        ]
    for line in (line for lines in pages for line in lines):
        assert width(line) <= cells or len(line.split()) <= 2 or cells < 80, line


def test_a_list_groups_frameworks_and_their_versions() -> None:
    """As a table where there is room, each method over several lines where there is not."""
    entries = [
        entry("a/one", "1", ["1", "2"], "preference-pairs", "Does one thing"),
        entry("a/three", "1", ["1"], "any", "三"),
        entry(
            "a/two", "1", ["1", "2"], "any", "Does another thing, which takes more than a few words to say"
        ),
        entry("b/x", "9", ["9"], "none", "X"),
    ]
    assert listing(entries, "en", 76) == [
        "METHOD     DATA              WHAT IT DOES",
        "",
        "a 1",
        "  a/three  any               三",
        "",
        "a 1, also 2",
        "  a/one    preference-pairs  Does one thing",
        "  a/two    any               Does another thing, which takes more than a few",
        "                             words to say",
        "",
        "b 9",
        "  b/x      none              X",
    ]
    assert listing(entries[:1], "zh", 40) == [
        "a 1，另有 2",
        "  a/one  preference-pairs",
        "      做一件事",
    ]


def entry(name: str, default: str, versions: list[str], data: str, text: str) -> Entry:
    summary = Text(en=text, zh="做一件事")
    return Entry(
        name=name, title=summary, summary=summary, category="c", data=data, default=default, versions=versions
    )


@pytest.mark.parametrize("variable", ["LC_ALL", "LANG"])
def test_the_locale_chooses_the_language(world: World, variable: str) -> None:
    locale = {"LC_ALL": "", "LANG": "C"} | {variable: "zh_CN.UTF-8"}
    expected(world.tp("methods", **locale), "list in Chinese", world)
    expected(world.tp("methods", "--lang", "en", **locale), "list", world)


def test_as_a_process(world: World) -> None:
    expected(world.real("methods"), "list", world)
    expected(world.real("methods", LC_ALL="zh_CN.UTF-8", PYTHONUTF8="1"), "list in Chinese", world)


OVERLAID = {
    "overlay list": ["methods"],
    "overlay version": ["methods", IMAGES, "--framework-version", "2.13.0"],
    "overlay default": ["methods", IMAGES],
    "overlay own method": ["methods", "toy/tuned"],
    "overlay own method, old version": ["methods", "toy/tuned", "--framework-version", "1.0.0"],
    "overlay own method as JSON": ["methods", "toy/tuned", "--json"],
}


@pytest.mark.parametrize("case", OVERLAID)
def test_a_site_lays_recipes_over_the_bundled_ones(world: World, case: str) -> None:
    world.site("bench", "local", recipes=[str(OVERLAY), str(TOY)])
    expected(world.tp(*OVERLAID[case], TUNEPLANE_SITE="bench"), case, world)


def test_another_version_leaves_the_bundled_one_as_it_was(world: World) -> None:
    bench = world.site("bench", "local", recipes=[str(OVERLAY)])
    bundled, overlaid = (
        json.loads(world.tp("--site", site, "methods", IMAGES, "--json").out)
        for site in ("local", str(bench))
    )
    assert bundled.pop("versions") == {"2.14.0": "supported"}
    assert overlaid.pop("versions") == {"2.14.0": "supported", "2.13.0": "supported"}
    assert bundled.pop("differences") == {} and [*overlaid.pop("differences")] == ["2.13.0"]
    assert bundled == overlaid
    old = json.loads(
        world.tp("--site", "bench", "methods", IMAGES, "--framework-version", "2.13.0", "--json").out
    )
    assert (old["runtime_id"], old["requires"]) == ("pytorch-2.13.0", ["torch==2.13.0"])


BROKEN = {
    "no extends": "name: pytorch/image-classification\n",
    "extends another": "extends: custom/custom\n",
    "unknown key": "extends: pytorch/image-classification\nlaunh: {kind: torchrun}\n",
    "wrong kind": "extends: pytorch/image-classification\nlaunch: {kind: ray}\n",
    "default out of range": "extends: pytorch/image-classification\nparameters: {epochs: {default: 0}}\n",
    "rule of unknown names": (
        "extends: pytorch/image-classification\n"
        "rules: [{require: epoch > 1, message: {en: x}}, {require: 'epochs >', message: {en: y}}]\n"
    ),
    "unknown default version": (
        "extends: pytorch/image-classification\nframework: {default: 3.0.0, versions: {1.9.0: {remove: [x]}}}\n"
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_manifest_is_named_with_file_line_and_key(world: World, case: str) -> None:
    folder = world.root / "recipes" / IMAGES
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(BROKEN[case])
    world.site("bench", "local", recipes=[str(world.root / "recipes")])
    expected(world.tp("--site", "bench", "methods"), f"broken: {case}", world)


def test_a_recipe_folder_that_does_not_exist(world: World) -> None:
    world.site("bench", "local", recipes=["nowhere"])
    expected(world.tp("--site", "bench", "methods"), "no recipe folder", world)
