"""Fixtures of the tests that start scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from render.places import Place


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all places: it holds only what follows from its keys."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def place(tmp_path: Path, cache: Path) -> Iterator[Place]:
    """A strange-named folder with an experiment, and a site whose jobs run here."""
    made = Place(tmp_path, cache)
    yield made
    made.end()


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `made_locale` keeps the locales it makes."""
    return tmp_path_factory.mktemp("locales")
