"""The records of a runtime id's images: each change is a new one, each can be taken back, none is believed of anybody."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import problems_of, whats
from registry.images import ID, artifact, rows, words
from registry.shelves import DAY, OWN, age_leftovers, publish_all, strangers

from tuneplane.errors import ImageError, LockError
from tuneplane.registry import reading
from tuneplane.registry.artifact import from_json
from tuneplane.registry.layout import Registry
from tuneplane.registry.refresh import refresh
from tuneplane.registry.removal import collect
from tuneplane.registry.shelf import (
    history,
    may_put,
    newest,
    put,
    record,
    retire,
    runtime_ids,
    undo,
)

SIF, ARM, SQSH = "sif-x86_64", "sif-aarch64", "sqsh-x86_64"


def in_force(registry: Registry) -> dict[str, str]:
    return words(newest(registry, ID))


def place(registry: Registry, number: int) -> Path:
    return registry.artifacts / ID / f"{number:08d}.json"


def test_nothing_is_registered(registry: Registry) -> None:
    assert newest(registry, ID) is None and history(registry, ID) == [] and runtime_ids(registry) == []
    assert record(registry, ID, 1) is None
    registry.artifacts.mkdir(parents=True)
    assert newest(registry, ID) is None and runtime_ids(registry) == []
    (registry.artifacts / ID).mkdir()
    assert newest(registry, ID) is None


def test_an_image_is_read_back_as_it_was(registry: Registry) -> None:
    for made in (
        artifact(),
        artifact(packages=None, python="3.12.4", built={"from": "x\ny"}, labels={"word": "a"}),
    ):
        shelf = put(registry, made, replace=True)
        found = newest(registry, ID)
        assert found == shelf and found.current == {SIF: made}
    assert from_json(json.loads(place(registry, 1).read_text())["current"][SIF]) == artifact()


def test_keys_of_a_newer_tp_are_left_out(registry: Registry) -> None:
    put(registry, artifact())
    data = json.loads(place(registry, 1).read_text())
    data["more"] = data["current"][SIF]["more"] = {"x": 1}
    place(registry, 1).write_text(json.dumps(data))
    assert in_force(registry) == {SIF: "a"}


def test_a_second_image_of_one_slot_is_refused_unless_it_replaces(registry: Registry) -> None:
    put(registry, artifact("a"))
    for attempt in (
        lambda: put(registry, artifact("b")),
        lambda: put(registry, artifact("a")),
        lambda: may_put(registry, ID, SIF),
    ):
        with pytest.raises(ImageError) as caught:
            attempt()
        (problem,) = problems_of(caught)
        assert problem.what == f"{ID} has a {SIF} image already: `/images/a.sif`"
        assert problem.hint == "the same with --replace; `tp runtime undo` takes it back"
    assert len(rows(registry)) == 1
    may_put(registry, ID, SIF, replace=True)
    may_put(registry, ID, ARM)
    made = put(registry, artifact("b"), replace=True)
    assert (made.action, made.slot, made.serial, made.before) == ("replace", SIF, 2, 1)
    assert in_force(registry) == {SIF: "b"}
    # to replace what is not there is to register it
    assert put(registry, artifact("c", format="sqsh"), replace=True).action == "register"


def test_formats_and_architectures_stand_side_by_side(registry: Registry) -> None:
    for made in (artifact("a"), artifact("b", arch="aarch64"), artifact("c", format="sqsh")):
        assert put(registry, made).action == "register"
    assert in_force(registry) == {SIF: "a", ARM: "b", SQSH: "c"}
    put(registry, artifact("d", arch="aarch64"), replace=True)
    assert in_force(registry) == {SIF: "a", ARM: "d", SQSH: "c"}
    assert [words(shelf) for shelf in rows(registry)][:2] == [{SIF: "a"}, {SIF: "a", ARM: "b"}]


def test_other_runtime_ids_have_their_own(registry: Registry) -> None:
    for name in ("b-1", "B-1", "a", "a.b+c_d-1"):
        put(registry, artifact(name[0], runtime_id=name))
    assert runtime_ids(registry) == ["B-1", "a", "a.b+c_d-1", "b-1"]
    assert [words(newest(registry, name)) for name in ("b-1", "B-1")] == [{SIF: "b"}, {SIF: "B"}]


def test_undo_again_and_again(registry: Registry) -> None:
    """Each takes back one change more, and says which slot that was; then nothing is left."""
    put(registry, artifact("a"))
    put(registry, artifact("b", format="sqsh"))
    put(registry, artifact("c"), replace=True)
    for slot, left in ((SIF, {SIF: "a", SQSH: "b"}), (SQSH, {SIF: "a"}), (SIF, {})):
        made = undo(registry, ID)
        assert (made.action, made.slot, words(made)) == ("undo", slot, left)
        assert in_force(registry) == left
    for _ in range(2):
        with pytest.raises(ImageError) as caught:
            undo(registry, ID)
        assert whats(caught) == [f"{ID} has no change that could be undone"]
    assert len(rows(registry)) == 6
    # what comes then can be undone as well, down to nothing and no further
    put(registry, artifact("d"))
    put(registry, artifact("e"), replace=True)
    assert [words(undo(registry, ID)) for _ in range(2)] == [{SIF: "d"}, {}]
    with pytest.raises(ImageError):
        undo(registry, ID)


def test_undo_of_an_undo_is_to_register_again(registry: Registry) -> None:
    put(registry, artifact("a"))
    put(registry, artifact("b"), replace=True)
    undo(registry, ID)
    put(registry, artifact("b"), replace=True)
    assert [words(undo(registry, ID)) for _ in range(2)] == [{SIF: "a"}, {}]


def test_retire_and_its_undo(registry: Registry) -> None:
    put(registry, artifact("a"))
    put(registry, artifact("b", format="sqsh"))
    made = retire(registry, ID, SIF)
    assert (made.action, made.slot) == ("retire", SIF) and in_force(registry) == {SQSH: "b"}
    with pytest.raises(ImageError) as caught:
        retire(registry, ID, SIF)
    assert whats(caught) == [f"{ID} has no {SIF} image"]
    retire(registry, ID, SQSH)
    assert in_force(registry) == {} and runtime_ids(registry) == [ID]
    assert [(m.slot, words(m)) for m in (undo(registry, ID), undo(registry, ID))] == [
        (SQSH, {SQSH: "b"}),
        (SIF, {SIF: "a", SQSH: "b"}),
    ]
    # a slot that was retired is free
    retire(registry, ID, SIF)
    assert put(registry, artifact("c")).action == "register"


def test_history_and_single_records(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.registry.person.me", lambda: "admin")
    monkeypatch.setattr("tuneplane.registry.person.host", lambda: "login")
    put(registry, artifact("a"))
    retire(registry, ID, SIF)
    undo(registry, ID)
    found = history(registry, ID)
    assert [(s.serial, s.action, s.by) for s in found] == [
        (3, "undo", "admin@login"),
        (2, "retire", "admin@login"),
        (1, "register", "admin@login"),
    ]
    assert all(abs(s.at - time.time()) < 60 for s in found)
    assert [record(registry, ID, number) for number in (1, 2, 3)] == found[::-1]
    assert record(registry, ID, 4) is None and record(registry, ID, 0) is None
    assert record(registry, ID, -1) is None and record(registry, ID, 10**9) is None


@pytest.mark.parametrize("name", ["", ".", "..", "../serials", "a/b", "-a", ".a", "a\n", "é", "a" * 101])
def test_what_is_no_runtime_id_has_no_records(registry: Registry, name: str) -> None:
    """Nor does it lead to another folder."""
    put(registry, artifact())
    before = sorted(registry.root.rglob("*"))
    assert newest(registry, name) is None and record(registry, name, 1) is None
    for refused in (lambda: undo(registry, name), lambda: retire(registry, name, SIF)):
        with pytest.raises(ImageError):
            refused()
    assert sorted(registry.root.rglob("*")) == before


def test_who_is_refused_leaves_nothing_behind(registry: Registry) -> None:
    with pytest.raises(ImageError):
        undo(registry, ID)
    assert not registry.root.exists()
    put(registry, artifact(runtime_id="other"))
    for refused in (lambda: undo(registry, ID), lambda: retire(registry, ID, SIF)):
        with pytest.raises(ImageError):
            refused()
    assert runtime_ids(registry) == ["other"]


def test_the_catalog_and_the_images_do_not_meet(registry: Registry) -> None:
    put(registry, artifact("a"))
    publish_all(registry, "a", "b")
    put(registry, artifact("b"), replace=True)
    assert in_force(registry) == {SIF: "b"} and len(reading.history(registry)) == 2
    collect(registry, 60 * DAY)
    assert in_force(registry) == {SIF: "b"} and len(rows(registry)) == 2


# --- filesystems ---


def refusing(error: int) -> Callable[..., None]:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(error, os.strerror(error))

    return link


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES])
def test_where_no_link_can_be_made_a_record_is_a_folder(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refusing(error))
        put(registry, artifact("a"))
        put(registry, artifact("b"), replace=True)
        undo(registry, ID)
    assert place(registry, 3).is_dir() and in_force(registry) == {SIF: "a"} and len(rows(registry)) == 3
    put(registry, artifact("c"), replace=True)
    assert place(registry, 4).is_file() and in_force(registry) == {SIF: "c"} and strangers(registry) == []


@pytest.mark.parametrize("error", [errno.EIO, errno.EEXIST, errno.EPERM, errno.ETIMEDOUT])
def test_a_link_that_was_made_and_reported_as_failed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    real = os.link

    def link(*args: Any) -> None:
        real(*args)
        refusing(error)()

    monkeypatch.setattr(os, "link", link)
    assert put(registry, artifact("a")).serial == 1 and put(registry, artifact("b"), replace=True).serial == 2
    assert in_force(registry) == {SIF: "b"} and strangers(registry) == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_where_nothing_can_be_written(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    put(registry, artifact("a"))

    def refuse(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(error, os.strerror(error), os.fspath(path))
        return real(path, flags, *args, **more)

    real = os.open
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(LockError) as caught:
            undo(registry, ID)
    assert whats(caught) == [f"cannot write to the registry `{registry.root}`: {os.strerror(error)}"]
    assert in_force(registry) == {SIF: "a"} and strangers(registry) == []


@pytest.mark.parametrize("times", [1, 19, 20])
def test_a_folder_that_another_admin_puts_in_place_of_the_empty_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Between its making and the first file in it: the file is not made, and all of it begins again."""
    put(registry, artifact(runtime_id="other"))
    real, lost = os.open, []

    def open_(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_CREAT and ID in os.fspath(path) and len(lost) < times:
            lost.append(path)
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", open_)
    if times < 20:
        assert put(registry, artifact()).serial == 1 and in_force(registry) == {SIF: "a"}
    else:
        with pytest.raises(LockError, match=r"cannot write to the registry .*: No such file or directory"):
            put(registry, artifact())
    assert len(lost) == times and strangers(registry) == []


@pytest.mark.parametrize("gid", [None, os.getgid()])
def test_any_umask_gives_the_same_modes(registry: Registry, gid: int | None) -> None:
    registry = replace(registry, gid=gid)
    before = os.umask(0o077)
    try:
        put(registry, artifact("a"))
    finally:
        os.umask(before)
    folder = 0o755 if gid is None else 0o2775
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (registry.artifacts, place(registry, 1).parent, place(registry, 1))]  # fmt: skip
    assert modes == [folder, folder, 0o644]


