"""Small files written whole, so that readers see the old content or the new and never a part; and looked at."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

ABSENT, OTHER = "", "no regular file"
"""In place of a file's digest."""


def write_whole(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Write `data` beside `path`, sync it and rename it there. Raises OSError; then nothing is left behind."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_json(path: Path, data: Any, mode: int = 0o640) -> None:
    """`write_whole` of a JSON document with a line's end."""
    write_whole(path, (json.dumps(data, indent=2, ensure_ascii=True) + "\n").encode(), mode)


def read_json(path: Path) -> Any:
    """The document, or None when it is missing or damaged: what a killed writer left is no record."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that does not exist yet, and let it reach the disk. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Let the folder's entries reach the disk, where the filesystem knows how."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def content_of(path: Path) -> str:
    """sha256 of a file, ABSENT, or OTHER for what is no regular file. Raises OSError."""
    try:
        # O_NONBLOCK: a FIFO of that name is never waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR):
            return OTHER
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return OTHER
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return sha256(file.read())
    finally:
        os.close(descriptor)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
