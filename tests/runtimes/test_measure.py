"""The digests of a file: of all of it, and of the blocks that are sampled."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from builders import whats

from tuneplane.errors import ImageError
from tuneplane.runtimes import measure as measuring
from tuneplane.runtimes.measure import BLOCK, SAMPLES, Measured, measure, sampled, samples_of

SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK - 1, 4 * BLOCK, 4 * BLOCK + 1, 64 * BLOCK, 64 * BLOCK + 1, 65 * BLOCK, 70 * BLOCK + 3]  # fmt: skip


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (0, []),
        (1, [0]),
        (2, [0, 1]),
        (63, list(range(63))),
        (64, list(range(64))),
        (65, [*range(63), 64]),
        (127, list(range(0, 127, 2))),
        (128, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60,
               62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116,
               118, 120, 122, 124, 127]),
    ],
)  # fmt: skip
def test_which_blocks_are_sampled(blocks: int, expected: list[int]) -> None:
    assert list(sampled(blocks * BLOCK)) == expected
    if blocks:
        # a block that is begun counts
        assert list(sampled((blocks - 1) * BLOCK + 1)) == expected


@pytest.mark.parametrize("size", [40 << 30, (40 << 30) + 1, 1 << 50, 65 * BLOCK])
def test_of_any_large_file_first_and_last_and_no_block_twice(size: int) -> None:
    found = list(sampled(size))
    assert len(found) == len(set(found)) == SAMPLES and found == sorted(found)
    assert found[0] == 0 and found[-1] == -(-size // BLOCK) - 1


def written(path: Path, size: int) -> Path:
    """A file each block of which is another, its last byte too."""
    with path.open("wb") as file:
        for block in range(-(-size // BLOCK)):
            file.write(hashlib.sha256(str(block).encode()).digest() * (BLOCK // 32))
        file.truncate(size)
    return path


def expected_of(path: Path) -> Measured:
    data = path.read_bytes()
    some = b"".join(data[block * BLOCK : (block + 1) * BLOCK] for block in sampled(len(data)))
    return Measured(hashlib.sha256(data).hexdigest(), len(data), hashlib.sha256(some).hexdigest())


@pytest.mark.parametrize("size", SIZES)
def test_the_same_as_hashlib(tmp_path: Path, size: int) -> None:
    file = written(tmp_path / "image", size)
    told: list[int] = []
    found = measure(file, told.append)
    assert found == expected_of(file) and samples_of(file) == found.samples
    assert sum(told) == size and 0 not in told


def test_short_reads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a network filesystem, or when a signal comes."""
    file = written(tmp_path / "image", 66 * BLOCK + 17)
    real = os.readv
    monkeypatch.setattr(os, "readv", lambda fd, buffers: real(fd, [buffers[0][:300_007]]))
    assert measure(file) == expected_of(file) and samples_of(file) == expected_of(file).samples


def test_a_sparse_file(tmp_path: Path) -> None:
    file = tmp_path / "image"
    with file.open("wb") as holes:
        holes.truncate(66 * BLOCK)
        holes.seek(65 * BLOCK)
        holes.write(b"end")
    assert measure(file) == expected_of(file) and samples_of(file) == expected_of(file).samples


class Changing:
    """Does something to the file when so many bytes have been read."""

    def __init__(self, file: Path, act: str) -> None:
        self.file, self.act, self.done = file, act, False

    def __call__(self, _: int) -> None:
        if not self.done:
            self.done = True
            with self.file.open("r+b") as file:
                if self.act == "grows":
                    file.seek(0, 2)
                    file.write(b"more")
                elif self.act == "shrinks":
                    file.truncate(5 * BLOCK)
                else:
                    file.write(b"other")
            status = self.file.stat()
            if self.act == "is written to and its time put back":
                os.utime(self.file, ns=(status.st_atime_ns, self.before))

    before = 0


@pytest.mark.parametrize("act", ["grows", "shrinks", "is written to", "is written to and its time put back"])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, act: str) -> None:
    file = written(tmp_path / "image", 9 * BLOCK)
    os.utime(file, ns=(10**18, 10**18))
    change = Changing(file, act)
    change.before = 10**18
    with pytest.raises(ImageError) as caught:
        measure(file, change)
    assert whats(caught) == [f"`{file}` changes while it is read"] and change.done


def test_a_new_mode_or_link_is_no_change(tmp_path: Path) -> None:
    """Another builder of the same image takes its own name for the file away meanwhile."""
    file = written(tmp_path / "image", 9 * BLOCK)
    os.link(file, tmp_path / "other")
    seen: list[int] = []

    def change(count: int) -> None:
        if not seen:
            (tmp_path / "other").unlink()
            file.chmod(0o444)
        seen.append(count)

    assert measure(file, change) == expected_of(file)
    assert sum(seen) == 9 * BLOCK


def test_what_cannot_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO without a writer is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    for call in (measure, samples_of):
        for place in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
            with pytest.raises(ImageError) as caught:
                call(place)
            assert whats(caught) == [f"`{place}` is not a file"]
        with pytest.raises(ImageError) as caught:
            call(tmp_path / "none")
        assert whats(caught) == [f"cannot read the image `{tmp_path / 'none'}`: No such file or directory"]


@pytest.mark.parametrize("call", [measure, samples_of])
def test_a_file_that_may_not_be_read_or_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: object
) -> None:
    """Root may read everything, so the refusal is made."""
    file = written(tmp_path / "image", 10)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(measuring.os, "readv", refuse)
        with pytest.raises(ImageError) as caught:
            call(file)  # type: ignore[operator]
        assert whats(caught) == [f"cannot read the image `{file}`: Input/output error"]
    file.chmod(0)
    assert stat.S_IMODE(file.stat().st_mode) == 0
    if os.geteuid() != 0:
        with pytest.raises(ImageError, match="Permission denied"):
            call(file)  # type: ignore[operator]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    written(tmp_path / "image", 10)
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    measure(tmp_path / "image")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ImageError):
            measure(place)
    assert len(os.listdir("/proc/self/fd")) == before
