"""Registered images: for each runtime id a row of numbered records, each created as serials are.

A record holds everything that is in force after it, so the newest alone is read. None is changed or removed.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuneplane.errors import ImageError, LockError, shown
from tuneplane.registry import person
from tuneplane.registry.artifact import RUNTIME_ID, Artifact, from_json
from tuneplane.registry.exclusive import create
from tuneplane.registry.folders import TURNS, cannot_write, make_folder, make_folders
from tuneplane.registry.layout import FIRST, LAST, SERIAL_NAME, Registry
from tuneplane.registry.reading import Unsettled, believed, patiently
from tuneplane.registry.refresh import check_trust, may_publish
from tuneplane.registry.trust import doubts, expected

SCHEMA = 1
REGISTER, REPLACE, RETIRE, UNDO = "register", "replace", "retire", "undo"


@dataclass(frozen=True)
class Shelf:
    """What one record says. current: artifacts in force by slot; before: the record that an undo goes back to, 0 for
    an empty shelf; slot: the one that was changed; at: seconds since the epoch.
    """

    runtime_id: str
    serial: int
    nonce: str
    action: str
    slot: str
    at: int
    by: str
    before: int
    current: dict[str, Artifact]


Change = Callable[["Shelf | None"], "tuple[str, str, Mapping[str, Artifact], int]"]
"""The newest record → action, slot, what is in force then, and where an undo of it goes. Raises to refuse."""


def newest(registry: Registry, runtime_id: str) -> Shelf | None:
    """What is in force for a runtime id, None when nothing was ever registered. Raises LockError."""
    if not RUNTIME_ID.match(runtime_id):
        return None
    number = patiently(lambda: _last(registry, runtime_id), f"the images of {runtime_id}", 0)
    if number is None:
        return None
    found = _certain(registry, runtime_id, number)
    while following := _there(registry, runtime_id, found.serial + 1):
        found = following
    return found


def history(registry: Registry, runtime_id: str) -> list[Shelf]:
    """All records of a runtime id, the newest first. Raises LockError."""
    last = newest(registry, runtime_id)
    earlier = range(last.serial - 1, 0, -1) if last else ()
    return [*([last] if last else []), *(_certain(registry, runtime_id, number) for number in earlier)]


def record(registry: Registry, runtime_id: str, number: int) -> Shelf | None:
    """One record, None when there is none of that number. Raises LockError when it cannot be read."""
    return _there(registry, runtime_id, number) if RUNTIME_ID.match(runtime_id) else None


def runtime_ids(registry: Registry) -> list[str]:
    """Every runtime id that has records."""
    with suppress(OSError):
        return sorted(name for name in os.listdir(registry.artifacts) if RUNTIME_ID.match(name))
    return []


def change(registry: Registry, runtime_id: str, decide: Change) -> Shelf:
    """Add a record. Raises what `decide` raises, LockError when the registry cannot be written or trusted."""
    may_publish(registry)
    # who is refused leaves no folder behind
    _next(newest(registry, runtime_id), runtime_id, decide)
    make_folders(registry)
    check_trust(registry)
    turns = 0
    while True:
        made = _next(newest(registry, runtime_id), runtime_id, decide)
        try:
            make_folder(registry.artifacts / runtime_id, registry.folder_mode, registry.gid)
            found = _claim(registry, made)
        except FileNotFoundError as error:
            # another's folder took the place of the empty one that this one was about to fill
            turns += 1
            if turns == TURNS:
                raise cannot_write(registry, error) from None
            continue
        except OSError as error:
            raise cannot_write(registry, error) from None
        if found.nonce == made.nonce:
            return made


def _claim(registry: Registry, made: Shelf) -> Shelf:
    """What the record says in the end, this one or a rival's. Raises OSError when there is none."""
    data = json.dumps({"schema": SCHEMA, **asdict(made)}, indent=2, ensure_ascii=True) + "\n"
    return create(
        _place(registry, made.runtime_id, made.serial),
        data.encode(),
        made.nonce,
        registry.folder_mode,
        lambda: _certain(registry, made.runtime_id, made.serial),
    )


def _next(last: Shelf | None, runtime_id: str, decide: Change) -> Shelf:
    action, slot, current, before = decide(last)
    serial = last.serial + 1 if last else FIRST
    if serial > LAST:
        raise LockError.of(f"{runtime_id} has used up its records")
    nonce, now = secrets.token_hex(16), int(time.time())
    return Shelf(runtime_id, serial, nonce, action, slot, now, person.signature(), before, dict(current))


