"""Reading without a lock what another host may be writing, on filesystems whose caches lag.

A file may have vanished, be stale, short, or an older one than was just named. Each is tried again within a bound; what
is still wrong then is said clearly. What was published long ago lags no more, so its bound is short.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tuneplane.errors import LockError, shown
from tuneplane.registry.layout import INSIDE, SERIAL_NAME, SHA256, Publication, Registry
from tuneplane.registry.trust import doubts, expected

T = TypeVar("T")

PATIENCE_SECONDS = 75.0
"""Longer than attributes may lag on NFS by default (acdirmax, 60 s)."""
BRIEF_SECONDS = 3.0
SETTLED_SECONDS = 600
"""What is older than this is in every cache as it is: the patience, and five minutes by which clocks may differ."""
_PASSING = frozenset({errno.ENOENT, errno.ESTALE, errno.EIO, errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR})


class Unsettled(Exception):
    """What was read may be right in a moment; the text says what it was."""


def patiently(read: Callable[[], T], what: str, since: float | None = None) -> T:
    """The result of `read`, tried again for a while when it raises Unsettled or an OSError that may pass.

    since: when what is read was published, as far as it is known. Raises LockError naming `what` and the last trouble.
    """
    settled = since is not None and time.time() - since > SETTLED_SECONDS
    deadline = time.monotonic() + (BRIEF_SECONDS if settled else PATIENCE_SECONDS)
    pause = 0.02
    while True:
        try:
            return read()
        except Unsettled as error:
            trouble = str(error)
        except OSError as error:
            trouble = error.strerror or "an input or output error"
            if error.errno == errno.ELOOP:
                trouble = "it is a symbolic link"
            if error.errno not in _PASSING:
                raise LockError.of(f"cannot read {what}: {trouble}") from None
        if time.monotonic() + pause > deadline:
            raise LockError.of(f"cannot read {what}: {trouble}", hint="tp catalog refresh")
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 2, 5.0)


def verified(path: Path, digest: str) -> bytes:
    """The file's bytes, whose sha256 is `digest`. Raises Unsettled when they are others, OSError."""
    data, _ = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Unsettled(f"{shown(path.name)} does not have its digest")
    return data


def read_bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """What a file holds, and its status; a symbolic link in its place is not followed. Raises OSError."""
    # opened anew each time: a file that a network filesystem has handed out before is looked up again on open
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), status
    finally:
        # `open` of a folder fails and leaves its descriptor open
        os.close(descriptor)


def publication(registry: Registry, number: int) -> Publication:
    """The publication of a serial.

    Raises FileNotFoundError when there is none, Unsettled when it is not whole, LockError when it is not a publisher's.
    """
    made = _parsed(believed(registry, registry.serial(number)))
    if made.serial != number:
        raise Unsettled(f"it says that it is serial {made.serial}")
    return made


def believed(registry: Registry, path: Path) -> bytes:
    """What a file says that was created exclusively, or the one in a folder of its name.

    Raises FileNotFoundError when there is none, Unsettled when it is not whole, LockError when it is not a publisher's.
    """
    statuses = []
    try:
        data, status = read_bytes(path)
    except IsADirectoryError:
        try:
            statuses.append(path.lstat())
            data, status = read_bytes(path / INSIDE)
        except FileNotFoundError:
            raise Unsettled("it is empty") from None
    if registry.uids is not None:
        for each in (*statuses, status):
            for what in doubts(each, registry.uids, registry.gid):
                raise LockError.of(f"{shown(str(path), 300)} {what}", expected=expected(registry))
    return data


def _parsed(data: bytes) -> Publication:
    try:
        fields: dict[str, Any] = json.loads(data)
        made = Publication(
            serial=int(fields["serial"]),
            digest=str(fields["digest"]),
            parent=str(fields["parent"]),
            nonce=str(fields["nonce"]),
            action=str(fields["action"]),
            published_at=int(fields["published_at"]),
            by=str(fields["by"]),
            details=dict(fields.get("details", {})),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unsettled("it is not whole") from None
    if not SHA256.match(made.digest):
        raise Unsettled("it names no catalog")
    return made


def newest(registry: Registry, known: Publication | None = None) -> Publication | None:
    """The newest publication, None where there is none yet; `known` is one that is there for certain.

    CURRENT is where to begin, the listing of `serials/` where it is missing or damaged; from there on every serial that
    exists is walked to, so that a late CURRENT misses nothing. Raises LockError.
    """
    found = _begin(registry)
    if known is not None and (found is None or found.serial < known.serial):
        found = known
    while found is not None:
        following = _there(registry, found.serial + 1)
        if following is None:
            return found
        found = following
    return None


def history(registry: Registry, last: Publication | None = None) -> list[Publication]:
    """Every publication up to `last`, or to the newest; the newest first. Raises LockError when one cannot be read."""
    last = last or newest(registry)
    return [] if last is None else [last, *_before(registry, last)]


def _before(registry: Registry, last: Publication) -> Iterator[Publication]:
    later = last
    for number in range(last.serial - 1, 0, -1):
        later = certain(registry, number, later)
        yield later


def certain(registry: Registry, number: int, later: Publication) -> Publication:
    """The publication of a serial before `later`. Raises LockError when it cannot be read."""
    return patiently(lambda: publication(registry, number), f"serial {number}", later.published_at)


def _begin(registry: Registry) -> Publication | None:
    """The publication that CURRENT names, or the last that is listed."""
    number = hint(registry)
    if number is not None and (found := _there(registry, number)):
        return found
    number = patiently(lambda: _listed(registry), f"the registry {shown(str(registry.root), 300)}")
    if number is None:
        return None
    try:
        written = registry.serial(number).lstat().st_mtime
    except OSError:
        written = None
    return patiently(lambda: publication(registry, number), f"serial {number}", written)


def hint(registry: Registry) -> int | None:
    """The serial that CURRENT names; None when it names none."""
    try:
        text, _ = read_bytes(registry.current)
        return int(text) if text.strip().isdigit() and len(text) <= 9 else None
    except OSError:
        return None


def _there(registry: Registry, number: int) -> Publication | None:
    """The serial's publication, None when there is no such serial: other troubles may pass."""

    def read() -> Publication | None:
        try:
            return publication(registry, number)
        except FileNotFoundError:
            return None

    return patiently(read, f"serial {number}")


def _listed(registry: Registry) -> int | None:
    try:
        names = os.listdir(registry.serials)
    except FileNotFoundError:
        return None
    return max((int(m.group(1)) for name in names if (m := SERIAL_NAME.match(name))), default=None)
