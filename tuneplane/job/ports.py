"""Ports that two jobs on one node never share: each start claims a range of its own."""

from __future__ import annotations

import hashlib
import socket
from typing import NamedTuple, Optional

WIDTH = 64
LOWEST = 10000


class NoPorts(Exception):
    """No range is free; the text says which were tried."""


class Claim(NamedTuple):
    """A range of ports, held by the listening socket on its first port."""

    listener: socket.socket
    first: int
    last: int


def ephemeral_floor() -> int:
    """The lowest port that the kernel hands out by itself; 32768, Linux's default, where it does not say."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768


def claim(key: str, backlog: int, floor: int) -> Claim:
    """Claim the first wholly free range, starting at one that follows from `key`. Raises NoPorts.

    Ranges lie below `floor`, where no outgoing connection of another program can sit; on hosts whose
    ephemeral ports start so low that no range fits, they lie above it. All starts on a host use the same
    grid, so they only ever meet at a first port, and the socket on it decides.
    """
    low, high = (LOWEST, floor) if floor - LOWEST >= WIDTH else (max(LOWEST, floor), 65536)
    count = (high - low) // WIDTH
    start = int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[:8], "big")
    for step in range(count):
        first = low + (start + step) % count * WIDTH
        listener = _listen(first, backlog)
        if listener is None:
            continue
        if all(_is_free(port) for port in range(first + 1, first + WIDTH)):
            return Claim(listener, first, first + WIDTH - 1)
        listener.close()
    raise NoPorts(f"no {WIDTH} consecutive ports are free between {low} and {high - 1}")


def free_port(held: Claim, skip: int = 0) -> int:
    """The port `skip` places after the first free one above the claim's own. Raises NoPorts."""
    for port in range(held.first + 1, held.last + 1):
        if _is_free(port):
            if not skip:
                return port
            skip -= 1
    raise NoPorts(f"no port is left between {held.first} and {held.last}")


def _listen(port: int, backlog: int) -> Optional[socket.socket]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Every address, so that no program on any one of them can take the port; no SO_REUSEADDR, so that
        # two starts can never both believe they have it.
        listener.bind(("0.0.0.0", port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        return None
    listener.setblocking(False)
    return listener


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier job that linger in TIME_WAIT do not stop a server from using the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
