"""The digests of an image file: sha256 of all of it, and of blocks spread over it that any node can read in no time."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tuneplane.errors import ImageError, shown

BLOCK = 1 << 20
SAMPLES = 64
"""At most so many blocks of BLOCK bytes are sampled, the first and the last among them."""
_CHUNK = 4 * BLOCK


@dataclass(frozen=True)
class Measured:
    """size in bytes; sha256 of the file; samples: sha256 of its sampled blocks, one behind the other."""

    sha256: str
    size: int
    samples: str


def sampled(size: int) -> Iterator[int]:
    """Numbers of the blocks that are sampled of a file of `size` bytes, ascending. `tp_check_image` does the same."""
    blocks = -(-size // BLOCK)
    if blocks <= SAMPLES:
        yield from range(blocks)
    else:
        yield from (i * (blocks - 1) // (SAMPLES - 1) for i in range(SAMPLES))


def measure(path: str | Path, progress: Callable[[int], None] | None = None) -> Measured:
    """Read the file, once unless its mode or links change meanwhile. progress: called with the bytes of the first
    reading since the last call.

    Raises ImageError when it cannot be read, is no regular file, or its content changes meanwhile.
    """
    measured, before, after = _reading(path, progress)
    unchanged = (before.st_size, before.st_mtime_ns) == (measured.size, after.st_mtime_ns)
    # a new mode or link is no change of content, but a rewriting that sets the time back looks the same
    if unchanged and before.st_ctime_ns != after.st_ctime_ns:
        unchanged = _reading(path, None)[0] == measured
    if not unchanged:
        raise ImageError.of(f"{shown(str(path), 400)} changes while it is read")
    return measured


def _reading(
    path: str | Path, progress: Callable[[int], None] | None
) -> tuple[Measured, os.stat_result, os.stat_result]:
    try:
        with opened(path) as file:
            before = os.fstat(file.fileno())
            return _read(file.fileno(), before.st_size, progress), before, os.fstat(file.fileno())
    except OSError as error:
        raise cannot_read(path, error) from None


def _read(descriptor: int, size: int, progress: Callable[[int], None] | None) -> Measured:
    whole, some = hashlib.sha256(), hashlib.sha256()
    wanted = sampled(size)
    block = next(wanted, None)
    buffer = memoryview(bytearray(_CHUNK))
    read = 0
    while count := _fill(descriptor, buffer):
        whole.update(buffer[:count])
        while block is not None and block * BLOCK < read + count:
            start = block * BLOCK - read
            some.update(buffer[start : min(start + BLOCK, count)])
            block = next(wanted, None)
        read += count
        if progress is not None:
            progress(count)
    return Measured(whole.hexdigest(), read, some.hexdigest())


def _fill(descriptor: int, buffer: memoryview) -> int:
    """Fill the buffer unless the file ends, so that each chunk begins with a block. Returns the bytes read."""
    count = os.readv(descriptor, [buffer])
    while 0 < count < len(buffer):
        more = os.readv(descriptor, [buffer[count:]])
        if not more:
            break
        count += more
    return count


def samples_of(path: str | Path) -> str:
    """The sha256 of the sampled blocks alone. Raises ImageError when they cannot be read."""
    some = hashlib.sha256()
    try:
        with opened(path) as file:
            buffer = memoryview(bytearray(BLOCK))
            for block in sampled(os.fstat(file.fileno()).st_size):
                os.lseek(file.fileno(), block * BLOCK, os.SEEK_SET)
                some.update(buffer[: _fill(file.fileno(), buffer)])
    except OSError as error:
        raise cannot_read(path, error) from None
    return some.hexdigest()


def opened(path: str | Path) -> BinaryIO:
    """The file. Raises OSError, ImageError when it is no regular file; a FIFO's writer is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise not_a_file(path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def not_a_file(path: str | Path) -> ImageError:
    """The error of something else in a file's place."""
    return ImageError(f"{shown(str(path), 400)} is not a file")


def cannot_read(path: str | Path, error: OSError) -> ImageError:
    """The error of a file that cannot be read."""
    return ImageError(f"cannot read the image {shown(str(path), 400)}: {error.strerror}")
