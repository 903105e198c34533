"""Processes told apart from later ones that got the same number."""

from __future__ import annotations

import os


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot (proc(5), field 22); None when there is no such process
    or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def boot_id() -> str:
    """The kernel's name for this boot: process numbers mean nothing in another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def identity(pid: int) -> dict[str, object]:
    """What tells the process from any other, on this host or another."""
    return {"pid": pid, "ticks": start_ticks(pid), "host": os.uname().nodename, "boot": boot_id()}


def alive(who: dict[str, object]) -> bool | None:
    """Whether the process of `identity` lives; None when it belongs to another host, which cannot be told here."""
    pid = who.get("pid")
    if who.get("host") != os.uname().nodename:
        return None
    if not isinstance(pid, int) or who.get("boot") != boot_id():
        return False
    ticks = start_ticks(pid)
    return ticks is not None and ticks == who.get("ticks")
