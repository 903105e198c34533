"""The journal: killed before any call that changes the disk, beaten to it, edited under, it leaves all or nothing."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuneplane.errors import Busy, InputError
from tuneplane.experiment import journal
from tuneplane.experiment.carrying import Lost
from tuneplane.experiment.freeze import freeze
from tuneplane.experiment.journal import NAME, Write, recovered, write_all
from tuneplane.experiment.locate import find_experiment
from tuneplane.files import ABSENT, sha256

Files = dict[str, bytes]

OLD: Files = {
    "config.yaml": b"# mine\nparams: {rate: 1}\n",
    "main.py": b"old\n",
    "mine.txt": b"mine\n",
    "recipe.lock.json": b"{1}\n",
}
WRITTEN: Files = {
    "config.yaml": b"# mine\nparams: {learning_rate: 1}\n",
    "main.py": b"new\n",
    "sub/deep/more.py": b"more\n",
    "main.py.new": b"beside\n",
    "recipe.lock.json": b"{2}\n",
}
NEW: Files = {**OLD, **WRITTEN}
EDITED = b"the user's own\n"
CHANGING = ("rename", "link", "unlink", "rmdir", "mkdir")
"""Every call by which a journal changes which files there are, but for the opening of a new one."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that was not synced: only a machine does."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path / "exp")


def made(folder: Path, files: Files = OLD) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def writes(before: Files = OLD, after: Files = WRITTEN) -> list[Write]:
    return [Write(p, sha256(before[p]) if p in before else ABSENT, data) for p, data in after.items()]


