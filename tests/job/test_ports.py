"""Ports: claims of any width never overlap, whatever else runs on the host."""

from __future__ import annotations

import multiprocessing
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tuneplane.job.team import ports

FLOOR = 32768


@pytest.fixture
def claim() -> Iterator[Any]:
    """Claim, and let go at the end of the test."""
    with ExitStack() as stack:

        def claim(key: str = "job/0", floor: int = FLOOR, count: int = 60) -> ports.Claim:
            held = ports.claim(key, 1, floor, count)
            for guard in held.guards:
                stack.enter_context(guard)
            return held

        yield claim


def let_go(held: ports.Claim) -> int:
    for guard in held.guards:
        guard.close()
    return held.first


@pytest.fixture
def few(claim: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """The first port of four free cells, which are the only ones on this host."""
    first = let_go(claim("few", count=4 * 63))
    monkeypatch.setattr(ports, "LOWEST", first)
    monkeypatch.setattr(ports, "END", first + 256)
    return first


@pytest.mark.parametrize(("count", "cells"), [(0, 1), (60, 1), (63, 1), (64, 2), (300, 5)])
def test_a_claim_has_as_many_cells_as_it_needs(claim: Any, count: int, cells: int) -> None:
    held = claim(count=count)
    guards = [guard.getsockname() for guard in held.guards]
    assert guards == [("0.0.0.0", held.first + 64 * cell) for cell in range(cells)]
    assert held.listener is held.guards[0] and (held.first - ports.LOWEST) % 64 == 0
    assert held.first >= ports.LOWEST and held.last == held.first + 64 * cells - 1 < FLOOR
    assert sorted({*held.ports, *(port for _, port in guards)}) == list(range(held.first, held.last + 1))
    assert len(held.ports) == 63 * cells >= count
    assert all(map(ports.is_free, held.ports)) and not any(ports.is_free(port) for _, port in guards)


def test_the_first_guess_follows_from_the_job(claim: Any) -> None:
    first = let_go(claim("a/0", count=200))
    assert first == let_go(claim("a/0", count=200))
    assert len({let_go(claim(f"a/{attempt}")) for attempt in range(8)}) > 4


def test_claims_of_one_job_on_one_host_are_disjoint(claim: Any) -> None:
    held = [claim("a/0", count=count) for count in (60, 500, 64, 60, 1, 200)]
    taken = [port for one in held for port in range(one.first, one.last + 1)]
    assert len(taken) == len(set(taken))


ROUNDS = 4


def _claimer(seed: int, barrier: Any, answers: Any) -> None:
    """Claim at once with all the others, from the same guess, and let go when all have answered."""
    dice = random.Random(seed)
    for turn in range(ROUNDS):
        count = dice.choice([1, 60, 64, 150, 400])
        barrier.wait(30)
        held = ports.claim("same/0", 1, FLOOR, count)
        answers.put((turn, held.first, held.last))
        barrier.wait(30)
        let_go(held)


def test_claimers_of_different_widths_in_many_processes() -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(12), context.Queue()
    claimers = [context.Process(target=_claimer, args=(seed, barrier, answers)) for seed in range(12)]
    for claimer in claimers:
        claimer.start()
    held = [answers.get(timeout=30) for _ in range(ROUNDS * len(claimers))]
    for claimer in claimers:
        claimer.join()
    taken = [(turn, port) for turn, first, last in held for port in range(first, last + 1)]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize(("taken", "found"), [(0, [64, 128]), (1, [128]), (2, [0]), (3, [0, 64])])
def test_a_taken_guard_is_passed_over(claim: Any, few: int, taken: int, found: list[int]) -> None:
    """Of four cells, the first port of one: where a claim of two can lie."""
    with socket.create_server(("127.0.0.1", few + 64 * taken)):
        places = {let_go(claim(str(key), count=2 * 63)) - few for key in range(12)}
    assert sorted(places) == found


def _bound(family: int, address: str, port: int, reuse: bool, listen: bool) -> socket.socket:
    taken = socket.socket(family)
    if family == socket.AF_INET6:
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if reuse:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((address, port))
    if listen:
        taken.listen()
    return taken


@pytest.mark.parametrize("listen", [True, False])
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_in_use_on_one_address_is_in_use(
    claim: Any, few: int, family: int, address: str, reuse: bool, listen: bool
) -> None:
    try:
        taken = _bound(family, address, few + 40, reuse, listen)
    except OSError:
        pytest.skip(f"this host has no {address}")
    with taken:
        assert not ports.is_free(few + 40) and ports.is_free(few + 41)
        assert claim(count=3 * 63).first == few + 64
        with pytest.raises(ports.NoPorts):
            claim()
    assert ports.is_free(few + 40)


def test_a_port_of_an_outgoing_connection_is_in_use(claim: Any) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as out,
    ):
        assert not ports.is_free(out.getsockname()[1])


@pytest.mark.parametrize(
    ("floor", "count", "offset"),
    [
        (256, 60, 0),  # all of them below the floor
        (64, 60, 0),  # one below
        (127, 60, 0),  # one below, and half of the next
        (64, 126, 64),  # one is too few: inside
        (100, 126, 128),  # the same on the grid of those below
        (63, 252 - 63, 64),  # none below
        (-9000, 252, 0),
    ],
)
def test_below_the_ephemeral_floor_if_there_is_room(
    claim: Any, few: int, floor: int, count: int, offset: int
) -> None:
    held = claim(floor=few + floor, count=count)
    room = range(few, few + max(floor, 0) - 64 + 1, 64)
    assert held.first == few + offset or (held.first in room and held.last < few + floor)


def test_inside_the_ephemeral_range_when_nothing_is_left_below(claim: Any, few: int) -> None:
    assert [claim(floor=few + 128).first < few + 128 for _ in range(4)] == [True, True, False, False]
    with pytest.raises(
        ports.NoPorts, match=f"no 64 consecutive ports are free between {few} and {few + 255}"
    ):
        claim(floor=few + 128)


def test_no_claim_is_wider_than_the_ports_there_are(claim: Any) -> None:
    with pytest.raises(ports.NoPorts):
        claim(count=60000)


def test_free_ports_of_a_claim(claim: Any) -> None:
    held = claim(count=64)
    assert [ports.free_port(held, skip) for skip in (0, 62, 63)] == [
        held.first + 1,
        held.first + 63,
        held.first + 65,
    ]
    with socket.create_server(("127.0.0.1", held.first + 1)):
        assert ports.free_port(held) == held.first + 2
    with pytest.raises(ports.NoPorts, match=f"no port is left between {held.first} and {held.last}"):
        ports.free_port(held, skip=126)


def test_a_failed_claim_leaves_nothing_held(claim: Any, few: int) -> None:
    with socket.create_server(("127.0.0.1", few + 255)), pytest.raises(ports.NoPorts):
        claim(count=252)
    assert claim(count=252).first == few


def test_the_floor_of_this_host() -> None:
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        assert ports.ephemeral_floor() == int(file.read().split()[0])
