"""Whether a registry says what its publishers wrote: nobody else can have changed it.

Trusted is what root or a named user owns and nobody else may write; a named group may write to folders. That must hold
for every folder from `/` down, and for those that a link on the way leads through: who can rename one of them can put
another registry in its place. In a sticky folder of root's, such as /tmp, only the owner can.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from tuneplane.errors import LockError, Problem, shown
from tuneplane.registry.layout import Registry

_MOST_LINKS = 40


def check_there(registry: Registry) -> None:
    """Raises LockError when the registry's folder does not exist."""
    try:
        os.stat(registry.root)
    except FileNotFoundError:
        where = shown(str(registry.root), 300)
        raise LockError.of(f"the registry {where} does not exist", hint="tp catalog refresh") from None
    except OSError:
        # told by whoever reads it
        return


def check(registry: Registry) -> None:
    """Raises LockError naming every place that somebody else could have changed."""
    problems = list(_faults(registry))
    if problems:
        raise LockError(*problems)


def _faults(registry: Registry) -> Iterator[Problem]:
    final, seen = os.path.realpath(registry.root), set()
    try:
        for place, status in _walked(Path(os.path.abspath(registry.root))):
            if place not in seen:
                seen.add(place)
                # in the registry itself whoever may create files may publish, sticky or not
                if str(place) == final or not (status.st_uid == 0 and status.st_mode & stat.S_ISVTX):
                    yield from _problems(place, status, registry)
    except OSError as error:
        yield Problem(f"cannot look at {shown(str(error.filename), 300)}: {error.strerror}")
    for place in (
        registry.serials,
        registry.catalogs,
        registry.artifacts,
        registry.current,
        registry.checked,
    ):
        try:
            status = place.lstat()
        except OSError:
            continue
        if stat.S_ISLNK(status.st_mode):
            yield Problem(
                f"{shown(str(place), 300)} is a symbolic link", expected="the file or folder itself"
            )
        else:
            yield from _problems(place, status, registry)


def _problems(place: Path, status: os.stat_result, registry: Registry) -> Iterator[Problem]:
    for what in doubts(status, registry.uids or (), registry.gid):
        yield Problem(f"{shown(str(place), 300)} {what}", expected=expected(registry))


def expected(registry: Registry) -> str:
    """Whom a registry is believed from."""
    others = "".join(f" or uid {uid}" for uid in sorted(set(registry.uids or ()) - {0}))
    group = "" if registry.gid is None else f" but gid {registry.gid}"
    return f"owned by root{others}, and writable by nobody else{group}"


def _walked(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and link that is passed from `/` to `path`. Raises OSError."""
    here, rest, links = Path("/"), [*path.parts[1:]], 0
    yield here, here.lstat()
    while rest:
        step = rest.pop(0)
        if step == "..":
            here = here.parent
            continue
        status = (here / step).lstat()
        yield here / step, status
        if not stat.S_ISLNK(status.st_mode):
            here = here / step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(here / step))
        target = Path(os.readlink(here / step))
        if target.is_absolute():
            here, rest = Path("/"), [*target.parts[1:], *rest]
        else:
            rest = [*target.parts, *rest]


def doubts(status: os.stat_result, uids: Collection[int], gid: int | None) -> Iterator[str]:
    """Why a file, folder or link with this status could have been changed by somebody else."""
    if status.st_uid not in uids:
        yield f"belongs to uid {status.st_uid}"
    if stat.S_ISLNK(status.st_mode):
        return
    if status.st_mode & stat.S_IWOTH:
        yield "is writable by everybody"
    if status.st_mode & stat.S_IWGRP and status.st_gid != gid:
        yield f"is writable by gid {status.st_gid}"