def on_disk(folder: Path) -> Files:
    """Every file but the journal's."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    named = {str(path.relative_to(folder)): path for path in paths}
    return {name: path.read_bytes() for name, path in named.items() if not name.startswith(NAME)}


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(NAME)]


def as_others_see(folder: Path) -> Files:
    """What a reader gets who is not the owner, and changes nothing."""
    before = sorted(str(path) for path in folder.rglob("*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        view = recovered(folder).view
    assert sorted(str(path) for path in folder.rglob("*")) == before
    files = on_disk(folder)
    for path, file in view.items():
        files.pop(path, None)
        if file is not None:
            files[path] = file.data
    return files


class Layer:
    """Calls `act` before the n-th call that changes the disk, counted from 1."""

    def __init__(self, n: int, act: Callable[[], None]) -> None:
        self.n, self.act, self.count = n, act, 0

    def __enter__(self) -> Layer:
        self.patch = pytest.MonkeyPatch()
        for name in CHANGING:
            self.patch.setattr(os, name, self._counted(getattr(os, name)))
        real = os.open

        def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & os.O_CREAT:
                self._step()
            return real(path, flags, *args, **kwargs)

        self.patch.setattr(os, "open", opened)
        return self

    def __exit__(self, *_: object) -> None:
        self.patch.undo()

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._step()
            return real(*args, **kwargs)

        return call

    def _step(self) -> None:
        self.count += 1
        if self.count == self.n:
            n, self.n = self.n, 0
            self.act()
            self.n = -n


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(n: int, act: Callable[[], Any]) -> bool:
    """Run `act` in a process that is killed before its n-th change of the disk; whether it came to that."""
    child = os.fork()
    if child == 0:
        try:
            with Layer(n, die):
                act()
        except (InputError, Busy):
            os._exit(3)
        except BaseException:
            os._exit(4)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def positions(
    tmp_path: Path, act: Callable[[Path], Any], start: Callable[[Path], Any] = made
) -> Iterator[tuple[int, Path]]:
    """A folder for each position at which `act` can be killed, killed there."""
    for n in range(1, 500):
        place = tmp_path / f"at-{n}" / "exp"
        start(place)
        if not killed(n, lambda: act(place)):  # noqa: B023
            assert n > 10
            return
        yield n, place
    raise AssertionError("it never comes to an end")


def upgraded(folder: Path) -> bool:
    return write_all(folder, writes())


def test_all_is_written_and_nothing_is_left(folder: Path) -> None:
    (folder / "config.yaml").chmod(0o600)
    modes = [Write(w.path, w.before, w.after, 0o640 if w.path == "config.yaml" else 0o755) for w in writes()]
    assert write_all(folder, modes)
    assert on_disk(folder) == NEW and not leftovers(folder)
    assert (folder / "config.yaml").stat().st_mode & 0o777 == 0o640 and os.access(folder / "main.py", os.X_OK)
    assert (folder / "config.yaml").stat().st_nlink == 1
    assert recovered(folder) == journal.Recovered({}) and not leftovers(folder)


def test_killed_anywhere_it_is_all_or_nothing(tmp_path: Path) -> None:
    decided = False
    for n, place in positions(tmp_path, upgraded):
        seen = as_others_see(place)
        assert seen in (OLD, NEW), n
        assert not (decided and seen == OLD), f"decided, and then not at {n}"
        decided = seen == NEW
        frozen = freeze(place, name="exp")
        assert {file.path: file.data for file in frozen.files} == seen and not frozen.left_out
        assert on_disk(place) == seen, n
        # the same once more: it is done, and nothing needs a hand
        write_all(place, writes(seen))
        assert on_disk(place) == NEW and leftovers(place) == [], n
    assert decided


def test_killed_anywhere_in_the_recovery_it_is_still_new(tmp_path: Path) -> None:
    count = 0
    for n, place in positions(tmp_path, upgraded):
        if as_others_see(place) == OLD or n % 4:
            continue
        for m in range(1, 100):
            again = tmp_path / f"{n}-{m}" / "exp"
            shutil.copytree(place, again, symlinks=True, copy_function=keeping_links(place, again))
            ended = not killed(m, lambda: recovered(again))  # noqa: B023
            assert as_others_see(again) == NEW, (n, m)
            recovered(again)
            assert on_disk(again) == NEW and not leftovers(again), (n, m)
            count += 1
            if ended:
                break
    assert count > 60


def keeping_links(source: Path, target: Path) -> Callable[[str, str], object]:
    """A copy function under which files that are one file stay one."""
    seen: dict[int, str] = {}

    def copy(a: str, b: str) -> object:
        first = seen.setdefault(os.stat(a).st_ino, b)
        return shutil.copy2(a, b) if first == b else os.link(first, b)

    return copy


@pytest.mark.parametrize("edited", ["config.yaml", "main.py.new", "sub/deep/more.py"])
def test_an_edit_after_the_kill_is_kept_and_all_else_is_as_it_was(tmp_path: Path, edited: str) -> None:
    for n, place in positions(tmp_path, upgraded):
        seen = as_others_see(place)
        ended = not (place / NAME).exists() or not os.listdir(place / NAME)
        target = place / edited
        if not target.parent.is_dir():
            continue
        (place / "editor").write_bytes(EDITED)
        os.rename(place / "editor", target)
        expected = {**(seen if ended or finished(place) else OLD), edited: EDITED}
        assert as_others_see(place) == expected, n
        notes = recovered(place).notes
        assert on_disk(place) == expected and not (place / NAME).exists(), n
        assert all("undone" in note and edited in note for note in notes) if expected != seen else True


def finished(place: Path) -> bool:
    from tuneplane.experiment.carrying import in_force

    return in_force(place / NAME) is None


def test_killed_anywhere_while_it_is_taken_back(tmp_path: Path) -> None:
    """The new files are there, one of them is edited, and the recovery that takes them back is killed."""

    there = all_there(tmp_path)

    def half(place: Path) -> None:
        made(place)
        assert killed(there, lambda: upgraded(place))
        (place / "main.py").write_bytes(EDITED)

    expected = {**OLD, "main.py": EDITED}
    count = 0
    for n, place in positions(tmp_path, recovered, half):
        assert as_others_see(place) == expected, n
        under_way = not finished(place)
        notes = recovered(place).notes
        assert notes == under_way * (
            "an unfinished upgrade of `exp` was undone: `main.py` changed meanwhile",
        )
        assert on_disk(place) == expected and not leftovers(place), n
        count += 1
    assert count > 10


def all_there(tmp_path: Path) -> int:
    """The first position at which every new file is in its place and the journal has not ended."""
    return next(n for n, place in positions(tmp_path / "search", upgraded) if on_disk(place) == NEW)


@pytest.mark.parametrize("how", ["in place", "replaced"])
@pytest.mark.parametrize("edited", ["config.yaml", "main.py.new", "recipe.lock.json"])
def test_an_edit_at_any_moment_is_never_overwritten(tmp_path: Path, edited: str, how: str) -> None:
    outcomes = set()
    for n in range(1, 500):
        place = made(tmp_path / f"at-{n}")

        def edit(place: Path = place) -> None:
            target = place / (edited if how == "in place" else "editor")
            target.write_bytes(EDITED)
            if how == "replaced":
                os.rename(target, place / edited)

        with Layer(n, edit) as layer:
            done = write_all(place, writes())
        if layer.count < n:
            break
        there = on_disk(place)
        assert there.pop(edited) == EDITED, n
        rest = [{key: data for key, data in files.items() if key != edited} for files in (OLD, NEW)]
        assert there == rest[done], n
        assert not leftovers(place), n
        outcomes.add(done)
    assert outcomes == {False, True}


def test_where_links_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for n, place in positions(tmp_path, upgraded):
        seen = as_others_see(place)
        assert seen in (OLD, NEW), n
        recovered(place)
        assert on_disk(place) == seen, n
    place = made(tmp_path / "undone")
    assert killed(all_there(tmp_path), lambda: upgraded(place))
    (place / "config.yaml").write_bytes(EDITED)
    recovered(place)
    assert on_disk(place) == {**OLD, "config.yaml": EDITED} and not leftovers(place)


def all_positions(tmp_path: Path) -> int:
    place = made(tmp_path / "counted")
    with Layer(0, die) as layer:
        write_all(place, writes())
    return layer.count


# --- several at once ---


def together(*acts: Callable[[], Any]) -> list[int]:
    """Exit codes of processes that run the acts, all released at one moment."""
    read, write = os.pipe()
    children = []
    for act in acts:
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            code = 9
            try:
                code = int(act() or 0)
            except Busy:
                code = 75
            except BaseException as error:
                os.write(2, f"{error!r}\n".encode())
            finally:
                os._exit(code)
        children.append(child)
    os.close(read)
    os.close(write)
    return [os.WEXITSTATUS(os.waitpid(child, 0)[1]) for child in children]


def slowly(act: Callable[[], Any]) -> Callable[[], Any]:
    """The act with pauses before its changes, so that others come between."""

    def call() -> Any:
        random.seed(os.getpid())

        class Slow(Layer):
            def _step(self) -> None:
                if random.random() < 0.3:
                    time.sleep(random.random() * 0.002)

        with Slow(0, die):
            return act()

    return call


def test_two_recoveries_at_once(tmp_path: Path) -> None:
    last, first = all_positions(tmp_path), 0
    for n, place in positions(tmp_path, upgraded):
        if as_others_see(place) == NEW:
            first = n
            break
    for round_ in range(20):
        place = made(tmp_path / f"round-{round_}")
        assert killed(random.randint(first, last), lambda: upgraded(place))  # noqa: B023
        assert together(*[slowly(lambda: recovered(place).view and 1)] * 3) == [0, 0, 0]  # noqa: B023
        assert on_disk(place) == NEW and not leftovers(place)


def test_two_upgrades_at_once(tmp_path: Path) -> None:
    other: Files = {**{path: b"other " + data for path, data in WRITTEN.items()}, "other.py": b"x\n"}
    outcomes = set()
    for round_ in range(20):
        place = made(tmp_path / f"round-{round_}")
        codes = together(
            slowly(lambda: write_all(place, writes())),  # noqa: B023
            slowly(lambda: write_all(place, writes(OLD, other))),  # noqa: B023
        )
        there = on_disk(place)
        assert there == {(1, 0): NEW, (0, 1): {**OLD, **other}}[tuple(code % 75 for code in codes)]  # type: ignore[index]
        assert not leftovers(place)
        outcomes.add(tuple(codes))
    assert outcomes


def test_no_reader_sees_a_mixture_while_upgrades_go_on(folder: Path) -> None:
    back = [Write(w.path, sha256(w.after), OLD.get(w.path, b"gone\n")) for w in writes()]
    states = [OLD, NEW, {**NEW, **{w.path: w.after for w in back}}]
    until = time.monotonic() + 1.2

    def upgrade() -> int:
        here = writes()
        while time.monotonic() < until:
            if write_all(folder, here):
                here = (
                    back if here is not back else [Write(w.path, sha256(w.after), NEW[w.path]) for w in back]
                )
        return 0

    def read() -> int:
        seen = 0
        while time.monotonic() < until:
            try:
                frozen = freeze(folder, name="exp")
            except InputError as error:
                assert "keeps changing" in str(error)
                continue
            assert {file.path: file.data for file in frozen.files} in states
            assert find_experiment(str(folder)).read("config.yaml") in (
                OLD["config.yaml"],
                NEW["config.yaml"],
            )
            seen += 1
        return 0 if seen else 5

    assert together(slowly(upgrade), read, read) == [0, 0, 0]


# --- refusals and strangers ---


def test_what_was_edited_before_is_not_touched(folder: Path) -> None:
    (folder / "config.yaml").write_bytes(EDITED)
    assert not write_all(folder, writes())
    assert on_disk(folder) == {**OLD, "config.yaml": EDITED} and not leftovers(folder)


@pytest.mark.parametrize("taken", ["folder", "link", "file in the way", "fifo", "link above"])
def test_what_is_no_file_is_not_touched(folder: Path, taken: str) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    {
        "folder": lambda: (folder / "main.py.new").mkdir(),
        "link": lambda: (folder / "main.py.new").symlink_to(elsewhere / "x"),
        "file in the way": lambda: (folder / "sub").write_bytes(b"x"),
        "fifo": lambda: os.mkfifo(folder / "main.py.new"),
        "link above": lambda: (folder / "sub").symlink_to(elsewhere),
    }[taken]()
    before = on_disk(folder)
    assert not write_all(folder, writes())
    assert on_disk(folder) == before and not leftovers(folder) and not os.listdir(elsewhere)


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(InputError, match=r"cannot write to .*: Permission denied"):
        write_all(folder, writes())
    assert on_disk(folder) == OLD and not leftovers(folder)


def test_a_reader_that_cannot_write_sees_it_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for n, place in positions(tmp_path, upgraded):
        seen = as_others_see(place)
        before = on_disk(place)
        with monkeypatch.context() as patch:
            for name in CHANGING:
                patch.setattr(os, name, refuse)
            found = find_experiment(str(place))
            assert {file.path: file.data for file in freeze(place, name="exp").files} == seen, n
            assert found.read("recipe.lock.json") == seen["recipe.lock.json"]
        assert on_disk(place) == before
        if before != seen:
            assert found.notes == ("an unfinished upgrade of `exp` is read as finished",)


def test_a_journal_of_somebody_else_is_read_and_not_carried_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed(all_there(tmp_path) - 6, lambda: upgraded(folder))
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(Busy, match="another upgrade"):
            write_all(folder, writes())
        assert find_experiment(str(folder)).read("config.yaml") == NEW["config.yaml"]
    assert recovered(folder).notes == ("an unfinished upgrade of `exp` was finished",)


@pytest.mark.parametrize(
    "text",
    ["", "[", "1", "[1]", '[{"path": "../x", "before": "", "after": "", "mode": 0}]', '[{"path": "x"}]'],
)
def test_a_damaged_journal_is_said(folder: Path, text: str) -> None:
    (folder / NAME / "claim").mkdir(parents=True)
    (folder / NAME / "claim/journal.json").write_text(text)
    with pytest.raises(InputError):
        recovered(folder)
    assert on_disk(folder) == OLD


def test_a_file_of_the_journals_name_is_no_journal(folder: Path) -> None:
    (folder / NAME).write_bytes(b"x")
    assert recovered(folder) == journal.Recovered({})
    with pytest.raises(InputError, match="cannot write"):
        write_all(folder, writes())
    assert on_disk(folder) == OLD


def test_what_never_came_into_force_goes_when_it_is_old(folder: Path) -> None:
    old, alive, foreign = (
        folder / f"{NAME}-{name}"
        for name in (
            f"{os.uname().nodename}-999999999-a",
            f"{os.uname().nodename}-{os.getpid()}-b",
            "elsewhere-1-c",
        )
    )
    for place in (old, alive, foreign):
        place.mkdir()
    assert write_all(folder, writes())
    assert sorted(leftovers(folder)) == sorted([alive.name, foreign.name])
    os.utime(foreign, (0, 0))
    write_all(folder, [])
    assert leftovers(folder) == [alive.name]
    assert freeze(folder, name="exp").left_out == ()


def test_two_that_take_it_from_each_other_come_to_an_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that always loses it gives up in a bounded time, and says so."""
    assert killed(all_there(tmp_path) - 6, lambda: upgraded(folder))

    def lose(*_: object) -> None:
        raise Lost

    monkeypatch.setattr("tuneplane.experiment.carrying.Carrying.claimed", lose)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(Busy, match="does not end"):
        recovered(folder)
