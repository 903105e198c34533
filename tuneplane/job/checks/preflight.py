"""What must be right on a node before it joins the others: each check bounded in time, the first problem in words."""

from __future__ import annotations

import math
import os
import resource
import secrets
import socket
import threading
import time
from typing import Callable, List, Mapping, NamedTuple, Optional, Tuple

from tuneplane.job.checks import gpus

CANARY = "canary"
# A filesystem that remembers may show the canary late; one that hangs must not hang the job.
CANARY_SECONDS = 5.0
FILES_SECONDS = 20.0
GPUS_SECONDS = gpus.TOOL_SECONDS + 5.0
LOOKUP_SECONDS = 5.0

Check = Tuple[str, Callable[[], Optional[str]]]


class Needs(NamedTuple):
    """What the job needs on each node; 0 and "" mean unchecked.

    scratch, shared_memory, run: least free bytes in $TMPDIR and /tmp, in /dev/shm, in the run folder; inodes: least
    free files in $TMPDIR, /tmp and the run folder; memlock: `unlimited` or bytes; gpus: exact count, as `gpu_count`
    (visible, devices, tool, none) finds them for `gpu_vendor` (nvidia, amd, none).
    """

    scratch: int = 0
    shared_memory: int = 0
    run: int = 0
    inodes: int = 0
    memlock: str = ""
    gpus: int = 0
    gpu_count: str = "none"
    gpu_vendor: str = "none"


class Host(NamedTuple):
    """Where things are on this host."""

    name: str
    environment: Mapping[str, str]
    tmp: str = "/tmp"
    shared_memory: str = "/dev/shm"
    devices: str = "/dev"


def this_host() -> Host:
    """The host that this process runs on."""
    return Host(socket.gethostname(), os.environ)


def first_problem(
    needs: Needs,
    attempt_folder: str,
    run_id: str,
    attempt: str,
    nodes: int,
    host: Optional[Host] = None,
    seconds: float = FILES_SECONDS,
) -> Optional[str]:
    """The first thing that is wrong, in one sentence, or None. Each filesystem has `seconds` for all its checks."""
    host = host or this_host()
    folder = attempt_folder
    shared = [
        (f"reading `{CANARY}` in `{folder}`", lambda: _canary(folder, f"{run_id} {attempt}", nodes)),
        (f"writing to `{folder}`", lambda: _round_trip(folder)),
        *_space("the run folder", folder, needs.run, needs.inodes),
    ]
    problem = within(seconds, shared) or within(seconds, _node_space(needs, host)) or _memlock(needs.memlock)
    if problem is None:
        problem = within(GPUS_SECONDS, [("counting the GPUs", lambda: _gpus(needs, host))])
    if problem is None and nodes > 1:
        problem = _name(host.name)
    return problem


def within(seconds: float, checks: List[Check]) -> Optional[str]:
    """Do the checks in order, in a thread that is left behind when they take longer than `seconds` in all."""
    doing = [name for name, _ in checks[:1]]
    found: List[Optional[str]] = []

    def work() -> None:
        problem: Optional[str] = None
        for name, check in checks:
            doing.append(name)
            try:
                problem = check()
            except Exception as error:
                problem = f"{name} failed: {error!r}"
            if problem is not None:
                break
        found.append(problem)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else f"{doing[-1]} gave no answer within {seconds:g} s"


def _canary(folder: str, expected: str, nodes: int) -> Optional[str]:
    """Whether this node sees what the job wrote into the shared folder before it started the nodes.

    The folder is listed, since a lookup that failed is remembered by network filesystems. One node may have no
    canary: whoever starts it writes into the folder it runs in.
    """
    until = time.monotonic() + CANARY_SECONDS
    while True:
        problem = _look_for_canary(folder, expected, nodes)
        if problem is None or time.monotonic() > until:
            return problem
        time.sleep(0.2)


