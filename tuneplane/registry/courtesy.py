"""A lock that saves publishers wasted work. Nothing rests on it: on some filesystems it holds nobody."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tuneplane.errors import Busy, shown
from tuneplane.files import read_json, write_whole
from tuneplane.registry import person
from tuneplane.registry.layout import FILE_MODE, Registry

WAIT_SECONDS = 5.0
STALE_SECONDS = 600
"""A publication takes seconds; a holder this old is dead or on a filesystem whose locks outlive their owners."""


@dataclass(frozen=True)
class Holder:
    """Who says that they hold the lock, and since when."""

    user: str
    host: str
    pid: int
    since: int

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.user} on {self.host}, process {self.pid}, since {at}"


def holder(registry: Registry) -> Holder | None:
    """Who wrote that they hold the lock; they may have been killed since."""
    record = read_json(_record(registry))
    try:
        return Holder(str(record["user"]), str(record["host"]), int(record["pid"]), int(record["since"]))
    except (TypeError, KeyError, ValueError):
        return None


@contextmanager
def courtesy(registry: Registry) -> Iterator[str]:
    """Hold the lock while publishing; yields a sentence when it could not be had and is done without, else nothing.

    Raises Busy when somebody else is publishing.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(
        registry.root / "LOCK",
        fallback_to_soft=False,
        mode=FILE_MODE if registry.gid is None else 0o664,
        is_singleton=False,
    )
    note = ""
    try:
        lock.acquire(timeout=WAIT_SECONDS)
    except Timeout:
        who = holder(registry)
        if who is not None and time.time() - who.since < STALE_SECONDS:
            where = shown(str(registry.root), 300)
            raise Busy.of(f"another publisher is at work: {who}", where, hint="tp catalog status") from None
        note = f"the lock is held by {who or 'nobody who says so'}: going on without it"
    except (OSError, NotImplementedError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        note = f"the registry cannot be locked ({why}): going on without"
    if note:
        yield note
        return
    try:
        _tell(registry)
        yield ""
    finally:
        with suppress(OSError):
            _record(registry).unlink()
        lock.release()


def _record(registry: Registry) -> Path:
    return registry.root / "LOCK.holder"


def _tell(registry: Registry) -> None:
    who = {"user": person.me(), "host": person.host(), "pid": os.getpid(), "since": int(time.time())}
    with suppress(OSError):
        write_whole(_record(registry), json.dumps(who).encode(), FILE_MODE)
