"""What several tests build their cases from: a cache of their own, sites, recipes, configurations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tuneplane.catalog.load import SourceCatalog
from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.catalog.source import Layer
from tuneplane.documents.shape import construct
from tuneplane.errors import Problem, TuneplaneError
from tuneplane.experiment.config import Config, read_config
from tuneplane.prepare import RESOURCE_KEYS
from tuneplane.sites.model import Site


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's cache stays out of the tests, and the tests out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing is stored yet."""
    folder = tmp_path / "cold-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "tuneplane"


def problems_of(caught: pytest.ExceptionInfo[TuneplaneError]) -> list[Problem]:
    return list(caught.value.problems)


def whats(caught: pytest.ExceptionInfo[TuneplaneError]) -> list[str]:
    return [problem.what for problem in caught.value.problems]


def parameter(type: str, **fields: Any) -> Parameter:
    return construct(Parameter, {"type": type, "doc": {"en": "A parameter"}, **fields})


def config(text: str) -> Config:
    """`config.yaml` with this text."""
    return read_config(textwrap.dedent(text), "exp/config.yaml", RESOURCE_KEYS)


def site(**fields: Any) -> Site:
    """A Slurm site with Apptainer and two profiles, with `fields` over it."""
    data: dict[str, Any] = {
        "schema": 1,
        "title": {"en": "A site"},
        "scheduler": "slurm",
        "runtime": {"kind": "apptainer"},
        "folders": {"runs": "/runs"},
        "profiles": {
            "h200": {"gpus_per_node": 8, "gpu_type": "h200", "cpus_per_node": 96},
            "cpu": {"cpus_per_node": 32, "processes_per_node": 4},
        },
        "default_profile": "h200:8",
        "default_time": "4h",
    }
    return construct(Site, {**data, **fields})


MANIFEST = """\
schema: 1
name: toy/tuned
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: supervised
requires: {core: ">=0.1,<0.2"}
framework:
  kind: toy
  default: 2.0.0
  versions:
    2.0.0: {runtime_id: toy-2.0.0}
launch: {kind: torchrun, entry: {experiment: main.py}}
config: {style: flags}
data: {kind: any}
parameters:
  rate: {type: float, range: "(0, 1]", default: 0.1, path: learning-rate, alias: lr, doc: {en: Rate}}
  steps: {type: int, range: "[1, inf)", path: steps, doc: {en: Steps}}
"""


def write_recipe(root: Path, text: str = MANIFEST, name: str = "toy/tuned") -> Path:
    """`text` as the manifest `name` below `root`."""
    file = root / name / "recipe.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def catalog(*roots: Path) -> SourceCatalog:
    return SourceCatalog(tuple(Layer.read(root) for root in roots))


def recipe(root: Path, text: str = MANIFEST, version: str | None = None, name: str = "toy/tuned") -> Recipe:
    """The recipe that the manifest `text` is for a framework version."""
    write_recipe(root, text, name)
    return resolve(catalog(root).manifest(name), version)


def replaced(text: str, *pairs: Sequence[str]) -> str:
    """`text` with each old piece, which must be in it once, replaced by a new one."""
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
