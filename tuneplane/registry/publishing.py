"""Claiming a serial: an exclusive creation that no lock has to protect."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tuneplane.errors import LockError
from tuneplane.files import write_whole
from tuneplane.registry import person
from tuneplane.registry.exclusive import create
from tuneplane.registry.folders import cannot_write
from tuneplane.registry.layout import FILE_MODE, FIRST, LAST, Publication, Registry
from tuneplane.registry.reading import hint, newest, patiently, publication

Decision = tuple[str, str, dict[str, Any]]


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
    data = (json.dumps(made.__dict__, indent=2, ensure_ascii=True) + "\n").encode()
    return create(
        registry.serial(made.serial),
        data,
        made.nonce,
        registry.folder_mode,
        lambda: patiently(lambda: publication(registry, made.serial), f"serial {made.serial}"),
    )


def _point(registry: Registry, made: Publication) -> None:
    """Let CURRENT name the publication. It is a hint: a failure or a later one's loss of it is of no consequence."""
    with suppress(OSError):
        write_whole(registry.current, f"{made.serial}\n".encode(), FILE_MODE)
