"""Claiming a serial, on filesystems that cannot do it one way or lie about how it went."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from builders import whats
from registry.shelves import chain, content, publish_all, read_word, strangers

from tuneplane.errors import LockError
from tuneplane.registry import exclusive, publishing
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import newest
from tuneplane.registry.refresh import refresh

Link = Callable[..., None]
LINK = os.link


def refusing(error: int) -> Link:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(error, os.strerror(error))

    return link


@pytest.mark.parametrize(
    "error", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES]
)
def test_where_no_link_can_be_made_a_serial_is_a_folder(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    monkeypatch.setattr(os, "link", refusing(error))
    publish_all(registry, "a", "b")
    assert registry.serial(2).is_dir() and read_word(registry) == "b" and len(chain(registry)) == 2
    assert strangers(registry) == []
    monkeypatch.setattr(os, "link", LINK)
    publish_all(registry, "c")
    assert not descriptors_of(registry)
    assert registry.serial(3).is_file() and read_word(registry) == "c" and len(chain(registry)) == 3


def descriptors_of(registry: Registry) -> list[str]:
    """What this process has open in a registry."""
    found = []
    for link in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{link}"))
    return [path for path in found if path.startswith(str(registry.root))]


@pytest.mark.parametrize("error", [errno.EIO, errno.EEXIST, errno.EPERM, errno.ETIMEDOUT])
def test_a_link_that_was_made_and_reported_as_failed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """A request that a network filesystem repeats fails the second time although the first was done."""

    def link(*args: Any) -> None:
        LINK(*args)
        refusing(error)()

    monkeypatch.setattr(os, "link", link)
    publish_all(registry, "a", "b")
    assert read_word(registry) == "b" and strangers(registry) == []


def test_a_rename_that_was_made_and_reported_as_failed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def rename(source: Any, target: Any) -> None:
        real(source, target)
        if os.path.basename(target) == "00000001.json":
            refusing(errno.ENOENT)()

    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    monkeypatch.setattr(os, "rename", rename)
    publish_all(registry, "a", "b")
    assert read_word(registry) == "b" and strangers(registry) == []


def overtaken(registry: Registry, rival: str, error: int, hidden: bool = False) -> Link:
    """A rival publishes just before the link; the loser is told so in its own way."""
    done: list[bool] = []

    def link(source: Any, target: Any) -> None:
        if not done:
            done.append(True)
            thread = threading.Thread(target=publish_beside, args=(registry, rival))
            thread.start()
            thread.join()
            refusing(error)()
        LINK(source, target)

    return link


def publish_beside(registry: Registry, word: str) -> None:
    from unittest.mock import patch

    with patch("tuneplane.registry.refresh.courtesy", no_lock):
        assert refresh(registry, content(word)).made


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.registry.refresh.courtesy", no_lock)


def no_lock(_: Registry) -> Any:
    from contextlib import nullcontext

    return nullcontext("")


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize("error", [errno.EEXIST, errno.EPERM, errno.EIO])
def test_the_loser_publishes_on_top_of_the_winner(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    publish_all(registry, "a")
    monkeypatch.setattr(os, "link", overtaken(registry, "rival", error))
    outcome = refresh(registry, content("mine"))
    assert outcome.made and outcome.publication.serial == 3
    assert [p.digest for p in chain(registry)] == [content(w).digest for w in ("a", "rival", "mine")]


@pytest.mark.usefixtures("unlocked")
def test_the_loser_of_the_same_content_has_nothing_to_publish(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_all(registry, "a")
    monkeypatch.setattr(os, "link", overtaken(registry, "b", errno.EPERM))
    outcome = refresh(registry, content("b"))
    assert not outcome.made and outcome.publication.serial == 2 and len(chain(registry)) == 2


@pytest.mark.usefixtures("unlocked")
def test_a_winner_that_is_not_seen_yet(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loser's host has cached that the serial and the one after are not there."""
    publish_all(registry, "a")
    monkeypatch.setattr(os, "link", overtaken(registry, "rival", errno.EPERM))
    exists, opened, late = os.path.lexists, os.open, []

    def lexists(path: Any) -> bool:
        return exists(path) and not str(path).endswith("00000002.json")

    def open_(path: Any, *args: Any, **kwargs: Any) -> int:
        if threading.current_thread() is threading.main_thread() and str(path).endswith("00000002.json"):
            late.append(path)
            if len(late) < 4:
                refusing(errno.ENOENT)()
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os.path, "lexists", lexists)
    monkeypatch.setattr(os, "open", open_)
    assert refresh(registry, content("mine")).publication.serial == 3 and len(chain(registry)) == 3


