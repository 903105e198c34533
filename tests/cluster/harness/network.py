"""The networks of the clusters, and what tells a dead run's leftovers from a living cluster.

A cluster is called `tptest0` to `tptest254`. Its bridge lies in a network namespace of its own, `tptest7-net`, so that
neither firewall nor network manager of the machine sees it; making that namespace is the exclusive claim to the name
and the subnet. The alias of the loopback in there says who owns the cluster and where its files are, so
leftovers can be recognised from the kernel's own state. Every host has a namespace `tptest7-HOST`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .tools import HarnessError, locked, remove, say, sh, starttime

NETNS = Path("/run/netns")
_NAME = re.compile(r"(tptest\d{1,3})-[a-z0-9]+")
_LOCK = Path("/run/lock/tuneplane-test-clusters.lock")
KEPT = 0  # the owner of a cluster that stays until someone takes it down


class Claim(NamedTuple):
    """Who owns a cluster (process and its start in ticks; process 0 is nobody: kept) and where its files are."""

    pid: int
    started: int
    state: str

    @property
    def dead(self) -> bool:
        return self.pid != KEPT and starttime(self.pid) != self.started


def cluster_name(subnet: int) -> str:
    return f"tptest{subnet}"


def netns(cluster: str, host: str) -> str:
    return f"{cluster}-{host}"


def claim(state: Path, kept: bool = False) -> int:
    """Take a free subnet for a cluster whose files are in `state`; gives its number. Raises HarnessError."""
    pid = KEPT if kept else os.getpid()
    note = f"{pid} {starttime(pid) or 0} {state}"
    if len(note.encode()) > 255:
        raise HarnessError(
            f"the path {state} is too long for an interface's alias; set TMPDIR to a shorter one"
        )
    with locked(_LOCK):
        for number in range(255):
            name = netns(cluster_name(number), "net")
            if (NETNS / name).exists():
                continue
            sh("ip", "netns", "add", name)
            try:
                sh("ip", "-n", name, "link", "set", "dev", "lo", "alias", note)
                sh("ip", "-n", name, "link", "add", "name", "hub", "type", "bridge")
                sh("ip", "-n", name, "link", "set", "dev", "hub", "up")
            except BaseException:
                clear(name)
                raise
            return number
    raise HarnessError("all 255 subnets are taken")


def read_claim(cluster: str) -> Claim | None:
    """The claim of a cluster; None when it has none (its maker died before it wrote one) or is not there."""
    with suppress(HarnessError, ValueError, KeyError, IndexError):
        alias = json.loads(sh("ip", "-n", netns(cluster, "net"), "-j", "link", "show", "dev", "lo"))[0][
            "ifalias"
        ]
        pid, started, state = alias.split(" ", 2)
        return Claim(int(pid), int(started), state)
    return None


def connect(cluster: str, host: str, address: str) -> None:
    """Make a host's namespace and plug it into the cluster's bridge as `eth0`."""
    own, hub = netns(cluster, host), netns(cluster, "net")
    sh("ip", "netns", "add", own)
    sh("ip", "-n", hub, "link", "add", "name", host, "type", "veth", "peer", "name", "eth0", "netns", own)
    sh("ip", "-n", hub, "link", "set", "dev", host, "master", "hub", "up")
    sh("ip", "-n", own, "addr", "add", f"{address}/24", "dev", "eth0")
    sh("ip", "-n", own, "link", "set", "dev", "eth0", "up")
    sh("ip", "-n", own, "link", "set", "dev", "lo", "up")
    # nobody answers there, but programs learn their own address by asking for the way to a far one
    sh("ip", "-n", own, "route", "add", "default", "via", f"{address.rpartition('.')[0]}.254")


def switch(cluster: str, host: str, state: str) -> None:
    """Set a host's plug `up` or `down`: the host sees its carrier go, its peers see nothing at all."""
    sh("ip", "-n", netns(cluster, "net"), "link", "set", "dev", host, state)


def unplug(cluster: str, host: str) -> None:
    """Take the wire away for good, as the first thing of a sudden death; nothing if it is gone already."""
    with suppress(HarnessError):
        sh("ip", "-n", netns(cluster, "net"), "link", "del", "dev", host)


def clear(name: str) -> None:
    """Kill everything in a network namespace, wait until it is gone, and delete the namespace."""
    if not (NETNS / name).exists():
        return
    deadline = time.monotonic() + 20
    while pids := [int(pid) for pid in sh("ip", "netns", "pids", name).split()]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise HarnessError(f"processes {pids} in {name} do not die")
        time.sleep(0.02)
    sh("ip", "netns", "del", name)


def demolish(cluster: str, state: str | None) -> None:
    """Remove a cluster's hosts, files and networks; the claim goes last, so a run cut short can be repeated."""
    hub = netns(cluster, "net")
    for name in sorted(_names()):
        if name.startswith(f"{cluster}-") and name != hub:
            clear(name)
    if state:
        remove(Path(state))
    clear(hub)


def clusters() -> list[str]:
    """The names of all clusters on the machine, living or left over."""
    return sorted({match[1] for name in _names() if (match := _NAME.fullmatch(name))})


def sweep() -> list[str]:
    """Remove the clusters whose owner is dead; gives their names."""
    removed = []
    with locked(_LOCK):
        for cluster in clusters():
            found = read_claim(cluster)
            if found is None or found.dead:
                say(
                    f"removing {cluster}, left behind by {f'process {found.pid}' if found else 'an unfinished start'}"
                )
                demolish(cluster, found.state if found else None)
                removed.append(cluster)
    return removed


def _names() -> Iterator[str]:
    if NETNS.is_dir():
        yield from (entry.name for entry in NETNS.iterdir())
