"""A publisher or a reader on a host: `publisher.py ROLE REGISTRY MEETING ME ROUNDS`, told apart by ME, 0 or 1.

MEETING is a folder in which the two publishers meet before each claim; it is not on the filesystem under test. Prints what
it made or read as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

PATIENCE = 120


def meet(meeting: Path, word: str, me: int) -> None:
    """Come back once the other has come to the same word."""
    (meeting / f"{word}-{me}").touch()
    other, deadline = meeting / f"{word}-{1 - me}", time.monotonic() + PATIENCE
    while not other.exists():
        assert time.monotonic() < deadline, f"nobody else came to {word}"
        time.sleep(0.0005)


def publisher(root: Path, meeting: Path, me: int, rounds: int) -> dict[str, Any]:
    """Publish once a round, on top of the same serial as the other; at once or one a little later than the other."""
    from registry.shelves import content

    from tuneplane.registry.layout import Registry
    from tuneplane.registry.refresh import refresh

    real, turn, waiting = os.link, 0, True

    def link(source: Any, target: Any) -> None:
        nonlocal waiting
        if waiting:
            waiting = False
            meet(meeting, f"claim-{turn}", me)
            time.sleep(0.02 if turn % 3 == me else 0)
        try:
            real(source, target)
        except OSError as error:
            refusals.add(error.strerror or "")
            raise

    os.link = link  # type: ignore[assignment]
    refusals: set[str] = set()
    made = []
    for turn in range(rounds):
        waiting = True
        outcome = refresh(Registry(root), content(f"{me}-{turn}", 1))
        assert outcome.made
        made.append([f"{me}-{turn}", outcome.publication.serial, outcome.publication.nonce])
        meet(meeting, f"round-{turn}", me)
    (meeting / f"done-{me}").touch()
    return {"made": made, "refusals": sorted(refusals)}


def reader(root: Path, meeting: Path, me: int, rounds: int) -> dict[str, Any]:
    """Read all the time, until both publishers are through; what is read is whole and never older than before."""
    from registry.shelves import word_of

    from tuneplane.registry.layout import Registry
    from tuneplane.registry.reading import newest

    reads, last, registry = 0, 0, Registry(root)
    while not all((meeting / f"done-{one}").exists() for one in (0, 1)):
        made = newest(registry)
        if made is not None:
            assert made.serial >= last, (made.serial, last)
            word_of(registry, made)
            reads, last = reads + 1, made.serial
    return {"reads": reads, "last": last}


def holder(root: Path, meeting: Path, me: int, rounds: int) -> dict[str, Any]:
    """Take the lock as a publisher does and keep it until the other has it, too, or has been refused."""
    from tuneplane.registry.courtesy import courtesy
    from tuneplane.registry.layout import Registry

    with courtesy(Registry(root)) as note:
        meet(meeting, "lock", me)
        return {"note": note}


if __name__ == "__main__":
    act = {"publisher": publisher, "reader": reader, "holder": holder}[sys.argv[1]]
    print(json.dumps(act(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))))
