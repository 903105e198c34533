"""Running programs inside a host: as a chosen user, with a clean environment, from outside its namespaces."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .rootfs import USERS
from .tools import SYSTEM_PATH, HarnessError, starttime, tool

IDS = {"root": 0, **USERS}


class Process(NamedTuple):
    """A process of a host: its number there and on the machine, its parent (on the machine), name and arguments.

    A process that is just starting or ending may show no arguments.
    """

    pid: int
    outer_pid: int
    outer_parent: int
    name: str
    argv: list[str]


class HostProcess(subprocess.Popen[Any]):
    """A program inside a host. Signals go to the program itself, not to the `nsenter` that waits for it."""

    def send_signal(self, sig: int) -> None:
        if self.poll() is not None:
            return
        for pid in children(self.pid) or [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the program and what it has started (all but daemons, which have left the family)."""
        for pid in descendants(self.pid) or [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def children(pid: int) -> list[int]:
    """The direct children of a process of the machine; none when it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    """The children of a process, theirs, and so on: each after its parent."""
    found = children(pid)
    for child in found:
        found += children(child)
    return found


def environment(user: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """The few variables a program starts with, and the caller's own."""
    home = "/root" if user == "root" else f"/shared/home/{user}"
    base = {"HOME": home, "USER": user, "LOGNAME": user, "PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
    return base | dict(extra or {})


def command(init: int, argv: Sequence[str | bytes | Path], user: str, cwd: str) -> list[str | bytes | Path]:
    """What to run on the machine so that `argv` runs in the host whose process 1 is `init`."""
    if user not in IDS:
        raise ValueError(f"no such user: `{user}`; one of {', '.join(IDS)}")
    if not argv:
        raise ValueError("no command given")
    root = f"/proc/{init}/root"
    enter = [
        tool("nsenter"),
        f"--target={init}",
        "--mount",
        "--uts",
        "--ipc",
        "--net",
        "--pid",
        f"--root={root}",
        f"--wd={root}",
    ]
    number = str(IDS[user])
    become = ["/usr/bin/setpriv", f"--reuid={number}", f"--regid={number}", "--init-groups"]
    return [*enter, "--", "/usr/bin/env", "-C", cwd, *become, "--", *argv]


def popen(
    init: int,
    argv: Sequence[str | bytes | Path],
    *,
    user: str = "root",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    text: bool = True,
    **options: Any,
) -> HostProcess:
    """Start a program in a host. `options` are those of subprocess.Popen; stdin is empty unless they say else."""
    variables = environment(user, env)
    if text:
        options = {"encoding": "utf-8", "errors": "surrogateescape"} | options
    options = {"stdin": subprocess.DEVNULL} | options
    words = command(init, argv, user, cwd if cwd is not None else variables["HOME"])
    return HostProcess(words, env=variables, start_new_session=True, **options)


def run(
    init: int,
    argv: Sequence[str | bytes | Path],
    *,
    input: str | bytes | None = None,
    timeout: float = 60,
    check: bool = False,
    text: bool = True,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program in a host to its end, as subprocess.run does with its output captured.

    Output is text (odd bytes as surrogate escapes), or bytes when `input` is bytes or `text` is false.
    Raises subprocess.TimeoutExpired (the program and its children are killed), subprocess.CalledProcessError with `check`.
    """
    text = text and not isinstance(input, bytes)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        pipes["stdin"] = subprocess.PIPE
    process = popen(init, argv, text=text, **pipes | options)
    with process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill_all()
            # a daemon of the program may still hold the pipes: take what came, wait for no more
            try:
                out, err = process.communicate(timeout=2)
            except subprocess.TimeoutExpired as late:
                out, err = late.stdout, late.stderr
                for pipe in (process.stdout, process.stderr):
                    if pipe:
                        pipe.close()
            raise subprocess.TimeoutExpired(argv, timeout, out, err) from None
        except BaseException:
            process.kill_all()
            raise
    done = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check and done.returncode:
        raise subprocess.CalledProcessError(done.returncode, argv, out, err)
    return done


def processes(init: int, user: str | None = None) -> list[Process]:
    """The processes inside a host (of one user, or all), its process 1 excepted; also those in deeper containers."""
    space = _namespace(init)
    if space is None:
        raise HarnessError("the host is not running")
    depth = len(_status(init)["NSpid"])
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or _namespace(int(entry.name)) != space:
            continue
        try:
            status = _status(int(entry.name))
            argv = (entry / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        numbers = status["NSpid"]
        # an `nsenter` that waits is in the host's network, not among its processes
        if len(numbers) < depth or int(entry.name) == init or status["State"][0] in "ZX":
            continue
        if user is None or int(status["Uid"][0]) == IDS[user]:
            parent = int(status["PPid"][0])
            found.append(Process(int(numbers[depth - 1]), int(entry.name), parent, status["Name"][0], argv))
    return sorted(found)


def alive(pid: int, started: int | None) -> bool:
    """Whether a process is still the one that started then."""
    return started is not None and starttime(pid) == started


def _status(pid: int) -> dict[str, list[str]]:
    rows = (
        line.partition(":") for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    )
    return {key: value.split() for key, _, value in rows}


def _namespace(pid: int) -> int | None:
    """The network namespace of a process, the one that no container inside a host changes."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
