"""Starter files under another publication: they are the user's, so an edited one is never touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneplane.experiment.carrying import digest_of
from tuneplane.experiment.difference import Starter
from tuneplane.experiment.journal import Write
from tuneplane.files import ABSENT, OTHER, sha256


@dataclass(frozen=True)
class Move:
    """One thing that an upgrade does to a file, or leaves. line: 0 for the file as a whole."""

    file: str
    how: str
    what: str = ""
    line: int = 0


def starter_moves(
    folder: Path, new: Mapping[str, tuple[bytes, bool]], known: Sequence[Starter] | None
) -> tuple[list[Move], list[Write]]:
    """What becomes of each file of the new starter.

    known: the starters that were published with the recipe the experiment was made from; a file equal to one of theirs
    is unchanged. None when nobody knows: then every file that differs counts as edited.
    """
    moves, writes = [], []
    for path, (data, runs) in sorted(new.items()):
        earlier = {starter[path][0] for starter in known or () if path in starter}
        for move, write in _file(folder, path, data, runs, earlier):
            moves.append(move)
            writes += [write] if write else []
    moves += [
        Move(path, "left", "it is no longer part of the starter")
        for path in sorted(known[0] if known else ())
        if path not in new and digest_of(folder, path) != ABSENT
    ]
    return moves, writes


def _file(
    folder: Path, path: str, data: bytes, runs: bool, earlier: set[str]
) -> Iterator[tuple[Move, Write | None]]:
    """What is done with one file; nothing when it is the new one already, or the starter has not changed."""
    there, digest = digest_of(folder, path), sha256(data)
    if there == digest:
        return
    if there == ABSENT:
        # one that was in the starter before and is gone was removed by the user
        if not earlier:
            yield Move(path, "added"), Write(path, ABSENT, data, _mode(None, runs))
        return
    if there in earlier:
        mode = stat.S_IMODE(os.lstat(folder / path).st_mode)
        yield Move(path, "replaced", "it had not been edited"), Write(path, there, data, _mode(mode, runs))
        return
    if digest in earlier:
        return
    beside = _beside(folder, path, digest, earlier)
    if beside is None:
        yield Move(path, "left", "something else is in the way of the new one"), None
        return
    taken = "it was edited" if earlier else "it is not the starter's"
    name, exists = beside
    write = None if exists == digest else Write(name, exists, data, _mode(None, runs))
    yield Move(path, "left", f"{taken}; the new one is {name}"), write


def _beside(folder: Path, path: str, digest: str, earlier: set[str]) -> tuple[str, str] | None:
    """A name for the new file beside the user's, and what is there now: nothing, or a starter file put there before."""
    for name in (f"{path}.new", *(f"{path}.new.{i}" for i in range(2, 100))):
        there = digest_of(folder, name)
        if there in (ABSENT, digest, *earlier):
            return name, there
        if there == OTHER and not os.path.lexists(folder / name):
            return None
    return None


def _mode(now: int | None, runs: bool) -> int:
    """The mode of a file in place of one with mode `now`; that of `tp new` for one that is not there yet."""
    if now is None:
        return 0o755 if runs else 0o644
    return now | (now & 0o444) >> 2 if runs else now & ~0o111
