"""A real Slurm cluster on this machine: every host has its own name, address, files and processes."""

from __future__ import annotations

import os
import signal as signals
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from . import enter, layout, network
from .config import ClusterSpec
from .enter import HostProcess, Process
from .rootfs import rootfs
from .spawn import booted, spawn
from .tools import HarnessError, remove, starttime, until

Argv = Sequence["str | bytes | Path"]


class Cluster:
    """A cluster that lives from `start` to `stop`, or for a `with` block.

    Everything about it is gone after `stop`, also after a start that failed. What an earlier run left behind
    because it was killed is removed by the next start. All waiting raises HarnessError when it takes too long.
    """

    def __init__(self, spec: ClusterSpec | None = None) -> None:
        self.spec = spec or ClusterSpec()
        self.name = ""
        self.subnet = -1
        self._state: Path | None = None
        self._processes: dict[str, subprocess.Popen[Any]] = {}

    # -- life -------------------------------------------------------------------------------------------

    def start(self, *, kept: bool = False, timeout: float = 120) -> Cluster:
        """Bring all hosts up and wait until every node is idle. A `kept` cluster outlives this process."""
        network.sweep()
        root = rootfs(self.spec.suite)
        self._state = Path(tempfile.mkdtemp(prefix="tptest-"))
        try:
            self.subnet = network.claim(self._state, kept)
            self.name = network.cluster_name(self.subnet)
            layout.prepare(self.state, self.spec, self.name, self.subnet, root)
            self._boot(["login"], timeout)
            self._boot(self.spec.hosts[1:], timeout)
            self.wait_idle(timeout=timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take everything down; harmless when it is down already."""
        if self.name:
            network.demolish(self.name, str(self.state))
        elif self._state:
            remove(self._state)
        for process in self._processes.values():
            process.wait()
        self.name, self._state, self._processes = "", None, {}

    def __enter__(self) -> Cluster:
        return self if self.name else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @classmethod
    def attach(cls, name: str) -> Cluster:
        """A running cluster by its name, made by another process."""
        claim = network.read_claim(name)
        if claim is None:
            raise HarnessError(f"no cluster `{name}`; there are: {', '.join(network.clusters()) or 'none'}")
        cluster = cls(layout.read_spec(Path(claim.state)))
        cluster.name, cluster.subnet, cluster._state = (
            name,
            int(name.removeprefix("tptest")),
            Path(claim.state),
        )
        return cluster

    # -- places -----------------------------------------------------------------------------------------

    @property
    def state(self) -> Path:
        """The folder with the cluster's files on the machine."""
        if self._state is None:
            raise HarnessError("the cluster is not up")
        return self._state

    @property
    def shared(self) -> Path:
        """What the hosts see as /shared."""
        return self.state / "shared"

    def log(self, host: str, daemon: str = "") -> str:
        """What a daemon of a host has logged; without one, what the host said while it started."""
        path = self.state / "hosts" / host / ("boot.log" if not daemon else f"log/{daemon}.log")
        return path.read_text(errors="replace") if path.exists() else ""

    # -- programs ---------------------------------------------------------------------------------------

    def run(self, host: str, argv: Argv, **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a program on a host to its end.

        Options: user ("root"), env (added to HOME, USER, LOGNAME, PATH and LANG), cwd (the user's home), input,
        timeout (60 seconds), check, text. See `enter.run`.
        """
        return enter.run(self.init(host), argv, **options)

    def popen(self, host: str, argv: Argv, **options: Any) -> HostProcess:
        """Start a program on a host. Options: user, env, cwd, text, and those of subprocess.Popen."""
        return enter.popen(self.init(host), argv, **options)

    def processes(self, host: str, user: str | None = None) -> list[Process]:
        """The processes on a host, of one user or of all."""
        return enter.processes(self.init(host), user)

    # -- faults -----------------------------------------------------------------------------------------

    def cut(self, host: str) -> None:
        """Take a host's network away; its processes go on, and no connection is closed."""
        network.switch(self.name, host, "down")

    def link(self, host: str) -> None:
        """Give a host its network back."""
        network.switch(self.name, host, "up")

    def kill(self, host: str) -> None:
        """End a host like a power cut: nothing on it runs on, and not one last packet leaves it."""
        network.unplug(self.name, host)
        network.clear(network.netns(self.name, host))
        process = self._processes.pop(host, None)
        if process:
            process.wait()
        self._pidfile(host).unlink(missing_ok=True)

    def restart(self, host: str, timeout: float = 120) -> None:
        """Bring a host back, running or not; it keeps Slurm's state and logs, and nothing else of its own."""
        self.kill(host)
        self._boot([host], timeout)

    def fill(self, host: str, folder: str = "/tmp") -> None:
        """Leave no room in a memory filesystem of a host, which is made small first; `empty` gives it all back."""
        script = (
            'mount -o remount,size=64m "$1"; : >"$1/.filler"; cat /dev/zero >"$1/.filler" 2>/dev/null || :'
        )
        self.run(host, ["sh", "-ec", script, "sh", folder], check=True)

    def empty(self, host: str, folder: str = "/tmp", size: str = "") -> None:
        """Undo `fill`; `size` is what the filesystem had, that of /tmp if not given."""
        script = 'rm -f "$1/.filler"; mount -o "remount,size=$2" "$1"'
        self.run(host, ["sh", "-ec", script, "sh", folder, size or self.spec.tmp_size], check=True)

    def daemon(self, host: str, name: str, signal: signals.Signals | str) -> None:
        """Send a signal (`STOP`, signals.SIGKILL...) to a daemon: slurmctld, slurmd, slurmdbd, munged, mariadbd."""
        number = signals.Signals[f"SIG{signal}"] if isinstance(signal, str) else signal
        named = [process for process in self.processes(host) if process.name == name]
        inner = {process.outer_pid for process in named}
        chosen = [process for process in named if process.outer_parent not in inner]
        if not chosen:
            raise HarnessError(f"no `{name}` runs on {host}")
        for process in chosen:
            os.kill(process.outer_pid, number)

    def start_daemon(self, host: str, name: str) -> None:
        """Start slurmctld, slurmd or slurmdbd again after it was ended."""
        self.run(host, [name, *(["-N", host] if name == "slurmd" else [])], check=True)

    # -- waiting ----------------------------------------------------------------------------------------

    def wait_idle(self, nodes: Iterable[str] | None = None, timeout: float = 60) -> None:
        """Wait until nodes (all of them if not named) are idle."""
        wanted = set(self.spec.compute if nodes is None else nodes)

        def idle() -> bool:
            listed = self.run("login", ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t"]).stdout.split("\n")
            return wanted <= {line.split()[0] for line in listed if line.endswith(" idle")}

        try:
            until(idle, f"nodes {', '.join(sorted(wanted))} idle", timeout, every=0.1)
        except HarnessError as error:
            raise HarnessError(f"{error}\n{self._report()}") from None

    def _report(self) -> str:
        parts = [self.run("login", ["sinfo", "-N", "-l"]).stdout]
        for host in self.spec.hosts:
            daemon = "slurmd" if host in self.spec.compute else "slurmctld"
            parts += [f"{host}: {text[-1500:]}" for text in (self.log(host), self.log(host, daemon)) if text]
        return "\n".join(parts)

    # -- making -----------------------------------------------------------------------------------------

    def _boot(self, hosts: Iterable[str], timeout: float) -> None:
        """Start hosts side by side and wait until their daemons are started."""
        logs = {}
        for host in hosts:
            network.connect(self.name, host, self.spec.address(host, self.subnet))
            described = layout.describe(self.state, self.spec, self.name, self.subnet, host)
            logs[host] = self.state / "hosts" / host / "boot.log"
            self._processes[host] = spawn(
                described, logs[host], network.NETNS / network.netns(self.name, host)
            )
        for host, log in logs.items():
            ready = partial(booted, self._processes[host], log)
            init = until(ready, f"{host} started", timeout, every=0.02)
            self._pidfile(host).write_text(f"{init} {starttime(init)}")

    def _pidfile(self, host: str) -> Path:
        if host not in self.spec.hosts:
            raise HarnessError(f"no host `{host}`; there are: {', '.join(self.spec.hosts)}")
        return self.state / "hosts" / host / "init"

    def init(self, host: str) -> int:
        """The number of a host's process 1. Raises HarnessError when the host is not running."""
        try:
            pid, started = map(int, self._pidfile(host).read_text().split())
        except FileNotFoundError:
            raise HarnessError(f"{host} is not running") from None
        if not enter.alive(pid, started):
            raise HarnessError(f"{host} has died")
        return pid
