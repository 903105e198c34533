"""The catalog in force, cold and warm, and the one that ships."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, config, replaced, write_recipe

from tuneplane.catalog import load
from tuneplane.catalog.load import SourceCatalog, load_catalog
from tuneplane.catalog.manifest import Text
from tuneplane.catalog.params import as_set, default_value, read_text
from tuneplane.catalog.recipe import resolve
from tuneplane.catalog.rules import SURROUNDINGS, broken, pool_names
from tuneplane.errors import InputError
from tuneplane.faults import Faults
from tuneplane.plan.settings import derived, settle
from tuneplane.resources import bundled

OVERLAY = Path(__file__).parents[1] / "catalog_overlay"


def seen(found: SourceCatalog) -> dict[str, Any]:
    return {name: (entry, found.manifest(name)) for name, entry in found.entries.items()}


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch, cold_cache: Path) -> list[int]:
    """Counts how often manifests were really read and merged, with a cache that begins empty."""
    calls: list[int] = []
    real = load.gather
    monkeypatch.setattr(load, "gather", lambda layers: (calls.append(1), real(layers))[1])
    return calls


def test_cold_and_warm_are_the_same(gathered: list[int]) -> None:
    cold = seen(load_catalog([OVERLAY]))
    assert len(gathered) == 1
    warm = seen(load_catalog([OVERLAY]))
    assert warm == cold and len(gathered) == 1
    assert list(warm) == sorted(warm)


def test_without_a_cache_the_same(monkeypatch: pytest.MonkeyPatch, gathered: list[int]) -> None:
    cold = seen(load_catalog())
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert seen(load_catalog()) == cold and len(gathered) > 1


def test_a_damaged_cache_is_an_empty_one(gathered: list[int], cold_cache: Path) -> None:
    cold = seen(load_catalog())
    for file in cold_cache.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert seen(load_catalog()) == cold and len(gathered) > 1


@pytest.mark.parametrize("change", ["text", "piece", "root"])
def test_what_changed_is_read_again(tmp_path: Path, gathered: list[int], change: str) -> None:
    write_recipe(tmp_path / "a", "include: [../_x.yaml]\n" + MANIFEST)
    (tmp_path / "a/toy/_x.yaml").write_text("model: none\n")
    assert catalog(tmp_path / "a").manifest("toy/tuned").model == "none"
    if change == "text":
        write_recipe(tmp_path / "a", replaced(MANIFEST, ("data: {kind", "model: required\ndata: {kind")))
    elif change == "piece":
        (tmp_path / "a/toy/_x.yaml").write_text("model: required\n")
    else:
        write_recipe(tmp_path / "b", replaced(MANIFEST, ("data: {kind", "model: required\ndata: {kind")))
    assert catalog(tmp_path / ("b" if change == "root" else "a")).manifest("toy/tuned").model == "required"
    assert len(gathered) == 2


def test_an_invalid_catalog_is_not_remembered(tmp_path: Path, gathered: list[int]) -> None:
    write_recipe(tmp_path, replaced(MANIFEST, ("default: 0.1", "default: 9")))
    for _ in range(2):
        with pytest.raises(InputError):
            catalog(tmp_path).manifest("toy/tuned")
    assert len(gathered) == 2


def test_defaults_survive_the_cache(tmp_path: Path, cold_cache: Path) -> None:
    odd = """\
  big: {type: int, default: 123456789012345678901234567890, path: big, doc: {en: B}}
  list: {type: list, items: float, default: [1, 2.5e-7], path: list, doc: {en: L}}
  text: {type: str, default: "é\\n世", path: text, doc: {en: T}}
"""
    write_recipe(tmp_path, MANIFEST + odd)
    cold = seen(catalog(tmp_path))
    warm = catalog(tmp_path).manifest("toy/tuned")
    assert warm == cold["toy/tuned"][1]
    assert {
        name: default_value(p) for name, p in warm.parameters.items() if name in ("big", "list", "text")
    } == {
        "big": 123456789012345678901234567890,
        "list": [1.0, 2.5e-7],
        "text": "é\n世",
    }


# --- the catalog that ships ---


def versions() -> list[tuple[str, str]]:
    return [
        (name, version)
        for name, entry in load_catalog([OVERLAY]).entries.items()
        for version in entry.versions
    ]


def texts(value: Any, path: str) -> Iterator[tuple[str, Text]]:
    if isinstance(value, Text):
        yield path, value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, f"{path}[]")


def test_what_ships() -> None:
    assert set(load_catalog().entries) >= {"custom/custom", "pytorch/image-classification"}
    assert ("pytorch/image-classification", "2.13.0") in versions()


def test_every_version_is_sound_as_it_comes() -> None:
    """On one GPU, or as many CPUs, with model and data named."""
    sizes = {"nodes": 1, "gpus_per_node": 1, "processes_per_node": 1, "world_size": 1, "cpus_per_node": 16}
    given = {
        "model": "m",
        "train_data": ["t"],
        "validation_data": ["v"],
        "tracking": ["console"],
        "online": True,
    }
    for name, version in versions():
        recipe = resolve(load_catalog([OVERLAY]).manifest(name), version)
        for key, parameter in recipe.parameters.items():
            value = default_value(parameter)
            if value is not None:
                assert read_text(parameter, as_set(parameter, value)) == value, (name, key)
        around = {
            **dict.fromkeys(SURROUNDINGS),
            **dict.fromkeys(pool_names(recipe.launch), 1),
            **sizes,
            **given,
        }
        needed = {key: "text" for key, parameter in recipe.parameters.items() if key == "teacher_model"}
        settings = [
            replace(setting, value=needed.get(setting.key, setting.value))
            for setting in settle(recipe, config(""), (), Faults())
        ]
        values = {one.key: one.value for one in derived(recipe, settings, around, Faults())}
        assert broken(recipe.rules, {**around, **values}) == [], (name, version)


def test_every_text_is_there_in_both_languages() -> None:
    catalog_in_force = load_catalog([OVERLAY])
    found = [
        item for name in catalog_in_force.entries for item in texts(catalog_in_force.manifest(name), name)
    ]
    assert len(found) >= 10
    for path, text in found:
        assert text.en and text.en.isascii(), path
        assert any("\u4e00" <= c <= "\u9fff" for c in text.zh), path
        assert not text.en.endswith(".") and not text.zh.endswith("。"), path
        assert text.read("en") == text.en and text.read("zh") == text.zh


def test_a_missing_chinese_text_is_read_in_english() -> None:
    assert Text(en="A").read("zh") == "A"


def test_every_starter_lies_where_the_catalog_looks() -> None:
    found = load_catalog()
    for name in found.entries:
        assert found.folders(name) == [bundled("recipes") / name]
        entry = found.manifest(name).launch.entry.experiment
        assert not entry or entry in found.starter(name)
        assert "README.md" in found.starter(name)