@pytest.mark.usefixtures("unlocked")
def test_a_loser_whose_listing_lags_goes_on_from_the_winner(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would claim the same serial again and again."""
    registry.serials.mkdir(parents=True)
    monkeypatch.setattr(os, "link", overtaken(registry, "rival", errno.EEXIST))
    monkeypatch.setattr("tuneplane.registry.reading._listed", lambda _: None)
    monkeypatch.setattr("tuneplane.registry.reading.hint", lambda _: None)
    assert refresh(registry, content("mine")).publication.serial == 2


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["link", "write"])
def test_a_filesystem_that_refuses_is_told_at_once(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int, call: str
) -> None:
    publish_all(registry, "a")
    if call == "link":
        monkeypatch.setattr(os, "link", refusing(error))
        monkeypatch.setattr(exclusive, "_renamed", lambda *args: args[-1])
    else:
        monkeypatch.setattr(exclusive, "_write_new", refusing(error))
    with pytest.raises(LockError) as caught:
        refresh(registry, content("b"))
    assert whats(caught) == [f"cannot write to the registry `{registry.root}`: {os.strerror(error)}"]
    assert read_word(registry) == "a"


@pytest.mark.usefixtures("hurried")
def test_a_filesystem_that_can_do_neither(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_all(registry, "a")
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    real = os.rename

    def rename(source: Any, target: Any) -> None:
        if os.path.basename(target) == "00000002.json":
            refusing(errno.EINVAL)()
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(LockError, match="Operation not permitted"):
        refresh(registry, content("b"))
    assert read_word(registry) == "a" and strangers(registry) == []


@pytest.mark.usefixtures("hurried")
def test_something_else_lies_on_the_next_serial(registry: Registry) -> None:
    publish_all(registry, "a")
    registry.serial(2).write_text("no publication")
    with pytest.raises(LockError) as caught:
        refresh(registry, content("b"))
    assert whats(caught) == ["cannot read serial 2: it is not whole"]


def test_current_is_mended(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_all(registry, "a")
    monkeypatch.setattr(publishing, "_point", lambda *_: None)
    publish_all(registry, "b")
    monkeypatch.undo()
    assert registry.current.read_text() == "1\n"
    assert not refresh(registry, content("b")).made and registry.current.read_text() == "2\n"


def test_serials_do_not_run_out_quietly(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_all(registry, "a")
    monkeypatch.setattr(publishing, "LAST", 1)
    with pytest.raises(LockError, match="has used up its serials"):
        refresh(registry, content("b"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("gid", [None, os.getgid()])
@pytest.mark.parametrize("links", [True, False])
def test_modes_do_not_depend_on_the_umask(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, umask: int, gid: int | None, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    deep = Registry(registry.root / "deeper" / "registry", None, gid)
    before = os.umask(umask)
    try:
        publish_all(deep, "a", "b")
    finally:
        os.umask(before)
    places = [deep.root.parent, deep.root, *deep.root.rglob("*")]
    for place in places:
        mode = stat.S_IMODE(place.lstat().st_mode)
        if place.name == "LOCK":
            wanted = 0o644 if gid is None else 0o664
        elif place.is_dir():
            wanted = 0o755 if gid is None or place == deep.root.parent else 0o2775
        else:
            wanted = 0o644
        assert mode == wanted, f"{place} has {mode:o}"
    found = newest(deep)
    assert found is not None and found.serial == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is in every group")
def test_the_sites_group_has_every_folder(registry: Registry) -> None:
    """So that another publisher of the group can publish next; files are replaced, never written to."""
    shared = Registry(registry.root, None, 54321)
    publish_all(shared, "a")
    for place in (shared.root, *shared.root.rglob("*")):
        if place.is_dir():
            assert (place.stat().st_gid, stat.S_IMODE(place.stat().st_mode)) == (54321, 0o2775), place
    assert refresh(shared, content("b")).made


def test_a_folder_that_another_publisher_replaces_while_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renaming onto an empty folder replaces it: who was about to write into the old one begins again."""
    registry, real, replaced = Registry(tmp_path / "registry"), tempfile.mkdtemp, []

    def mkdtemp(prefix: str, dir: Path) -> str:
        if dir == registry.root and len(replaced) < 3:
            replaced.append(dir)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(dir))
        return real(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    assert refresh(registry, content("first", 1)).made
    assert len(replaced) == 3 and registry.serials.is_dir() and registry.catalogs.is_dir()
