"""What counts as unchanged: what a file looks like decides whether it is read, what it holds decides the rest."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tuneplane.registry.artifact import Artifact
from tuneplane.runtimes import identity
from tuneplane.runtimes.identity import looks_the_same, mount_of, seen, trouble
from tuneplane.runtimes.measure import measure

DATA = bytes(range(256)) * 400


def registered(path: Path) -> Artifact:
    """The file as its registration would have it."""
    status, found = path.stat(), measure(path)
    return Artifact(
        runtime_id="toy-2.0.0",
        format="sqsh",
        arch="x86_64",
        path=str(path),
        sha256=found.sha256,
        size=found.size,
        samples=found.samples,
        mtime=int(status.st_mtime),
        seen=seen(str(path), status),
        registered_at=0,
        by="admin@login",
    )


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image of long ago, so that whatever is done now has another time."""
    file = tmp_path / "an image.sqsh"
    file.write_bytes(DATA)
    os.utime(file, ns=(10**18, 10**18 + 123_456_789))
    return file


@pytest.fixture
def artifact(image: Path, cold_cache: Path) -> Artifact:
    return registered(image)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every file that was read whole."""
    found: list[str] = []

    def counted(path: str, progress: object = None) -> object:
        found.append(path)
        return measure(path, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(identity, "measure", counted)
    return found


def other(artifact: Artifact, data: bytes) -> str:
    found = hashlib.sha256(data).hexdigest()
    return f"`{artifact.path}` is not the registered image: its sha256 is {found}, not {artifact.sha256}"


def flipped(at: int = 5) -> bytes:
    return DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]


def write(image: Path, data: bytes) -> None:
    with image.open("r+b") as file:
        file.write(data)


def untouched(_: Path) -> None:
    pass


def touched(image: Path) -> None:
    image.touch()


def moved_here(image: Path) -> None:
    """The same bytes under a new inode."""
    shutil.copy2(image, f"{image}.new")
    os.rename(f"{image}.new", image)


def written_again(image: Path) -> None:
    write(image, DATA)


def other_mode(image: Path) -> None:
    """Nothing but ctime."""
    image.chmod(0o600)


def linked(image: Path) -> None:
    """A second name, which changes ctime too."""
    os.link(image, f"{image}.too")


@pytest.mark.parametrize(
    ("act", "read"),
    [(untouched, 0), (touched, 1), (moved_here, 1), (written_again, 1), (other_mode, 1), (linked, 1)],
)
def test_the_same_bytes_are_the_image(
    image: Path, artifact: Artifact, reads: list[str], act: Callable[[Path], None], read: int
) -> None:
    """Whatever it looks like: it is read when it looks otherwise, and that is remembered."""
    act(image)
    assert trouble(artifact) == "" and len(reads) == read
    assert trouble(artifact) == "" and len(reads) == read
    image.touch()
    assert trouble(artifact) == "" and len(reads) == read + 1


def flip(image: Path) -> None:
    write(image, flipped())


def flip_and_put_the_time_back(image: Path) -> None:
    before = image.stat()
    write(image, flipped())
    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert image.stat().st_mtime_ns == before.st_mtime_ns


def copied_over(image: Path) -> None:
    new = image.with_name("new")
    new.write_bytes(flipped())
    os.utime(new, ns=(image.stat().st_atime_ns, image.stat().st_mtime_ns))
    shutil.copy2(new, image)


def renamed_over(image: Path) -> None:
    new = image.with_name("new")
    new.write_bytes(flipped())
    os.utime(new, ns=(image.stat().st_atime_ns, image.stat().st_mtime_ns))
    os.rename(new, image)


@pytest.mark.parametrize("act", [flip, flip_and_put_the_time_back, copied_over, renamed_over])
def test_other_bytes_of_the_same_number(
    image: Path, artifact: Artifact, reads: list[str], act: Callable[[Path], None]
) -> None:
    act(image)
    assert trouble(artifact) == other(artifact, flipped())
    assert trouble(artifact) == other(artifact, flipped()) and len(reads) == 1
    # put right again, it is the image again
    write(image, DATA)
    assert trouble(artifact) == ""


@pytest.mark.parametrize(
    ("size", "said"), [(102_401, "has 102401 bytes, not 102400"), (5, "has 5 bytes, not 102400"), (0, "has 0 bytes, not 102400")]
)  # fmt: skip
def test_another_size_needs_no_reading(
    image: Path, artifact: Artifact, reads: list[str], size: int, said: str
) -> None:
    os.truncate(image, size)
    for full in (False, True):
        assert trouble(artifact, full=full) == f"the registered image `{image}` {said}"
    assert reads == []


def test_what_is_not_there_or_is_something_else(
    image: Path, artifact: Artifact, reads: list[str], tmp_path: Path
) -> None:
    image.unlink()
    gone = f"the registered image `{image}` is gone"
    assert trouble(artifact) == trouble(artifact, full=True) == gone
    image.symlink_to("nowhere")
    assert trouble(artifact) == gone
    image.unlink()
    image.mkdir()
    assert trouble(artifact) == f"the registered image `{image}` is no file any more"
    image.rmdir()
    os.mkfifo(image)
    assert trouble(artifact, full=True) == f"the registered image `{image}` is no file any more"
    below = replace(artifact, path=f"{image}/below")
    assert trouble(below) == f"the registered image `{image}/below` cannot be reached: Not a directory"
    assert reads == []


def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tuneplane.runtimes.measure.opened", refuse)


def test_a_file_that_may_not_be_read(
    image: Path, artifact: Artifact, cold_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as nothing calls for it, nobody reads it."""
    with monkeypatch.context() as patch:
        unreadable(patch)
        assert trouble(artifact) == ""
        said = f"cannot read the image `{image}`: Permission denied"
        assert trouble(artifact, full=True) == said
        image.touch()
        assert trouble(artifact) == said
    assert trouble(artifact) == ""
    # which is remembered, also when it cannot be read any more
    unreadable(monkeypatch)
    assert trouble(artifact) == ""


