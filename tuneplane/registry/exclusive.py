"""Creating a file that only one of several rivals can have created, without a lock.

It is written whole under a temporary name and linked to its own. Neither errno nor the link count is believed (on sshfs
the loser of a race gets EPERM and every count reads 1; a retried request may report an error although it was done): who
creates reads back, and has won only if the file holds its own nonce. A compare followed by a rename would let two win.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tuneplane.errors import LockError
from tuneplane.files import sync
from tuneplane.registry.layout import FILE_MODE, INSIDE

T = TypeVar("T")

HOPELESS = frozenset({errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT})
"""Refusals that say nothing of a rival."""


def create(target: Path, data: bytes, nonce: str, folder_mode: int, read_back: Callable[[], T]) -> T:
    """What the file holds in the end, by `read_back`: this writer's data or a rival's.

    nonce: a word of this writer's alone; folder_mode: of the folder that stands for the file where links cannot be made.
    Raises OSError when nothing could be created, and what `read_back` raises.
    """
    temporary = target.with_name(f".{target.name}.{nonce}")
    try:
        _write_new(temporary, data)
        refusal = _linked(temporary, target)
        if refusal is not None and not os.path.lexists(target):
            refusal = _renamed(temporary, target, folder_mode, refusal)
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync(target.parent)
    if refusal is not None and refusal.errno in HOPELESS and not os.path.lexists(target):
        raise refusal
    try:
        return read_back()
    except LockError:
        if refusal is not None and not os.path.lexists(target):
            raise refusal from None
        raise


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), FILE_MODE)
        os.fsync(file.fileno())


def _linked(temporary: Path, target: Path) -> OSError | None:
    try:
        os.link(temporary, target)
    except OSError as error:
        return error
    return None


def _renamed(temporary: Path, target: Path, mode: int, refusal: OSError) -> OSError | None:
    """Where no link can be made: a folder that is not empty is renamed onto the name, which only one can do."""
    folder = temporary.with_name(f"{temporary.name}.d")
    try:
        folder.mkdir()
        folder.chmod(mode)
        os.rename(temporary, folder / INSIDE)
        sync(folder)
        os.rename(folder, target)
    except OSError as error:
        with suppress(OSError):
            (folder / INSIDE).unlink()
        with suppress(OSError):
            folder.rmdir()
        return error if error.errno in HOPELESS else refusal
    return None
