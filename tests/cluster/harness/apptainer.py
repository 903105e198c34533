"""One throw-away host in which the real Apptainer can be run, without a cluster around it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from . import enter
from .rootfs import USERS, rootfs
from .spawn import HostSpec, booted, common_binds, spawn
from .tools import until

Bind = tuple["str | Path", str]

# the machine's own root lies behind /run/machine, which only root can enter
_BIND = 'mkdir -p "$2" && mount --bind "/run/machine/root$1" "$2"'
_HOME = 'mkdir -p "/shared/home/$1" && chmod 700 "/shared/home/$1" && chown "$1:$1" "/shared/home/$1"'


class ApptainerHost:
    """A running host; its files are gone when it ends. The network is the machine's own."""

    def __init__(self, init: int) -> None:
        self.init = init
        self._bound: set[tuple[str, str]] = set()
        for user in USERS:
            self._root("sh", "-ec", _HOME, "sh", user)

    def bind(self, source: str | Path, target: str) -> None:
        """Show a folder of the machine in the host; once is enough. The user's own rights on it count."""
        pair = (str(Path(source).resolve(strict=True)), target)
        if pair not in self._bound:
            self._root("sh", "-ec", _BIND, "sh", *pair)
            self._bound.add(pair)

    def run(
        self,
        argv: Sequence[str | bytes | Path],
        *,
        user: str = "alice",
        binds: Iterable[Bind] = (),
        **options: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program, `apptainer` or another, and give its output as bytes.

        `binds` are (folder of the machine, folder in the host). Options: env, cwd, input (bytes), timeout, check.
        """
        for source, target in binds:
            self.bind(source, target)
        return enter.run(self.init, argv, user=user, text=False, **options)

    def popen(
        self, argv: Sequence[str | bytes | Path], *, user: str = "alice", **options: Any
    ) -> enter.HostProcess:
        """Start a program; options as those of `Cluster.popen`, output as bytes unless `text` is true."""
        return enter.popen(self.init, argv, user=user, **{"text": False} | options)

    def _root(self, *argv: str) -> None:
        enter.run(self.init, argv, user="root", check=True)


@contextmanager
def apptainer_host(
    suite: str = "trixie", *, tmp_size: str = "4g", root_size: str = "4g"
) -> Iterator[ApptainerHost]:
    """A throw-away host of a suite that has Apptainer (trixie or sid). It cannot outlive this process."""
    described = HostSpec(
        name="bare",
        role="bare",
        rootfs=str(rootfs(suite)),
        binds=common_binds(),
        tmp_size=tmp_size,
        root_size=root_size,
    )
    with ExitStack() as stack:
        # the log is of use only until the host is up, and a killed owner could not remove it
        with tempfile.TemporaryDirectory(prefix="tptest-bare-") as folder:
            log = Path(folder, "boot.log")
            process = spawn(described, log, die_with_parent=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            init = until(partial(booted, process, log), "the bare host started", 60, every=0.02)
        yield ApptainerHost(init)
