"""The numeric IPv4 address under which the other nodes reach this one, and the interface that has it."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import os
import socket
import struct
import threading
from typing import List, Optional, Tuple

# From linux/sockios.h and linux/if.h; the size is that of `struct ifreq` where pointers have 64 bits.
SIOCGIFCONF = 0x8912
SIOCGIFFLAGS = 0x8913
SIOCGIFADDR = 0x8915
IFF_UP = 1
IFREQ_BYTES = 40
MOST_ADDRESSES = 1024

# A name server that does not answer must not hold the job.
LOOKUP_SECONDS = 5.0


class NoAddress(Exception):
    """This host has no address that the other nodes could use; the text says what was tried."""


def own_address(nodes: int, interface: Optional[str]) -> str:
    """The address to tell the others. Raises NoAddress: for more than one node never a guess of localhost.

    An interface that was asked for is taken as it is. Otherwise an address of the host's name that is up
    on this host, otherwise the first up interface that is not loopback.
    """
    if nodes == 1:
        return "127.0.0.1"
    if interface is not None:
        address = interface_address(interface)
        if address is None:
            raise NoAddress(f"the interface `{interface}` is not up or has no IPv4 address; {_interfaces()}")
        return address
    candidates = _of_host_name() + [interface_address(name) for name in _interface_names()]
    for candidate in candidates:
        if candidate is not None and _is_usable(candidate):
            return candidate
    raise NoAddress(f"this host has no IPv4 address that other nodes can reach; {_interfaces()}")


head_address = own_address


def interface_of(address: str) -> Optional[str]:
    """The name of the interface that has this IPv4 address, or None: a further address may have a name like `eth0:1`."""
    return next((name for name, held in _addresses() if held == address), None)


def interface_address(name: str) -> Optional[str]:
    """The IPv4 address of an interface that is up, or None."""
    try:
        request = struct.pack("256s", name.encode()[:15])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            flags = struct.unpack_from("h", fcntl.ioctl(handle, SIOCGIFFLAGS, request), 16)[0]
            found = fcntl.ioctl(handle, SIOCGIFADDR, request)[20:24]
    except OSError:
        return None
    return socket.inet_ntoa(found) if flags & IFF_UP else None


def _is_usable(address: str) -> bool:
    """Neither loopback nor link-local, and of this host: a name can resolve to a stale address."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _of_host_name() -> List[Optional[str]]:
    found: List[Optional[str]] = []

    def look_up() -> None:
        try:
            for answer in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM):
                found.append(str(answer[4][0]))
        except OSError:
            return

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(LOOKUP_SECONDS)
    return list(found)


def _interface_names() -> List[str]:
    try:
        return [name for _, name in socket.if_nameindex()]
    except OSError:
        return []


def _addresses() -> List[Tuple[str, str]]:
    """Each interface's name with each IPv4 address that it has."""
    table = array.array("B", bytes(IFREQ_BYTES * MOST_ADDRESSES))
    start, size = table.buffer_info()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            filled = struct.unpack("iP", fcntl.ioctl(handle, SIOCGIFCONF, struct.pack("iP", size, start)))[0]
    except OSError:
        return []
    entries = [table[at : at + IFREQ_BYTES].tobytes() for at in range(0, filled, IFREQ_BYTES)]
    return [(os.fsdecode(entry[:16].split(b"\0")[0]), socket.inet_ntoa(entry[20:24])) for entry in entries]


def _interfaces() -> str:
    names = [f"{name} {interface_address(name) or 'without IPv4'}" for name in _interface_names()]
    return f"interfaces here: {', '.join(names) or 'none'}"
