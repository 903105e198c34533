"""What is kept from the package index: made once, whole or not at all, and only where that is asked for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kept import REQUIRED, Unavailable, kept, run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty test cache into which things may be got."""
    monkeypatch.setenv("TUNEPLANE_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(REQUIRED, "1")
    return tmp_path / "cache"


def test_it_is_built_once(cache: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "file").write_text("x")

    first = kept("thing", ["a"], build, "1 MB")
    assert kept("thing", ["a"], build, "1 MB") == first and (first / "file").read_text() == "x"
    assert len(built) == 1 and not built[0].exists()
    assert kept("thing", ["b"], build, "1 MB") != first


def test_what_fails_leaves_nothing_behind(cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("x")
        run("false")

    with pytest.raises(Unavailable, match="`false` failed"):
        kept("thing", ["a"], build, "1 MB")
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_nothing_is_got_unasked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRED)
    with pytest.raises(
        Unavailable, match=r"thing is not in the test cache; TUNEPLANE_REQUIRE_TORCH=1 has it made \(3 GB\)"
    ):
        kept("thing", ["a"], lambda _: None, "3 GB")
    assert not cache.exists()


def test_one_waits_for_the_other(cache: Path) -> None:
    started, go, built = threading.Event(), threading.Event(), []

    def build(folder: Path) -> None:
        built.append(folder)
        started.set()
        go.wait(10)

    threads = [threading.Thread(target=kept, args=("thing", ["a"], build, "1 MB")) for _ in range(2)]
    threads[0].start()
    started.wait(10)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(10)
    assert len(built) == 1