def test_the_last_record(registry: Registry) -> None:
    put(registry, artifact("a"))
    data = json.loads(place(registry, 1).read_text())
    place(registry, 99_999_999).write_text(json.dumps({**data, "serial": 99_999_999}))
    with pytest.raises(LockError) as caught:
        undo(registry, ID)
    assert whats(caught) == [f"{ID} has used up its records"]


# --- what is damaged ---


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers who look twice."""
    monkeypatch.setattr(reading, "PATIENCE_SECONDS", 0.03)


HALVES = ["", "{", "[]", "null", '"x"', "[" * 100_000, '{"serial": 2}', '{"current": []}']


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("text", HALVES)
def test_a_record_that_is_not_whole_is_no_record(registry: Registry, text: str) -> None:
    """What is in force cannot be known then, and nothing is put in its place."""
    put(registry, artifact("a"))
    put(registry, artifact("b"), replace=True)
    place(registry, 2).write_text(text)
    for act in (lambda: newest(registry, ID), lambda: history(registry, ID), lambda: undo(registry, ID), lambda: put(registry, artifact("c"), replace=True)):  # fmt: skip
        with pytest.raises(LockError) as caught:
            act()
        assert whats(caught) == [f"cannot read record 2 of {ID}: it is not whole"]
    assert sorted(p.name for p in place(registry, 1).parent.iterdir()) == ["00000001.json", "00000002.json"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"serial": 3}, f"it says that it is record 3 of `{ID}`"),
        ({"runtime_id": "other"}, "it says that it is record 2 of `other`"),
        ({"current": {SIF: {"path": "/x"}}}, "it is not whole"),
        ({"current": {SIF: []}}, "it is not whole"),
        ({"at": "yesterday"}, "it is not whole"),
    ],
)
def test_a_record_that_says_something_else(registry: Registry, change: dict[str, Any], said: str) -> None:
    put(registry, artifact("a"))
    put(registry, artifact("b"), replace=True)
    data = json.loads(place(registry, 2).read_text())
    place(registry, 2).write_text(json.dumps(data | change))
    with pytest.raises(LockError) as caught:
        newest(registry, ID)
    assert whats(caught) == [f"cannot read record 2 of {ID}: {said}"]


def test_a_record_that_comes_late_is_waited_for(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed, and not there yet; then half of it; then stale: as network filesystems have it."""
    put(registry, artifact("a"))
    whole = place(registry, 1).read_bytes()
    turns: list[bytes | int] = [errno.ENOENT, whole[:20], errno.ESTALE]
    real = reading.read_bytes

    def late(path: Path) -> tuple[bytes, os.stat_result]:
        if path.name == "00000001.json" and turns:
            turn = turns.pop(0)
            if isinstance(turn, int):
                raise OSError(turn, os.strerror(turn))
            return turn, path.stat()
        return real(path)

    monkeypatch.setattr(reading, "read_bytes", late)
    assert in_force(registry) == {SIF: "a"} and turns == []


