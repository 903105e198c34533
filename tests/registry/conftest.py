"""Fixtures of the registry's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.register_assert_rewrite("registry.shelves", "registry.images")

from builders import own_cache  # noqa: E402, F401

from tuneplane.registry.layout import Registry  # noqa: E402


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug in these tests."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """One that is not there yet, in a folder with an odd name."""
    return Registry(tmp_path / "a 'registry' é")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers whose patience ends at once."""
    monkeypatch.setattr("tuneplane.registry.reading.PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("tuneplane.registry.reading.BRIEF_SECONDS", 0.1)
