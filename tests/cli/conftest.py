"""Fixtures of the command-line tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("cli.world")

from cli.world import World  # noqa: E402


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all worlds: it holds only what follows from its keys."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def world(tmp_path: Path, cache: Path) -> Iterator[World]:
    """A world of its own; whatever was done in it, nothing has evaluated its folder's name."""
    made = World(tmp_path, cache)
    yield made
    assert not list(tmp_path.rglob("pwned"))
