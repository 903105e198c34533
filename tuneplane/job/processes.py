"""Everything a command started, also what left its session: found through /proc, ended to the last."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Dict, List, Optional, Set, Tuple

# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

try:
    _libc: Optional[ctypes.CDLL] = ctypes.CDLL(None)
except OSError:
    _libc = None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies; without it, only the session is known.

    torch 2.13 starts each worker in a session of its own, so that the death of torchrun leaves them behind.
    """
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Called in a new child: be killed when the supervisor dies, so that no command runs unwatched."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(125)


def reap() -> Dict[int, int]:
    """Collect every child that has ended: its pid and its wait status."""
    ended: Dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def left_of(sessions: Set[int]) -> List[int]:
    """The living processes that descend from this one or belong to one of `sessions`."""
    table = _processes()
    own = os.getpid()
    found = {pid for pid, (_, sid) in table.items() if sid in sessions and pid != own}
    family = {own}
    while True:
        children = {pid for pid, (parent, _) in table.items() if parent in family} - family
        if not children:
            return sorted((found | family) - {own})
        family |= children


def workers_of(launcher: int) -> Dict[int, Dict[str, str]]:
    """The ranks that a launcher started: its children with LOCAL_RANK in their environment, and that environment."""
    found: Dict[int, Dict[str, str]] = {}
    for pid, (parent, _) in _processes().items():
        if parent == launcher:
            environment = _environment(pid)
            if "LOCAL_RANK" in environment:
                found[pid] = environment
    return found


def children_of(parent: int) -> List[int]:
    """The living children of a process."""
    return sorted(pid for pid, (above, _) in _processes().items() if above == parent)


def _environment(pid: int) -> Dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name: value for name, _, value in pairs}


def kill(pids: List[int], number: int) -> None:
    """Send a signal to each; those that are gone or not ours do not matter."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def _processes() -> Dict[int, Tuple[int, int]]:
    """Parent and session of each process that is not a zombie; empty where /proc is not mounted."""
    table: Dict[int, Tuple[int, int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The second field is the program's name in parentheses, which may hold spaces and more of them.
                state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            table[int(name)] = (int(parent), int(session))
    return table
