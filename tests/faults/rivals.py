"""Two publishers as processes of their own, stopped between their last read and their claim, on lying filesystems."""

from __future__ import annotations

import errno
import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any

from registry.shelves import content

from tuneplane.registry.layout import SERIAL_NAME, Registry
from tuneplane.registry.refresh import refresh

FORK = multiprocessing.get_context("fork")
WAIT = 60
Call = Callable[[Any, Any], None]


class Gate:
    """Lets both publishers come to their claim before the first makes it, and the first finish before the second."""

    def __init__(self) -> None:
        self.both = FORK.Barrier(2)
        self.first_done = FORK.Event()

    def pass_(self, first: bool, claim: Callable[[], None]) -> None:
        self.both.wait(WAIT)
        if not first:
            assert self.first_done.wait(WAIT)
        try:
            claim()
        finally:
            if first:
                self.first_done.set()


def _link(source: Any, target: Any) -> None:
    _LINK(source, target)


def _denying(source: Any, target: Any) -> None:
    """As sshfs: whoever comes too late has no permission, it says."""
    try:
        _LINK(source, target)
    except FileExistsError:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM)) from None


def _contrary(source: Any, target: Any) -> None:
    """The winner is told that it failed, the loser that it won."""
    try:
        _LINK(source, target)
    except FileExistsError:
        return
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _none(source: Any, target: Any) -> None:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


_LINK, _RENAME = os.link, os.rename
WAYS: dict[str, Call] = {"links": _link, "denied": _denying, "contrary": _contrary, "folders": _none}


def _uncounted(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    """A stat by which every file has one name."""

    def stat(*args: Any, **kwargs: Any) -> os.stat_result:
        found = call(*args, **kwargs)
        return os.stat_result((*found[:3], 1, *found[4:]))

    return stat


def lie(way: str, gate: Callable[[Callable[[], None]], None]) -> None:
    """Change this process for good: no lock holds, link counts say nothing, claims go through the gate and one way."""
    import fcntl

    fcntl.flock = lambda *_: None
    os.fsync = lambda _: None  # type: ignore[assignment]
    os.stat, os.lstat, os.fstat = (_uncounted(call) for call in (os.stat, os.lstat, os.fstat))  # type: ignore[misc]
    call = WAYS[way]

    def link(source: Any, target: Any) -> None:
        gate(lambda: call(source, target)) if way != "folders" else call(source, target)

    def rename(source: Any, target: Any, **kwargs: Any) -> None:
        if SERIAL_NAME.match(os.path.basename(os.fspath(target))):
            gate(lambda: _RENAME(source, target))
        else:
            _RENAME(source, target, **kwargs)

    os.link, os.rename = link, rename  # type: ignore[assignment]


def race(registry: Registry, way: str, rounds: int) -> list[tuple[str, int, str]]:
    """Every publication that was reported as made: (content's word, serial, nonce). Each round has both orders' turns."""
    gates = [Gate() for _ in range(rounds)]
    results = FORK.Queue()
    workers = [FORK.Process(target=_race, args=(me, registry, way, gates, results)) for me in range(2)]
    for worker in workers:
        worker.start()
    made: list[tuple[str, int, str]] = []
    for _ in workers:
        found = results.get(timeout=600)
        assert not isinstance(found, str), found
        made += found
    for worker in workers:
        worker.join(WAIT)
    return made


def _race(me: int, registry: Registry, way: str, gates: list[Gate], results: Any) -> None:
    made = []
    turn = 0
    passed = False

    def gate(claim: Callable[[], None]) -> None:
        nonlocal passed
        if passed:
            claim()
            return
        passed = True
        # by turns this process or the other is let go first
        gates[turn].pass_((turn + me) % 2 == 0, claim)

    try:
        lie(way, gate)
        for turn in range(len(gates)):
            passed = False
            word = f"{me}-{turn}"
            outcome = refresh(registry, content(word, 1))
            assert outcome.made, word
            made.append((word, outcome.publication.serial, outcome.publication.nonce))
            # the next round begins when both are through with this one
            gates[turn].both.wait(WAIT)
        results.put(made)
    except BaseException:
        results.put(traceback.format_exc())