def _look_for_canary(folder: str, expected: str, nodes: int) -> Optional[str]:
    try:
        if CANARY in os.listdir(folder):
            with open(os.path.join(folder, CANARY), encoding="utf-8", errors="backslashreplace") as file:
                seen = file.readline(100).rstrip("\n")
        elif nodes == 1:
            return None
        else:
            return f"this node does not share `{folder}` with the job: it shows no file `{CANARY}` there"
    except OSError as error:
        return f"cannot read `{CANARY}` in `{folder}`: {error.strerror}"
    if seen == expected:
        return None
    return (
        f"this node does not share `{folder}` with the job: `{CANARY}` there says `{seen}`, not `{expected}`"
    )


def _round_trip(folder: str) -> Optional[str]:
    """Write a file of our own, read it back, remove it."""
    path, content = os.path.join(folder, f".preflight.{secrets.token_hex(8)}"), secrets.token_hex(32)
    try:
        try:
            with open(path, "x", encoding="ascii") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with open(path, encoding="ascii") as file:
                same = file.read() == content
        finally:
            if os.path.lexists(path):
                os.unlink(path)
    except (OSError, ValueError) as error:
        return f"cannot write to `{folder}` and read it back: {getattr(error, 'strerror', None) or error}"
    return None if same else f"what was written to `{folder}` reads back as something else"


def _node_space(needs: Needs, host: Host) -> List[Check]:
    named = host.environment.get("TMPDIR", "")
    checks = _space("TMPDIR", named, needs.scratch, needs.inodes) if named not in ("", host.tmp) else []
    checks += _space("", host.tmp, needs.scratch, needs.inodes)
    return checks + _space("", host.shared_memory, needs.shared_memory, 0)


def _space(what: str, folder: str, size: int, inodes: int) -> List[Check]:
    """The check of one filesystem; `what` is said beside the folder's name."""
    where = f"{what} `{folder}`" if what else folder

    def check() -> Optional[str]:
        try:
            found = os.statvfs(folder)
        except OSError as error:
            return f"the free space of {where} cannot be told: {error.strerror}"
        # Some filesystems count neither blocks nor files.
        free = found.f_bavail * found.f_frsize
        if found.f_blocks and free < size:
            return f"{where} has {readable(free)} free, {readable(size, up=True)} are needed"
        if found.f_files and found.f_favail < inodes:
            return f"{where} has {found.f_favail} free inodes, {inodes} are needed"
        return None

    return [(f"looking for free space in {where}", check)] if size or inodes else []


def _memlock(wanted: str) -> Optional[str]:
    if not wanted:
        return None
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY or (wanted != "unlimited" and limit >= int(wanted)):
        return None
    needed = wanted if wanted == "unlimited" else readable(int(wanted), up=True)
    return f"the limit of locked memory (`ulimit -l`) is {readable(limit)}, {needed} is needed"


def _gpus(needs: Needs, host: Host) -> Optional[str]:
    wanted, vendor = needs.gpus, needs.gpu_vendor
    if wanted == 0 or vendor not in gpus.VARIABLES:
        return None
    if needs.gpu_count == "visible":
        return gpus.visible_problem(wanted, vendor, host.environment, host.devices)
    if needs.gpu_count == "devices":
        return gpus.devices_problem(wanted, vendor, host.devices)
    return gpus.tool_problem(wanted, vendor, host.environment) if needs.gpu_count == "tool" else None


def _name(name: str) -> Optional[str]:
    def look_up() -> Optional[str]:
        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            return f"the name `{name}` of this host does not resolve: {why}, so gloo and others cannot start"
        return None

    return within(LOOKUP_SECONDS, [(f"looking up the name `{name}` of this host", look_up)])


def readable(size: int, up: bool = False) -> str:
    """Bytes in a unit that suits: rounded down, or `up` for what is needed, so that both never look the same."""
    unit = min(4, max(0, (size.bit_length() - 1) // 10))
    value = size / 1024**unit
    step = 10 if unit and value < 10 else 1
    rounded = (math.ceil if up else math.floor)(value * step) / step
    return f"{rounded:g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"