def test_a_record_after_the_listing_is_found(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in "abc":
        put(registry, artifact(word), replace=True)
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda p: [n for n in real(p) if n not in ("00000002.json", "00000003.json")])  # fmt: skip
    assert in_force(registry) == {SIF: "c"}


# --- whom it is believed of ---

STRANGER = 54321
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def believing(registry: Registry) -> Registry:
    """One that is believed of its publishers alone, with a record in either form."""
    found = replace(registry, uids=OWN)
    put(found, artifact("a"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", refusing(errno.EPERM))
        put(found, artifact("b"), replace=True)
    return found


def parts(registry: Registry) -> list[Path]:
    folder = registry.artifacts / ID
    return [folder, folder / "00000001.json", folder / "00000002.json", folder / "00000002.json/serial.json"]


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(LockError) as caught:
        act()
    (problem,) = problems_of(caught)
    assert caught.value.exit_code == 4
    assert problem.expected.startswith("owned by root") and "writable by nobody else" in problem.expected
    return problem.what


@pytest.mark.parametrize("which", range(4))
def test_what_others_may_write_is_not_believed(believing: Registry, which: int) -> None:
    path = parts(believing)[which]
    mode = stat.S_IMODE(path.stat().st_mode)
    named = path.parent if path.name == "serial.json" else path
    for more, who in ((0o002, "everybody"), (0o020, f"gid {path.stat().st_gid}")):
        path.chmod(mode | more)
        said = f"`{named}` is writable by {who}"
        assert refusal(lambda: history(believing, ID)) == said
        assert refusal(lambda: undo(believing, ID)) == said
    assert len(rows(replace(believing, gid=path.stat().st_gid))) == 2
    path.chmod(mode)
    assert len(rows(believing)) == 2


@root_only
@pytest.mark.parametrize("which", range(4))
def test_what_others_own_is_not_believed(believing: Registry, which: int) -> None:
    path = parts(believing)[which]
    os.chown(path, STRANGER, -1)
    named = path.parent if path.name == "serial.json" else path
    assert refusal(lambda: history(believing, ID)) == f"`{named}` belongs to uid {STRANGER}"
    assert len(rows(replace(believing, uids=OWN | {STRANGER}))) == 2
    assert len(rows(replace(believing, uids=None))) == 2


@pytest.mark.parametrize("which", [1, 2])
def test_a_link_in_place_of_a_record(believing: Registry, which: int) -> None:
    path = parts(believing)[which]
    path.rename(believing.root / "elsewhere")
    path.symlink_to(believing.root / "elsewhere")
    with pytest.raises(LockError) as caught:
        history(believing, ID)
    assert whats(caught) == [f"cannot read record {which} of {ID}: it is a symbolic link"]


def test_a_link_in_place_of_the_folder(believing: Registry) -> None:
    folder = parts(believing)[0]
    folder.rename(believing.root / "elsewhere")
    folder.symlink_to(believing.root / "elsewhere")
    with pytest.raises(LockError) as caught:
        newest(believing, ID)
    assert whats(caught) == [f"`{folder}` is a symbolic link"]


@pytest.mark.parametrize("name", ["", "artifacts"])
def test_nobody_registers_where_others_could_change_it(believing: Registry, name: str) -> None:
    path = believing.root / name
    path.chmod(0o757)
    for act in (lambda: may_put(believing, "new", SIF), lambda: put(believing, artifact(runtime_id="new"))):
        with pytest.raises(LockError) as caught:
            act()
        assert whats(caught) == [f"`{path}` is writable by everybody"]
    assert runtime_ids(believing) == [ID]


def test_who_is_no_publisher_is_told_so_first(believing: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    for act in (
        lambda: may_put(believing, ID, ARM),
        lambda: put(believing, artifact(arch="aarch64")),
        lambda: undo(believing, ID),
        lambda: retire(believing, ID, SIF),
    ):
        with pytest.raises(LockError) as caught:
            act()
        assert whats(caught) == [f"uid {STRANGER} (uid {STRANGER}) is no publisher of the site"]
    assert len(rows(believing)) == 2


# --- what the killed leave ---


def left_behind(registry: Registry) -> list[Path]:
    folder = registry.artifacts / ID
    places = [
        registry.artifacts / f".{ID}.abc_1234",
        registry.root / ".artifacts.abc_1234",
        folder / ".00000003.json.0123456789abcdef",
        folder / ".00000003.json.0123456789abcdef.d",
    ]
    for path in places:
        if path.name.endswith("cdef"):
            path.write_text("half")
        else:
            path.mkdir()
    (places[-1] / "serial.json").write_text("half")
    return places


def test_leftovers_are_swept_when_they_are_old(registry: Registry) -> None:
    put(registry, artifact("a"))
    places = left_behind(registry)
    (registry.artifacts / ".mine").mkdir()
    assert in_force(registry) == {SIF: "a"} and runtime_ids(registry) == [ID]
    publish_all(registry, "a")
    assert all(path.exists() for path in places)
    age_leftovers(registry.root)
    assert not refresh(registry, publishable()).made
    assert not any(path.exists() for path in places)
    assert (registry.artifacts / ".mine").exists() and in_force(registry) == {SIF: "a"}


def publishable() -> Any:
    from registry.shelves import content

    return content("a")
