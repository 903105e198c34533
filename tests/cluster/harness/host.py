"""The first program of a host, run as root in new namespaces (network, hostname, mounts, IPC, processes).

It makes the host's root out of the shared one and hands over to `boot.sh`, which stays as process 1.
It is run as a file, never imported: only the standard library, nothing of the harness.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "fuse": (10, 229),
}


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def device(path: Path, major: int, minor: int) -> None:
    """A character device that everyone may use, whatever the umask and the machine's own node allow."""
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)


def overlay(rootfs: Path, size: str) -> Path:
    """A writable root over the shared one; the changes live in memory, `size` at most, and die with the host."""
    # any folder would do as the place of the memory: this mount is seen by this host only
    memory = rootfs / "mnt"
    mount("-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", memory)
    for name in ("upper", "work", "root"):
        (memory / name).mkdir()
    os.chdir(memory)  # short relative names: a mount's options end at one page, and a `:` or `,` parts them
    mount("-t", "overlay", "-o", f"lowerdir={escaped(rootfs)},upperdir=upper,workdir=work", "overlay", "root")
    return memory / "root"


def escaped(path: Path) -> str:
    """A path as overlayfs wants it in its options."""
    return "".join("\\" + letter if letter in "\\,:" else letter for letter in str(path))


def kernel_folders(root: Path, tmp_size: str, shm_size: str) -> None:
    """/proc, /sys and a /dev of the host's own, in which every user can use FUSE; /tmp and /dev/shm in memory."""
    mount("-t", "proc", "-o", "nosuid,nodev,noexec", "proc", root / "proc")
    mount("-t", "sysfs", "-o", "nosuid,nodev,noexec,ro", "sysfs", root / "sys")
    dev = root / "dev"
    mount("-t", "tmpfs", "-o", "mode=755,size=1m", "tmpfs", dev)
    for name, numbers in DEVICES.items():
        device(dev / name, *numbers)
    for name, target in {
        "fd": "/proc/self/fd",
        "stdin": "fd/0",
        "stdout": "fd/1",
        "stderr": "fd/2",
        "ptmx": "pts/ptmx",
    }.items():
        (dev / name).symlink_to(target)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=0620", "devpts", dev / "pts")
    for path, size, mode in (
        (dev / "shm", shm_size, "1777"),
        (root / "tmp", tmp_size, "1777"),
        (root / "run", "64m", "755"),
    ):
        mount("-t", "tmpfs", "-o", f"mode={mode},size={size}", "tmpfs", path)


def bind(source: str, target: Path, *options: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount("--bind", source, target)
    if options:
        mount("-o", f"remount,bind,{','.join(options)}", target)


def files(root: Path, host: dict[str, Any]) -> None:
    """The host's name and peers, its key, its pretend GPUs."""
    (root / "etc/hostname").write_text(host["name"] + "\n")
    (root / "etc/hosts").write_text(host["hosts"])
    (root / "run/lock").mkdir(mode=0o1777)
    if host["munge_key"]:
        key = root / "etc/munge/munge.key"
        key.unlink(missing_ok=True)
        key.touch(mode=0o600)
        key.write_bytes(bytes.fromhex(host["munge_key"]))
    first = root / host["gpu_files"].lstrip("/")
    first.parent.mkdir(parents=True, exist_ok=True)
    for number in range(host["gpus"]):
        device(first.with_name(f"{first.name}{number}"), 1, 3)


def main() -> None:
    host = json.loads(sys.argv[1])
    os.umask(0o022)
    socket.sethostname(host["name"])
    mount("--make-rprivate", "/")
    root = overlay(Path(host["rootfs"]), host["root_size"])
    kernel_folders(root, host["tmp_size"], host["shm_size"])
    for source, target, *options in host["binds"]:
        bind(source, root / target.lstrip("/"), *options)
    files(root, host)
    old = "run/machine/root"  # only root may look through /run/machine
    (root / "run/machine").mkdir(mode=0o700)
    (root / old).mkdir()
    boot = Path(__file__).with_name("boot.sh")
    settings = {key: str(host[key]) for key in ("name", "role", "cluster")}
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/root",
    }
    os.execve("/bin/sh", ["sh", "-eu", str(boot), str(root), old, *settings.values()], env)


if __name__ == "__main__":
    main()
