"""The per-user cache: only the user's own, never in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tuneplane import cache
from tuneplane.cache import cache_folder, cache_get, cache_key, cache_put


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tuneplane"


def test_what_is_stored_is_found(cold_cache: Path) -> None:
    assert cache_get("k") is None
    for data in (b"", b"x", bytes(range(256)) * 1000):
        cache_put("k", data)
        assert cache_get("k") == data
    assert [file.name for file in cold_cache.iterdir()] == ["k"]
    assert cold_cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: d[:10], lambda d: d[:-1] + b"?"]
)
def test_what_is_damaged_was_never_stored(cold_cache: Path, damage: Any) -> None:
    cache_put("k", b"data")
    file = cold_cache / "k"
    file.write_bytes(damage(file.read_bytes()))
    assert cache_get("k") is None


def test_keys_tell_parts_apart() -> None:
    keys = [
        cache_key("ab", "c"),
        cache_key("a", "bc"),
        cache_key("abc"),
        cache_key("abc", ""),
        cache_key(),
        cache_key("é"),
        cache_key("e"),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key("é", b"x") == cache_key("é".encode(), "x")


def test_another_version_of_tp_has_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key("x")
    monkeypatch.setattr(cache, "__version__", "99.0")
    assert cache_key("x") != before


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_folder_that_others_can_write_is_not_used(cold_cache: Path, mode: int) -> None:
    cache_put("k", b"data")
    cold_cache.chmod(mode)
    assert cache_folder() is None and cache_get("k") is None


def test_a_link_in_its_place_is_not_used(cold_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cold_cache.parent.mkdir()
    cold_cache.symlink_to(tmp_path / "elsewhere")
    cache_put("k", b"data")
    assert cache_folder() is None and not list((tmp_path / "elsewhere").iterdir())


def test_another_users_folder_is_not_used(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_put("k", b"data")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache_folder() is None and cache_get("k") is None


@pytest.mark.parametrize("place", ["relative/cache", "/proc/none", "/dev/null"])
def test_without_a_place_nothing_is_stored_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    cache_put("k", b"data")
    assert cache_get("k") is None


def test_a_full_disk_leaves_nothing_behind(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_put("other", b"data")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache_put("k", b"data")
    assert [file.name for file in cold_cache.iterdir()] == ["other"]
