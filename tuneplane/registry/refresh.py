"""Publishing what the sources say now, and publishing again what an earlier serial had."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from typing import Any

from tuneplane.errors import LockError
from tuneplane.files import write_json
from tuneplane.registry import person
from tuneplane.registry.content import Content, store
from tuneplane.registry.courtesy import courtesy
from tuneplane.registry.folders import cannot_write, make_folders
from tuneplane.registry.history import content_of, is_condemned
from tuneplane.registry.layout import FILE_MODE, FIRST, REFRESH, ROLLBACK, Publication, Registry
from tuneplane.registry.publishing import Decision, publish
from tuneplane.registry.reading import certain, newest
from tuneplane.registry.sweep import sweep
from tuneplane.registry.trust import check, check_there, expected


@dataclass(frozen=True)
class Outcome:
    """What came of it. made: whether a serial was published; notes: sentences a person may want to read."""

    publication: Publication
    made: bool
    notes: tuple[str, ...] = ()


def refresh(registry: Registry, content: Content, *, force: bool = False) -> Outcome:
    """Publish the content when it is new, and record that the registry was held against its sources.

    A source that was rolled back is not published again until it changes or `force`. Raises Busy, LockError.
    """
    may_publish(registry)
    make_folders(registry)
    check_trust(registry)
    with courtesy(registry) as note:
        notes = [note] if note else []
        sweep(registry)

        def decide(parent: Publication | None) -> Decision | None:
            if parent is not None and parent.source == content.digest:
                return None
            if parent is not None and parent.details.get("held") == content.digest and not force:
                by = parent.details.get("held_by", "somebody")
                notes.append(
                    f"{by} rolled this source back: nothing is published until it changes or --force is given"
                )
                return None
            return _stored(registry, content, parent, REFRESH, {})

        now, made = publish(registry, decide)
        assert now is not None
        if not made and now.source == content.digest:
            # whatever of it was damaged or lost since
            store(registry, content.again(now.details.get("again", "")))
        _renew(registry, now)
        return Outcome(now, made, tuple(notes))


def _stored(
    registry: Registry, content: Content, parent: Publication | None, action: str, details: dict[str, Any]
) -> Decision:
    """Store the content and say how to publish it: in a folder of its own when its first one is to be removed."""
    fresh = content
    if is_condemned(registry, content.digest, parent):
        word = secrets.token_hex(8)
        fresh = content.again(word)
        details = {**details, "source": details.get("source", content.digest), "again": word}
    store(registry, fresh)
    return fresh.digest, action, details


def _renew(registry: Registry, now: Publication) -> None:
    record = {"at": int(time.time()), "by": person.me(), "host": person.host(), "serial": now.serial}
    try:
        write_json(registry.checked, record, FILE_MODE)
    except OSError as error:
        raise cannot_write(registry, error) from None


def may_publish(registry: Registry) -> None:
    """Raises LockError when readers would not believe what this user publishes."""
    if registry.uids is not None and os.geteuid() not in registry.uids:
        raise LockError.of(
            f"{person.me()} (uid {os.geteuid()}) is no publisher of the site",
            str(registry.root),
            expected(registry),
        )


def check_trust(registry: Registry) -> None:
    """Raises LockError naming every place of the registry that somebody else could have changed."""
    check_there(registry)
    if registry.uids is not None:
        check(registry)


def rollback(registry: Registry, serial: int | None) -> Outcome:
    """Publish an earlier serial's catalog again: the one before the newest that differs, or that of `serial`.

    The source that was published last is held back. Raises Busy, LockError when there is no such serial.
    """
    may_publish(registry)
    check_trust(registry)
    if newest(registry) is None:
        raise LockError.of("nothing is published that could be rolled back")
    with courtesy(registry) as note:

        def decide(parent: Publication | None) -> Decision | None:
            assert parent is not None
            target = _earlier(registry, parent, serial)
            if target.source == parent.source:
                raise LockError.of(f"serial {target.serial} has the very catalog that is in force")
            content = content_of(registry, target)
            held = {"held": parent.details.get("held", parent.source), "held_by": person.signature()}
            details = {"to": target.serial, **held, **target.inherited()}
            return _stored(registry, content, parent, ROLLBACK, details)

        now, made = publish(registry, decide)
        assert now is not None
        return Outcome(now, made, (note,) if note else ())


def _earlier(registry: Registry, parent: Publication, serial: int | None) -> Publication:
    """The publication to go back to. What was rolled back itself is passed over: twice goes back by two."""
    if serial is not None:
        if not FIRST <= serial <= parent.serial:
            raise LockError.of(f"there is no serial {serial}", expected=f"{FIRST} to {parent.serial}")
        return parent if serial == parent.serial else certain(registry, serial, parent)
    found = parent
    while (number := int(found.details.get("to", found.serial)) - 1) >= FIRST:
        found = certain(registry, number, parent)
        if found.source != parent.source:
            return found
    raise LockError.of("no earlier serial has another catalog")
