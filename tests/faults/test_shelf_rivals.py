"""Admins that meet at one runtime id: each record has one writer, nothing is lost, and no reader sees a mixture."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from faults.rivals import FORK, WAIT, WAYS, Gate, lie
from registry.images import ID, artifact, rows, words
from registry.shelves import strangers

from tuneplane.errors import ImageError
from tuneplane.registry.layout import Registry
from tuneplane.registry.shelf import newest, put, retire, undo

SIF, SQSH = "sif-x86_64", "sqsh-x86_64"
ROUNDS = 50
Made = list[tuple[int, str, int, str]]
"""(round, what was put, its record, nonce) of all that was reported as done; a refusal has number 0."""


def put_over(me: int, registry: Registry, turn: int) -> Any:
    """The same slot of the same id."""
    return put(registry, artifact("ab"[me] + str(turn)), replace=True)


def put_beside(me: int, registry: Registry, turn: int) -> Any:
    """Another slot of a new id."""
    return put(registry, artifact("ab"[me], runtime_id=f"toy-{turn}", format=("sif", "sqsh")[me]))


def put_first(me: int, registry: Registry, turn: int) -> Any:
    """The same slot of a new id, which only one can have."""
    return put(registry, artifact("ab"[me], runtime_id=f"toy-{turn}"))


def race(registry: Registry, way: str, act: Any, rounds: int) -> Made:
    gates = [Gate() for _ in range(rounds)]
    results = FORK.Queue()
    workers = [FORK.Process(target=_race, args=(me, registry, way, act, gates, results)) for me in range(2)]
    for worker in workers:
        worker.start()
    made: Made = []
    for _ in workers:
        found = results.get(timeout=600)
        assert not isinstance(found, str), found
        made += found
    for worker in workers:
        worker.join(WAIT)
    return sorted(made)


def _race(me: int, registry: Registry, way: str, act: Any, gates: list[Gate], results: Any) -> None:
    made: Made = []
    turn, passed = 0, False

    def gate(claim: Any) -> None:
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
            try:
                shelf = act(me, registry, turn)
                made.append((turn, "ab"[me], shelf.serial, shelf.nonce))
            except ImageError:
                made.append((turn, "ab"[me], 0, ""))
            gates[turn].both.wait(WAIT)
        results.put(made)
    except BaseException:
        results.put(traceback.format_exc())


def first(turn: int) -> str:
    return "ab"[turn % 2]


def hold_over(registry: Registry, way: str, rounds: int) -> None:
    made = race(registry, way, put_over, rounds)
    found = rows(registry)
    assert len(made) == len(found) == 2 * rounds
    assert {number: nonce for _, _, number, nonce in made} == {shelf.serial: shelf.nonce for shelf in found}
    assert {f"{word}{turn}": number for turn, word, number, _ in made} == {
        words(shelf)[SIF]: shelf.serial for shelf in found
    }
    # each round has the two next records, and whoever was let go first has the first of them
    for turn in range(rounds):
        assert words(found[2 * turn])[SIF] == f"{first(turn)}{turn}"
    assert strangers(registry) == []


@pytest.mark.parametrize("way", WAYS)
def test_two_admins_between_read_and_claim(tmp_path: Path, way: str) -> None:
    """Both have read the same newest record; they are let go in either order."""
    registry = Registry(tmp_path / "registry")
    hold_over(registry, way, ROUNDS if way == "links" else 10)
    assert (registry.artifacts / ID / "00000001.json").is_dir() == (way == "folders")


@pytest.mark.parametrize("way", ["links", "folders"])
def test_two_slots_at_once(tmp_path: Path, way: str) -> None:
    """The loser adds its image to the winner's, and takes none of it away."""
    registry, rounds = Registry(tmp_path / "registry"), 15
    made = race(registry, way, put_beside, rounds)
    assert sorted(number for _, _, number, _ in made) == sorted([1, 2] * rounds)
    for turn in range(rounds):
        one, both = rows(registry, f"toy-{turn}")
        assert list(words(one).values()) == [first(turn)] and words(both) == {SIF: "a", SQSH: "b"}
    assert strangers(registry) == []


@pytest.mark.parametrize("way", ["links", "contrary"])
def test_one_slot_is_had_by_one(tmp_path: Path, way: str) -> None:
    """The loser finds it taken, as if it had come later."""
    registry, rounds = Registry(tmp_path / "registry"), 15
    made = race(registry, way, put_first, rounds)
    for turn in range(rounds):
        (only,) = rows(registry, f"toy-{turn}")
        assert words(only) == {SIF: first(turn)}
        assert {word: number for t, word, number, _ in made if t == turn} == {
            first(turn): 1,
            first(turn + 1): 0,
        }
    assert strangers(registry) == []


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_two_admins_between_read_and_claim_for_long(tmp_path: Path, way: str) -> None:
    hold_over(Registry(tmp_path / "registry"), way, 200)


# --- as fast as they go ---


def _put(registry: Registry, made: Any) -> None:
    put(registry, made, replace=True)


def _admin(me: int, registry: Registry, until: float, results: Any) -> None:
    try:
        lie("denied", lambda claim: claim())
        made = refused = 0
        while not made or time.monotonic() < until:
            word = "ab"[me] + str(made)
            for act, *more in (
                (_put, artifact(word)),
                (_put, artifact(word, format="sqsh")),
                (undo, ID),
                (retire, ID, SIF),
            ):
                try:
                    act(registry, *more)  # type: ignore[operator]
                    made += 1
                except ImageError:
                    # the other one has retired it, or taken back all there was
                    refused += 1
        results.put((made, 0, ""))
    except BaseException:
        results.put((0, 0, traceback.format_exc()))


def _reader(registry: Registry, until: float, results: Any) -> None:
    """What is read is whole, and never older than what was read before."""
    try:
        reads, last = 0, 0
        while not reads or time.monotonic() < until:
            shelf = newest(registry, ID)
            if shelf is not None:
                assert shelf.serial >= last, (shelf, last)
                words(shelf)
                last = shelf.serial
            reads += 1
        results.put((0, reads, ""))
    except BaseException:
        results.put((0, 0, traceback.format_exc()))


def storm(registry: Registry, seconds: float, readers: int) -> None:
    results, until = FORK.Queue(), time.monotonic() + seconds
    workers = [FORK.Process(target=_admin, args=(me, registry, until, results)) for me in range(2)]
    workers += [FORK.Process(target=_reader, args=(registry, until, results)) for _ in range(readers)]
    for worker in workers:
        worker.start()
    made = reads = 0
    for _ in workers:
        changes, looks, failure = results.get(timeout=seconds + 120)
        assert not failure, failure
        made, reads = made + changes, reads + looks
    for worker in workers:
        worker.join(60)
    assert len(rows(registry)) == made and reads >= readers and strangers(registry) == []
    print(f"{made} changes, {reads} reads by {readers} readers in {seconds:.0f} s")


def test_no_reader_sees_a_mixture(tmp_path: Path) -> None:
    storm(Registry(tmp_path / "registry"), 1.5, 10)


@pytest.mark.long
def test_no_reader_sees_a_mixture_for_long(tmp_path: Path) -> None:
    storm(Registry(tmp_path / "registry"), 30, 50)
