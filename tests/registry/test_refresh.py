"""Refresh, rollback, removal: what is published, what is held back, what goes and what stays."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import whats
from registry.shelves import (
    DAY,
    OWN,
    age_leftovers,
    backdate,
    chain,
    content,
    publish_all,
    read_word,
    strangers,
    word_of,
)

from tuneplane.errors import Busy, LockError
from tuneplane.files import read_json
from tuneplane.registry import courtesy as room
from tuneplane.registry.courtesy import courtesy, holder
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import history, newest
from tuneplane.registry.refresh import refresh, rollback
from tuneplane.registry.removal import collect
from tuneplane.registry.sweep import sweep

KEEP = 60 * DAY


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_only_what_is_new_is_published(registry: Registry) -> None:
    first = refresh(registry, content("a"))
    assert (first.made, first.publication.serial, first.publication.action) == (True, 1, "refresh")
    checked = read_json(registry.checked)
    before = {key: value for key, value in tree(registry.root).items() if key != str(registry.checked)}
    registry.checked.write_text("{}")
    again = refresh(registry, content("a"))
    assert (again.made, again.publication) == (False, first.publication)
    assert {
        key: value for key, value in tree(registry.root).items() if key != str(registry.checked)
    } == before
    renewed = read_json(registry.checked)
    assert renewed.keys() == {"at", "by", "host", "serial"} and renewed["serial"] == 1
    assert 0 <= renewed["at"] - checked["at"] < 60
    assert (
        refresh(registry, content("b")).publication.serial == 2
        and refresh(registry, content("a")).publication.serial == 3
    )
    assert [word_of(registry, p) for p in chain(registry)] == ["a", "b", "a"]
    assert strangers(registry) == []


def test_a_refresh_mends_what_was_lost_of_the_catalog_in_force(registry: Registry) -> None:
    publish_all(registry, "a")
    folder = registry.catalog(content("a").digest)
    shutil.rmtree(folder / "files")
    next((folder / "methods").iterdir()).write_text("damaged")
    next((folder / "sites").iterdir()).unlink()
    assert not refresh(registry, content("a")).made
    assert read_word(registry) == "a"
    shutil.rmtree(folder)
    assert not refresh(registry, content("a")).made
    assert read_word(registry) == "a" and strangers(registry) == []


def test_a_folder_left_half_made_is_completed(registry: Registry) -> None:
    publish_all(registry, "a")
    folder = registry.catalog(content("b").digest)
    (folder / "methods").mkdir(parents=True)
    assert refresh(registry, content("b")).made and read_word(registry) == "b"


def test_who_publishes(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the password database, whatever the environment says."""
    import pwd

    monkeypatch.setenv("LOGNAME", "mallory")
    monkeypatch.setenv("USER", "mallory")
    name = pwd.getpwuid(os.getuid()).pw_name
    assert refresh(registry, content("a")).publication.by == f"{name}@{os.uname().nodename}"
    monkeypatch.setattr(pwd, "getpwuid", lambda _: {}["nobody"])
    assert refresh(registry, content("b")).publication.by == f"uid {os.geteuid()}@{os.uname().nodename}"


def test_a_publisher_that_readers_would_not_believe(registry: Registry) -> None:
    stranger = Registry(registry.root, frozenset({os.geteuid() + 1}))
    with pytest.raises(LockError, match="is no publisher of the site"):
        refresh(stranger, content("a"))
    assert not registry.root.exists()
    publish_all(registry, "a", "b")
    for act in (lambda: rollback(stranger, None), lambda: collect(stranger, KEEP)):
        with pytest.raises(LockError, match="is no publisher of the site"):
            act()
    assert len(chain(registry)) == 2


def test_nothing_is_published_to_a_folder_that_others_may_write(registry: Registry) -> None:
    trusted = Registry(registry.root, OWN)
    registry.root.mkdir()
    registry.root.chmod(0o777)
    with pytest.raises(LockError, match="is writable by everybody"):
        refresh(trusted, content("a"))
    assert newest(registry) is None


# -- rollback -----------------------------------------------------------------------------------------------


