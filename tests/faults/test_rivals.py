"""Publishers that meet: one wins each serial, nothing is lost, and no reader sees a mixture."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from faults.rivals import FORK, WAYS, lie, race
from registry.shelves import DAY, chain, content, read_word, strangers, word_of

from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import newest
from tuneplane.registry.refresh import refresh, rollback
from tuneplane.registry.removal import collect


def hold(registry: Registry, way: str, rounds: int) -> None:
    made = race(registry, way, rounds)
    found = chain(registry)
    assert len(made) == len(found) == 2 * rounds
    assert {serial: nonce for _, serial, nonce in made} == {p.serial: p.nonce for p in found}
    words = {p.serial: word_of(registry, p) for p in found}
    assert {serial: word for word, serial, _ in made} == words
    # each round has the two next serials, and whoever was let go first has the first of them
    for turn in range(rounds):
        first = turn % 2
        assert [words[2 * turn + 1], words[2 * turn + 2]] == [f"{first}-{turn}", f"{1 - first}-{turn}"]
    assert strangers(registry) == []


@pytest.mark.parametrize("way", WAYS)
def test_two_publishers_between_read_and_claim(tmp_path: Path, way: str) -> None:
    """Both have read the same newest serial; they are let go in either order."""
    registry = Registry(tmp_path / "registry")
    hold(registry, way, 60 if way == "links" else 20)
    assert registry.serial(1).is_dir() == (way == "folders")


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_two_publishers_between_read_and_claim_for_long(tmp_path: Path, way: str) -> None:
    hold(Registry(tmp_path / "registry"), way, 200)


def _publisher(me: int, registry: Registry, way: str, until: float, results: Any) -> None:
    """Refreshes, rollbacks and removals, as fast as they go."""
    try:
        lie(way, lambda claim: claim())
        made = 0
        while not made or time.monotonic() < until:
            made += refresh(registry, content(f"{me}-{made % 7}", 3), force=True).made
            if made % 5 == 4:
                made += rollback(registry, None).made
                collect(registry, 60 * DAY)
        results.put(("publisher", made, ""))
    except BaseException:
        results.put(("publisher", 0, traceback.format_exc()))


def _reader(registry: Registry, until: float, results: Any) -> None:
    """What is read must be whole, and never older than what was read before."""
    try:
        reads, last = 0, 0
        while not reads or time.monotonic() < until:
            made = newest(registry)
            assert made is not None and made.serial >= last, (made, last)
            word_of(registry, made)
            reads, last = reads + 1, made.serial
        results.put(("reader", reads, ""))
    except BaseException:
        results.put(("reader", 0, traceback.format_exc()))


def storm(registry: Registry, way: str, seconds: float, readers: int) -> Counter[str]:
    """Two publishers and readers at once; gives how much each kind did."""
    refresh(registry, content("first", 3))
    results, until = FORK.Queue(), time.monotonic() + seconds
    jobs = [(_publisher, (me, registry, way, until, results)) for me in range(2)]
    jobs += [(_reader, (registry, until, results))] * readers  # type: ignore[list-item]
    workers = [FORK.Process(target=act, args=args) for act, args in jobs]
    for worker in workers:
        worker.start()
    done: Counter[str] = Counter()
    for _ in workers:
        kind, count, failure = results.get(timeout=seconds + 120)
        assert not failure, failure
        done[kind] += count
    for worker in workers:
        worker.join(60)
    found = chain(registry)
    assert len(found) == 1 + done["publisher"] + sum(p.action == "gc" for p in found)
    assert {p.action for p in found} >= {"refresh", "rollback"} and strangers(registry) == []
    assert read_word(registry)
    # all readers together: on a busy machine one of fifty may not get a turn
    assert done["reader"] >= readers and done["publisher"] > 0
    print(
        f"{way}: {done['publisher']} publications, {done['reader']} reads by {readers} readers in {seconds:.0f} s"
    )
    return done


def test_no_reader_sees_a_mixture(tmp_path: Path) -> None:
    storm(Registry(tmp_path / "registry"), "denied", 4, 50)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_no_reader_sees_a_mixture_for_long(tmp_path: Path, way: str) -> None:
    storm(Registry(tmp_path / "registry"), way, 30, 50)
