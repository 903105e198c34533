"""Ports that two jobs on one node never share: each start claims cells of a grid that all starts use.

A cell is 64 ports, and who listens on its first port has it. So claims of any width, which hold the first port of
each of their cells, never overlap.
"""

from __future__ import annotations

import errno
import hashlib
import socket
from typing import List, NamedTuple, Optional, Tuple

WIDTH = 64
LOWEST = 10000
END = 65536


class NoPorts(Exception):
    """Nothing is free; the text says what was tried."""


class Claim(NamedTuple):
    """Consecutive cells from port `first` to `last`, held as long as `guards` are open: one on each cell's first port.

    `listener` is the guard of the first cell; `ports` are all the others, free when they were claimed.
    """

    listener: socket.socket
    guards: Tuple[socket.socket, ...]
    first: int
    last: int
    ports: Tuple[int, ...]


class Offer(NamedTuple):
    """What the others know of a node's ports: one that it keeps for what it runs, and the range that it claimed."""

    port: int
    first: int
    last: int


def ephemeral_floor() -> int:
    """The lowest port that the kernel hands out by itself; 32768, Linux's default, where it does not say."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768


def claim(key: str, backlog: int, floor: int, count: int = 60) -> Claim:
    """Claim at least `count` ports in the first free cells, from a guess that follows from `key`. Raises NoPorts.

    Cells below `floor` come first: no outgoing connection of another program can sit there. Where they leave no
    room, cells inside the ephemeral range are tried, and those with a port in use are passed over.
    """
    cells = max(1, -(-count // (WIDTH - 1)))
    guess = int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[:8], "big")
    border = max(0, min(floor, END) - LOWEST)
    below, above = border // WIDTH, -(-border // WIDTH)
    for low, high in ((0, below), (above, (END - LOWEST) // WIDTH)):
        places = high - low - cells + 1
        for step in range(places):
            held = _take(LOWEST + (low + (guess + step) % places) * WIDTH, cells, backlog)
            if held is not None:
                return held
    raise NoPorts(f"no {cells * WIDTH} consecutive ports are free between {LOWEST} and {END - 1}")


def free_port(held: Claim, skip: int = 0) -> int:
    """The port `skip` places after the first free one of the claim's own. Raises NoPorts."""
    for port in held.ports:
        if is_free(port):
            if not skip:
                return port
            skip -= 1
    raise NoPorts(f"no port is left between {held.first} and {held.last}")


def is_free(port: int) -> bool:
    """Whether no program has this TCP port, on any address, with IPv4 or IPv6.

    Without SO_REUSEADDR, so that a program that has bound the port and does not listen yet is seen too. It
    also sees what lingers in TIME_WAIT: then another port is taken, of which there are enough.
    """
    return all(_can_bind(port, family) for family in (socket.AF_INET, socket.AF_INET6))


def _take(first: int, cells: int, backlog: int) -> Optional[Claim]:
    guards: List[socket.socket] = []
    end = first + cells * WIDTH
    starts = range(first, end, WIDTH)
    ports = tuple(port for port in range(first, end) if port not in starts)
    try:
        for start in starts:
            guards.append(_listen(start, backlog if start == first else 1))
        if all(is_free(port) for port in ports):
            return Claim(guards[0], tuple(guards), first, end - 1, ports)
    except OSError:
        pass
    for guard in guards:
        guard.close()
    return None


def _listen(port: int, backlog: int) -> socket.socket:
    """Raises OSError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Every address, so that no program on any one of them can take the port; no SO_REUSEADDR, so that
        # two starts can never both believe they have it.
        listener.bind(("0.0.0.0", port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _can_bind(port: int, family: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
    except OSError as error:
        # Only IPv6 may be missing on a host: there nobody can have the port.
        return family == socket.AF_INET6 and error.errno != errno.EADDRINUSE
    return True