def test_full_reads_it_whatever_it_looks_like(image: Path, artifact: Artifact, reads: list[str]) -> None:
    """Such as bytes that a disk has lost: no time tells of them."""
    told: list[int] = []
    assert trouble(artifact, full=True, progress=told.append) == "" and sum(told) == len(DATA)
    assert trouble(artifact, full=True) == "" and len(reads) == 2
    lost = replace(artifact, sha256="0" * 64)
    assert trouble(lost) == "" and trouble(lost, full=True) == other(lost, DATA)


def test_where_nothing_can_be_remembered(
    image: Path, artifact: Artifact, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    image.touch()
    assert trouble(artifact) == trouble(artifact) == "" and len(reads) == 2


def test_what_is_remembered_is_remembered_of_this_file_alone(
    image: Path, artifact: Artifact, reads: list[str]
) -> None:
    """A copy that looks the same but for its inode, and the same path on another host."""
    image.touch()
    assert trouble(artifact) == ""
    copy = image.with_name("copy")
    shutil.copy2(image, copy)
    assert trouble(replace(artifact, path=str(copy))) == "" and len(reads) == 2


# --- another host, another mount ---


def on_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.uname()
    name = os.uname_result((here.sysname, "node-7", here.release, here.version, here.machine))
    monkeypatch.setattr(os, "uname", lambda: name)


def on_another_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "mount_of", lambda _: "/lustre lustre mds:/fs")


ELSEWHERE = [on_another_host, on_another_mount]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_elsewhere_size_and_second_suffice(
    image: Path,
    artifact: Artifact,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """Inode, ctime and nanoseconds are another host's: NFS has its own, Lustre cuts the second off."""
    elsewhere(monkeypatch)
    moved_here(image)
    os.utime(image, ns=(10**18, 10**18))
    assert trouble(artifact) == "" and reads == []
    assert trouble(artifact, full=True) == "" and len(reads) == 1


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("data", [DATA, flipped()])
def test_elsewhere_another_second_calls_for_the_full_hash(
    image: Path,
    artifact: Artifact,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Callable[[pytest.MonkeyPatch], None],
    data: bytes,
) -> None:
    elsewhere(monkeypatch)
    write(image, data)
    os.utime(image, ns=(10**18, 10**18 + 10**9))
    expected = "" if data == DATA else other(artifact, data)
    assert trouble(artifact) == expected and trouble(artifact) == expected and len(reads) == 1


def test_seen_elsewhere_and_checked_here(image: Path, artifact: Artifact, reads: list[str]) -> None:
    """The record may be of another host; of this one nothing is known then."""
    there = replace(artifact, seen=replace(artifact.seen, host="node-7", inode=1, ctime_ns=2, mtime_ns=3))
    assert trouble(there) == "" and reads == []
    assert looks_the_same(there, image.stat())
    assert not looks_the_same(replace(there, mtime=there.mtime + 1), image.stat())
    same_host = replace(artifact, seen=replace(artifact.seen, inode=1))
    assert not looks_the_same(same_host, image.stat()) and trouble(same_host) == "" and len(reads) == 1


TABLE = """\
22 1 8:1 / / rw,relatime - ext4 /dev/root rw
23 22 0:20 / /home rw shared:1 - nfs4 server:/home rw,vers=4.2
24 23 0:21 / /home/a\\040b\\134c rw - lustre mds:/fs rw
25 22 0:22 / /homes rw - tmpfs tmpfs rw
26 22 0:23 / /home rw - nfs4 other:/home rw
broken
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/x", "/ ext4 /dev/root"),
        ("/home", "/home nfs4 other:/home"),
        ("/home/x", "/home nfs4 other:/home"),
        ("/homes/x", "/homes tmpfs tmpfs"),
        ("/homeless", "/ ext4 /dev/root"),
        ("/home/a b\\c/d", "/home/a b\\c lustre mds:/fs"),
        ("/home/a b", "/home nfs4 other:/home"),
    ],
)
def test_the_mount_of_a_path(monkeypatch: pytest.MonkeyPatch, path: str, mount: str) -> None:
    """The longest point; of two at one place the one on top."""
    monkeypatch.setattr(Path, "read_text", lambda *_: TABLE)
    assert mount_of(path) == mount


def test_the_mount_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point, kind, _ = mount_of(str(tmp_path)).split(" ", 2)
    assert str(tmp_path.resolve()).startswith(point) and kind
    assert mount_of("/proc/self").startswith("/proc proc ")

    def refuse(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert mount_of("/") == ""
