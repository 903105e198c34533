"""Reading: the hint, the walk, what may pass and what is certain."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import whats
from registry.shelves import backdate, content, publish_all, read_word

from tuneplane.errors import LockError
from tuneplane.registry import reading
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import history, newest


def serial(registry: Registry) -> int | None:
    found = newest(registry)
    return found.serial if found else None


def test_nothing_is_published(registry: Registry) -> None:
    assert serial(registry) is None and history(registry) == []
    registry.serials.mkdir(parents=True)
    assert serial(registry) is None


@pytest.mark.parametrize(
    "text", [None, b"", b"1", b"2\n", b"99\n", b"0\n", b"-1", b"12345678901", b"\xff\xfe", b"2\n2\n"]
)
def test_current_is_only_a_hint(registry: Registry, text: bytes | None) -> None:
    publish_all(registry, "a", "b", "c")
    registry.current.unlink()
    if text is not None:
        registry.current.write_bytes(text)
    assert serial(registry) == 3 and read_word(registry) == "c"


def test_a_folder_in_place_of_current(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    registry.current.unlink()
    registry.current.mkdir()
    assert serial(registry) == 2


def test_history(registry: Registry) -> None:
    publish_all(registry, "a", "b", "c")
    found = history(registry)
    assert [p.serial for p in found] == [3, 2, 1] and history(registry, found[1]) == found[1:]


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: int, times: int) -> list[str]:
    """Let opening files of that name fail some times; gives what was opened."""
    real, opened = os.open, []

    def open_(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.path.basename(os.fspath(path)) == name:
            opened.append(name)
            if len(opened) <= times:
                raise OSError(error, os.strerror(error), os.fspath(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_)
    return opened


@pytest.mark.parametrize("error", [errno.ESTALE, errno.EIO, errno.EAGAIN, errno.ETIMEDOUT])
@pytest.mark.parametrize("name", ["CURRENT", "00000001.json", "00000002.json", "00000003.json"])
def test_what_may_pass_is_tried_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, name: str, error: int
) -> None:
    """A stale handle on the serial after the last, too, whose absence is then believed."""
    publish_all(registry, "a", "b")
    opened = failing(monkeypatch, name, error, 2)
    assert serial(registry) == 2 and [p.serial for p in history(registry)] == [2, 1]
    assert len(opened) > 1


def test_a_vanished_part_and_a_vanished_index_come_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_all(registry, "a")
    made = content("a")
    for name in ("index.json", next(iter(made.parts)).rpartition("/")[2]):
        opened = failing(monkeypatch, name, errno.ENOENT, 2)
        assert read_word(registry) == "a" and len(opened) == 3


@pytest.mark.parametrize("cut", [lambda data: data[:-1], lambda data: b"", lambda data: data + b" "])
def test_a_short_read_is_tried_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, cut: Callable[[bytes], bytes]
) -> None:
    publish_all(registry, "a")
    real, reads = reading.read_bytes, []

    def read(path: Path) -> tuple[bytes, os.stat_result]:
        data, status = real(path)
        reads.append(path)
        return (
            cut(data) if reads.count(path) == 1 and path.parent.name in ("methods", "files") else data
        ), status

    monkeypatch.setattr(reading, "read_bytes", read)
    assert read_word(registry) == "a"


def test_a_serial_that_is_not_whole_yet(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_all(registry, "a", "b")
    file = registry.serial(2)
    whole = file.read_bytes()
    file.write_bytes(whole[:20])
    monkeypatch.setattr(time, "sleep", lambda _: file.write_bytes(whole))
    assert serial(registry) == 2


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("data", "trouble"),
    [(b"", "it is not whole"), (b"[]", "it is not whole"), (b'{"serial": 2', "it is not whole"), (b"[" * 100000, "it is not whole"),
     ({"serial": 7}, "it says that it is serial 7"), ({"digest": "../../etc"}, "it names no catalog"), ({"details": 3}, "it is not whole")],
)  # fmt: skip
def test_a_damaged_serial_is_said_clearly(
    registry: Registry, data: bytes | dict[str, Any], trouble: str
) -> None:
    publish_all(registry, "a", "b")
    file = registry.serial(2)
    file.write_bytes(
        data if isinstance(data, bytes) else json.dumps(json.loads(file.read_text()) | data).encode()
    )
    with pytest.raises(LockError) as caught:
        newest(registry)
    assert whats(caught) == [f"cannot read serial 2: {trouble}"]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("folder", ["methods", "files", "sites"])
def test_every_digest_is_verified(registry: Registry, folder: str) -> None:
    publish_all(registry, "a")
    part = next((registry.catalog(content("a").digest) / folder).iterdir())
    part.write_bytes(part.read_bytes().replace(b"a", b"x", 1))
    with pytest.raises(LockError, match="does not have its digest"):
        read_word(registry)


@pytest.mark.usefixtures("hurried")
def test_the_index_is_verified(registry: Registry) -> None:
    publish_all(registry, "a")
    index = registry.catalog(content("a").digest) / "index.json"
    index.write_bytes(index.read_bytes().replace(b"toy/m0", b"toy/m9"))
    with pytest.raises(LockError, match=r"`index\.json` does not have its digest"):
        read_word(registry)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shorter of the two bounds, told from the longer by how long it takes."""
    assert reading.BRIEF_SECONDS < 5 < 60 < reading.PATIENCE_SECONDS
    monkeypatch.setattr(reading, "BRIEF_SECONDS", 0.2)


def took(act: Callable[[], Any]) -> float:
    start = time.monotonic()
    with pytest.raises(LockError):
        act()
    return time.monotonic() - start


@pytest.mark.usefixtures("brief")
def test_a_serial_that_was_deleted_long_ago_is_told_soon(registry: Registry) -> None:
    publish_all(registry, "a", "b", "c")
    registry.serial(2).unlink()
    backdate(registry, 3, 3600)
    assert took(lambda: history(registry)) < 2


@pytest.mark.usefixtures("brief")
def test_a_part_that_was_deleted_long_ago_is_told_soon(registry: Registry) -> None:
    publish_all(registry, "a")
    backdate(registry, 1, 3600)
    for part in (registry.catalog(content("a").digest) / "sites").iterdir():
        part.unlink()
    assert took(lambda: read_word(registry)) < 2


@pytest.mark.parametrize("name", ["00000001.json", "index.json"])
def test_a_file_that_may_not_be_read_is_told_at_once(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    publish_all(registry, "a")
    failing(monkeypatch, name, errno.EACCES, 1000)
    assert took(lambda: read_word(registry)) < 0.5


def test_a_symbolic_link_in_place_of_a_file(registry: Registry) -> None:
    publish_all(registry, "a")
    file = registry.serial(1)
    file.rename(registry.root / "elsewhere")
    file.symlink_to(registry.root / "elsewhere")
    with pytest.raises(LockError) as caught:
        newest(registry)
    assert whats(caught) == ["cannot read serial 1: it is a symbolic link"]


def test_a_fifo_in_place_of_a_file_is_not_waited_for(registry: Registry) -> None:
    publish_all(registry, "a")
    registry.current.unlink()
    os.mkfifo(registry.current)
    assert serial(registry) == 1
