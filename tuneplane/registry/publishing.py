"""Claiming a serial: an exclusive creation that no lock has to protect.

The serial is written whole under a temporary name and linked to its own. Neither errno nor the link count is believed
(on sshfs the loser of a race gets EPERM and every count reads 1; a retried request may report an error although it was
done): the serial is read back, and the publisher has won only if it holds its own nonce. A compare followed by a rename
would let two publishers win.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuneplane.errors import LockError
from tuneplane.files import write_whole
from tuneplane.registry import person
from tuneplane.registry.folders import cannot_write
from tuneplane.registry.layout import FILE_MODE, FIRST, INSIDE, LAST, Publication, Registry
from tuneplane.registry.reading import hint, newest, patiently, publication

Decision = tuple[str, str, dict[str, Any]]
_HOPELESS = frozenset({errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT})
"""Refusals that say nothing of a rival."""


def publish(
    registry: Registry, decide: Callable[[Publication | None], Decision | None]
) -> tuple[Publication | None, bool]:
    """Publish what `decide` says of the newest publication: (digest, action, details), None for nothing.

    Returns the publication now in force and whether this call made it. A publisher that lost a serial reads anew and
    decides again. Raises LockError when the registry cannot be written.
    """
    known: Publication | None = None
    while True:
        parent = newest(registry, known)
        decision = decide(parent)
        if decision is None:
            if parent is not None and hint(registry) != parent.serial:
                _point(registry, parent)
            return parent, False
        made = _next(parent, *decision)
        try:
            known = _claim(registry, made)
        except OSError as error:
            raise cannot_write(registry, error) from None
        if known.nonce == made.nonce:
            _point(registry, made)
            return made, True


def _next(parent: Publication | None, digest: str, action: str, details: dict[str, Any]) -> Publication:
    serial = parent.serial + 1 if parent else FIRST
    if serial > LAST:
        raise LockError.of("the registry has used up its serials")
    return Publication(
        serial=serial,
        digest=digest,
        parent=parent.digest if parent else "",
        nonce=secrets.token_hex(16),
        action=action,
        published_at=int(time.time()),
        by=person.signature(),
        details=details,
    )


def _claim(registry: Registry, made: Publication) -> Publication:
    """What the serial holds in the end, this publication or a rival's. Raises OSError when it holds nothing."""
    target = registry.serial(made.serial)
    temporary = registry.serials / f".{target.name}.{made.nonce}"
    try:
        _write_new(temporary, (json.dumps(made.__dict__, indent=2, ensure_ascii=True) + "\n").encode())
        refusal = _linked(temporary, target)
        if refusal is not None and not os.path.lexists(target):
            refusal = _renamed(temporary, target, registry.folder_mode, refusal)
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync(registry.serials)
    if refusal is not None and refusal.errno in _HOPELESS and not os.path.lexists(target):
        raise refusal
    try:
        return patiently(lambda: publication(registry, made.serial), f"serial {made.serial}")
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
        _sync(folder)
        os.rename(folder, target)
    except OSError as error:
        with suppress(OSError):
            (folder / INSIDE).unlink()
        with suppress(OSError):
            folder.rmdir()
        return error if error.errno in _HOPELESS else refusal
    return None


def _point(registry: Registry, made: Publication) -> None:
    """Let CURRENT name the publication. It is a hint: a failure or a later one's loss of it is of no consequence."""
    with suppress(OSError):
        write_whole(registry.current, f"{made.serial}\n".encode(), FILE_MODE)


def _sync(folder: Path) -> None:
    """Let the folder's entries reach the disk, where the filesystem knows how."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
