"""Starting one host: its namespaces, and the program that becomes its process 1."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .config import GPU_FILES
from .enter import children
from .rootfs import REPO
from .tools import SYSTEM_PATH, HarnessError, cache_dir, repo_root, tool


@dataclass(frozen=True)
class HostSpec:
    """One host. Its role is `controller`, `node`, `submit` or `bare` (no daemon at all, not even munge).

    `binds` are (folder of the machine, folder in the host, mount options...).
    """

    name: str
    role: str
    rootfs: str
    cluster: str = "none"
    hosts: str = "127.0.0.1 localhost\n"
    munge_key: str = ""
    gpus: int = 0
    binds: tuple[tuple[str, ...], ...] = ()
    tmp_size: str = "2g"
    shm_size: str = "1g"
    root_size: str = "4g"
    gpu_files: str = GPU_FILES


IMAGES = "/images"


def images_dir() -> Path:
    """The folder of the cache that every host sees as /images. Made when missing."""
    path = cache_dir() / "images"
    path.mkdir(exist_ok=True)
    return path


def common_binds() -> tuple[tuple[str, ...], ...]:
    """What every host shows read-only: the clone, where `tp` looks for it, and the images."""
    return ((str(repo_root()), REPO, "ro"), (str(images_dir()), IMAGES, "ro"))


def spawn(
    host: HostSpec, log: Path, netns: Path | None = None, die_with_parent: bool = False
) -> subprocess.Popen[Any]:
    """Start a host, in a network namespace or in the machine's own; `log` gets what it says.

    With `die_with_parent` the kernel ends it when the thread that called this is gone.
    """
    words = [tool("unshare"), "--uts", "--mount", "--ipc", "--pid", "--fork", "--kill-child"]
    if die_with_parent:
        words = [tool("setpriv"), "--pdeathsig=KILL", *words]
    if netns:
        words = [tool("nsenter"), f"--net={netns}", *words]
    words += [sys.executable, "-I", str(Path(__file__).with_name("host.py")), json.dumps(asdict(host))]
    env = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
    with log.open("ab") as out:
        return subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def booted(process: subprocess.Popen[Any], log: Path) -> int:
    """The host's process 1 once its daemons are started, else 0. Raises HarnessError when the host has ended."""
    if process.poll() is not None:
        raise HarnessError(
            f"a host ended while it started: {log.read_text(errors='replace')[-3000:].strip()}"
        )
    for init in children(process.pid):
        if Path(f"/proc/{init}/root/run/booted").exists():
            return init
    return 0