def may_put(registry: Registry, runtime_id: str, slot: str, *, replace: bool = False) -> None:
    """Raises what `put` would raise, as far as it is known before the image is read."""
    may_publish(registry)
    make_folders(registry)
    check_trust(registry)
    _check_free(newest(registry, runtime_id), runtime_id, slot, replace)


def _check_free(last: Shelf | None, runtime_id: str, slot: str, replace: bool) -> Artifact | None:
    """The image that is replaced, None for an empty slot. Raises ImageError when it is not to be."""
    held = last.current.get(slot) if last else None
    if held is not None and not replace:
        what = f"{runtime_id} has a {slot} image already: {shown(held.path, 300)}"
        raise ImageError.of(what, hint="the same with --replace; `tp runtime undo` takes it back")
    return held


def put(registry: Registry, artifact: Artifact, *, replace: bool = False) -> Shelf:
    """Register an image. Raises ImageError when its slot holds another one, unless it is to be replaced."""

    def decide(last: Shelf | None) -> tuple[str, str, Mapping[str, Artifact], int]:
        current = last.current if last else {}
        held = _check_free(last, artifact.runtime_id, artifact.slot, replace)
        action = REGISTER if held is None else REPLACE
        return action, artifact.slot, {**current, artifact.slot: artifact}, last.serial if last else 0

    return change(registry, artifact.runtime_id, decide)


def retire(registry: Registry, runtime_id: str, slot: str) -> Shelf:
    """Take an image out of use; its file stays. Raises ImageError when there is none in that slot."""

    def decide(last: Shelf | None) -> tuple[str, str, Mapping[str, Artifact], int]:
        if last is None or slot not in last.current:
            raise ImageError.of(f"{runtime_id} has no {slot} image")
        rest = {key: value for key, value in last.current.items() if key != slot}
        return RETIRE, slot, rest, last.serial

    return change(registry, runtime_id, decide)


def undo(registry: Registry, runtime_id: str) -> Shelf:
    """Take back the last change; again, the one before it. Raises ImageError when there is none."""

    def decide(last: Shelf | None) -> tuple[str, str, Mapping[str, Artifact], int]:
        if last is None or (last.before == 0 and not last.current):
            raise ImageError.of(f"{runtime_id} has no change that could be undone")
        then = _certain(registry, runtime_id, last.before) if last.before else None
        current = then.current if then else {}
        # an undo of an undo changes another slot than that one did
        slots = [slot for slot in {**last.current, **current} if last.current.get(slot) != current.get(slot)]
        return UNDO, slots[0] if slots else last.slot, current, then.before if then else 0

    return change(registry, runtime_id, decide)


def _place(registry: Registry, runtime_id: str, number: int) -> Path:
    return registry.artifacts / runtime_id / f"{number:08d}.json"


def _last(registry: Registry, runtime_id: str) -> int | None:
    folder = registry.artifacts / runtime_id
    try:
        names = os.listdir(folder)
        status = folder.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise LockError.of(f"{shown(str(folder), 300)} is a symbolic link", expected="the folder itself")
    for what in doubts(status, registry.uids, registry.gid) if registry.uids is not None else ():
        raise LockError.of(f"{shown(str(folder), 300)} {what}", expected=expected(registry))
    return max((int(m.group(1)) for name in names if (m := SERIAL_NAME.match(name))), default=None)


def _there(registry: Registry, runtime_id: str, number: int) -> Shelf | None:
    def read() -> Shelf | None:
        try:
            return _read(registry, runtime_id, number)
        except FileNotFoundError:
            return None

    return patiently(read, f"record {number} of {runtime_id}")


def _certain(registry: Registry, runtime_id: str, number: int) -> Shelf:
    return patiently(lambda: _read(registry, runtime_id, number), f"record {number} of {runtime_id}")


def _read(registry: Registry, runtime_id: str, number: int) -> Shelf:
    """Raises FileNotFoundError when there is none, Unsettled when it is not whole, LockError when it is not believed."""
    data = believed(registry, _place(registry, runtime_id, number))
    try:
        fields: dict[str, Any] = json.loads(data)
        made = Shelf(
            runtime_id=str(fields["runtime_id"]),
            serial=int(fields["serial"]),
            nonce=str(fields["nonce"]),
            action=str(fields["action"]),
            slot=str(fields["slot"]),
            at=int(fields["at"]),
            by=str(fields["by"]),
            before=int(fields["before"]),
            current={str(slot): from_json(item) for slot, item in fields["current"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unsettled("it is not whole") from None
    if (made.runtime_id, made.serial) != (runtime_id, number):
        raise Unsettled(f"it says that it is record {made.serial} of {shown(made.runtime_id)}")
    return made