def test_a_rollback_holds_its_source_back(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    back = rollback(registry, None)
    assert (back.made, back.publication.action, back.publication.details["to"]) == (True, "rollback", 1)
    assert read_word(registry) == "a"
    registry.checked.unlink()
    held = refresh(registry, content("b"))
    assert not held.made and held.publication.serial == 3 and registry.checked.exists()
    assert held.notes == (
        f"{back.publication.by} rolled this source back: nothing is published until it changes or --force is given",
    )
    assert refresh(registry, content("b"), force=True).publication.serial == 4 and read_word(registry) == "b"
    assert rollback(registry, None).publication.serial == 5
    assert refresh(registry, content("c")).made and read_word(registry) == "c"
    # it changed in between: the hold is over
    assert refresh(registry, content("b")).made and read_word(registry) == "b"
    chain(registry)


def test_rolling_back_twice_goes_back_by_two(registry: Registry) -> None:
    publish_all(registry, "a", "b", "c", "d")
    assert rollback(registry, None).publication.details["to"] == 3
    assert rollback(registry, None).publication.details["to"] == 2
    assert read_word(registry) == "b"
    # the source is still what was published last
    assert not refresh(registry, content("d")).made and refresh(registry, content("c")).made


def test_rollback_to_a_serial(registry: Registry) -> None:
    publish_all(registry, "a", "b", "c")
    assert rollback(registry, 1).publication.details["to"] == 1 and read_word(registry) == "a"
    assert rollback(registry, 3).made and read_word(registry) == "c"
    for serial, what in (
        (6, "there is no serial 6"),
        (5, "serial 5 has the very catalog that is in force"),
        (3, "serial 3 has the very catalog that is in force"),
    ):
        with pytest.raises(LockError) as caught:
            rollback(registry, serial)
        assert whats(caught) == [what]


def test_rollback_of_nothing(registry: Registry) -> None:
    with pytest.raises(LockError, match="does not exist"):
        rollback(registry, None)
    registry.root.mkdir()
    with pytest.raises(LockError, match="nothing is published that could be rolled back"):
        rollback(registry, None)
    publish_all(registry, "a")
    with pytest.raises(LockError, match="no earlier serial has another catalog"):
        rollback(registry, None)


@pytest.mark.usefixtures("hurried")
def test_no_rollback_to_what_is_damaged(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    next((registry.catalog(content("a").digest) / "sites").iterdir()).unlink()
    with pytest.raises(LockError, match="of serial 1: No such file"):
        rollback(registry, None)
    assert len(chain(registry)) == 2 and read_word(registry) == "b"


# -- removal ------------------------------------------------------------------------------------------------


def old(registry: Registry, *words: str, days: int = 61) -> None:
    """Publish the words, all of them so long ago."""
    publish_all(registry, *words)
    for made in history(registry):
        backdate(registry, made.serial, days * DAY)


def files(registry: Registry, word: str) -> bool:
    return (registry.catalog(content(word).digest) / "files").exists()


def test_removal_in_two_steps(registry: Registry) -> None:
    old(registry, "a", "b", "c")
    named, removed = collect(registry, KEEP)
    gone = sorted(content(word).digest for word in "ab")
    assert (named.made, named.publication.action, named.publication.details["remove"], removed) == (
        True,
        "gc",
        gone,
        [],
    )
    assert files(registry, "a") and files(registry, "b") and read_word(registry) == "c"
    again, removed = collect(registry, KEEP)
    assert (again.made, removed) == (False, gone)
    assert not files(registry, "a") and not files(registry, "b") and read_word(registry) == "c"
    third, removed = collect(registry, KEEP)
    assert (third.made, removed) == (False, []) and len(chain(registry)) == 4
    for word in "ab":
        folder = registry.catalog(content(word).digest)
        assert {
            path: (folder / path).read_bytes() for path in content(word).parts if "files" not in path
        } == {path: data for path, data in content(word).parts.items() if "files" not in path}
        assert (folder / "index.json").read_bytes() == content(word).index
    # what counts for a refresh is the content in force, which a removal leaves
    assert not refresh(registry, content("c")).made


def test_what_was_in_force_of_late_stays(registry: Registry) -> None:
    """However long ago it was published: an experiment may have been queued with it yesterday."""
    old(registry, "a", "b")
    publish_all(registry, "c")
    named, _ = collect(registry, KEEP)
    assert named.publication.details["remove"] == [content("a").digest]


def test_nothing_old_is_there(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    outcome, removed = collect(registry, KEEP)
    assert (outcome.made, removed, len(chain(registry))) == (False, [], 2)


def test_removal_where_nothing_is_published(registry: Registry) -> None:
    registry.root.mkdir()
    with pytest.raises(LockError, match="nothing is published"):
        collect(registry, KEEP)


def test_what_is_named_is_published_again_under_another_digest(registry: Registry) -> None:
    """So whatever a removal is about to do at the same time, it does not touch what is in force."""
    old(registry, "a", "b")
    collect(registry, KEEP)
    back = refresh(registry, content("a")).publication
    assert (back.digest != content("a").digest, back.source) == (True, content("a").digest)
    assert collect(registry, KEEP)[1] == [content("a").digest]
    assert read_word(registry) == "a" and not refresh(registry, content("a")).made
    # what is lost of it is mended under that digest
    shutil.rmtree(registry.catalog(back.digest) / "files")
    assert not refresh(registry, content("a")).made and read_word(registry) == "a"
    rollback(registry, 2)
    assert not refresh(registry, content("a")).made and read_word(registry) == "b"
    assert rollback(registry, back.serial).made and read_word(registry) == "a"


def test_a_rollback_to_what_is_named_and_to_what_is_gone(registry: Registry) -> None:
    old(registry, "a", "b", "c")
    collect(registry, KEEP)
    back = rollback(registry, 1).publication
    assert back.source == content("a").digest != back.digest and read_word(registry) == "a"
    assert collect(registry, KEEP)[1] == sorted(content(word).digest for word in "ab")
    assert read_word(registry) == "a"
    with pytest.raises(LockError) as caught:
        rollback(registry, 2)
    assert whats(caught) == ["the starter files of serial 2 have been removed"]
    assert not refresh(registry, content("c")).made


def test_a_removal_beside_a_publication(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal has read everything when the other publishes what it is about to name, and the other way round."""
    from contextlib import nullcontext

    for name in ("refresh", "removal"):
        monkeypatch.setattr(f"tuneplane.registry.{name}.courtesy", lambda _: nullcontext(""))
    old(registry, "a", "b")
    real, done = os.link, []

    def link(source: Any, target: Any) -> None:
        if not done:
            done.append(True)
            done.append(refresh(registry, content("a")).publication.digest)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    outcome, _ = collect(registry, KEEP)
    # it lost its serial, read anew, and found nothing more to name
    assert not outcome.made and done[1] == content("a").digest and read_word(registry) == "a"
    refresh(registry, content("b"))
    for made in history(registry):
        backdate(registry, made.serial, 61 * DAY)
    done.clear()

    def removal(source: Any, target: Any) -> None:
        if not done:
            done.append(True)
            collect(registry, KEEP)
            collect(registry, KEEP)
        real(source, target)

    monkeypatch.setattr(os, "link", removal)
    assert refresh(registry, content("a")).publication.source == content("a").digest
    assert not files(registry, "a") and read_word(registry) == "a" and len(chain(registry)) == 6


def test_a_hold_outlives_a_removal(registry: Registry) -> None:
    old(registry, "a", "b", "c", days=61)
    rollback(registry, 2)
    assert collect(registry, KEEP)[0].publication.details["held"] == content("c").digest
    assert not refresh(registry, content("c")).made and refresh(registry, content("c"), force=True).made


def test_catalogs_that_no_serial_has(registry: Registry) -> None:
    publish_all(registry, "a")
    from tuneplane.registry.content import store

    store(registry, content("orphan"))
    store(registry, content("young"))
    folder = registry.catalog(content("orphan").digest)
    os.utime(folder, (0, 0))
    assert collect(registry, KEEP)[0].publication.details["remove"] == [folder.name]
    assert collect(registry, KEEP)[1] == [folder.name] and not files(registry, "orphan")
    assert files(registry, "young")
    assert refresh(registry, content("orphan")).made and read_word(registry) == "orphan"


def test_a_removal_believes_no_path(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    victim = registry.root / "victim" / "files"
    victim.mkdir(parents=True)
    record = json.loads(registry.serial(2).read_text()) | {
        "action": "gc",
        "details": {"remove": ["../victim", "/"]},
    }
    registry.serial(2).write_text(json.dumps(record))
    assert collect(registry, KEEP)[1] == [] and victim.exists()


# -- leftovers ----------------------------------------------------------------------------------------------


def test_leftovers_go_after_a_day(registry: Registry) -> None:
    publish_all(registry, "a")
    d = content("a").digest
    ours = [
        ".CURRENT.x1",
        ".CHECKED.x1",
        ".LOCK.holder.x1",
        ".serials.x1",
        "serials/.00000002.json.aa",
        f"catalogs/.{d[:12]}.1.h.2",
        "catalogs/.clock.1.2",
    ]
    deep = [f"catalogs/{d}/methods/.{d}.x1", f"catalogs/{d}/.index.json.x1", f"catalogs/{d}/.files.x1"]
    others = [".snapshot", "serials/.nfs0000", "catalogs/.git", "notes"]
    for name in (*ours, *deep, *others):
        (registry.root / name).mkdir() if name.endswith((".2", "serials.x1")) else (
            registry.root / name
        ).touch()
    (registry.root / ours[5] / "methods").mkdir()
    refresh(registry, content("a"))
    assert strangers(registry) == sorted([*ours, *deep, *others, f"{ours[5]}/methods"])
    age_leftovers(registry.root)
    refresh(registry, content("a"))
    assert strangers(registry) == sorted([*deep, *others])
    collect(registry, KEEP)
    assert strangers(registry) == sorted(others)


def test_a_leftover_that_cannot_be_removed_is_no_matter(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_all(registry, "a")
    for name in (".CURRENT.x1", ".CURRENT.x2"):
        (registry.root / name).touch()
    age_leftovers(registry.root)
    real = os.unlink

    def unlink(path: Any, **kwargs: Any) -> None:
        if str(path).endswith("x1"):
            raise PermissionError(1, "no")
        real(path, **kwargs)

    monkeypatch.setattr(os, "unlink", unlink)
    sweep(registry)
    assert strangers(registry) == [".CURRENT.x1"]


# -- the lock -----------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "WAIT_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_another_publisher_is_named(registry: Registry) -> None:
    publish_all(registry, "a")
    with courtesy(registry) as note:
        assert note == ""
        who = holder(registry)
        assert who is not None and (who.pid, who.host) == (os.getpid(), os.uname().nodename)
        with pytest.raises(Busy) as caught:
            refresh(registry, content("b"))
        assert whats(caught) == [f"another publisher is at work: {who}"] and caught.value.exit_code == 75
        assert str(who).startswith(f"{who.user} on {who.host}, process {os.getpid()}, since 20")
    assert holder(registry) is None and refresh(registry, content("b")).made


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("record", ["old", "none", "damaged"])
def test_a_holder_that_is_too_old_or_unknown_holds_nobody_up(registry: Registry, record: str) -> None:
    publish_all(registry, "a")
    with courtesy(registry):
        file = registry.root / "LOCK.holder"
        who = json.loads(file.read_text())
        file.unlink()
        if record != "none":
            file.write_text(json.dumps(who | {"since": who["since"] - 3600}) if record == "old" else "{")
        outcome = refresh(registry, content("b"))
    assert outcome.made and read_word(registry) == "b"
    [note] = outcome.notes
    assert note.startswith("the lock is held by ") and note.endswith(": going on without it")
    assert (who["user"] in note) == (record == "old")


@pytest.mark.parametrize(
    "error",
    [
        OSError(38, "Function not implemented"),
        OSError(37, "No locks available"),
        NotImplementedError("no flock"),
    ],
)
def test_a_filesystem_without_locks(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """No soft lock either: it would hold everybody up once its owner was killed on another host."""
    import fcntl

    def flock(*_: Any) -> None:
        raise error

    monkeypatch.setattr(fcntl, "flock", flock)
    outcome = refresh(registry, content("a"))
    assert outcome.made and read_word(registry) == "a" and strangers(registry) == []
    assert outcome.notes == (f"the registry cannot be locked ({error.args[-1]}): going on without",)
