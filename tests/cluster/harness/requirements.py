"""What a machine needs for a cluster, and what of it is missing here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from .tools import HarnessError, tool

TOOLS = ("mmdebstrap", "ip", "unshare", "nsenter", "setpriv", "mount", "pivot_root", "chroot")
_PROBE = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/lower /mnt/upper /mnt/work /mnt/root /mnt/proc
mount -t overlay overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mount -t proc proc /mnt/proc
mknod /mnt/upper/null c 1 3
ip link add name hub type bridge
ip link add name one type veth peer name two
"""


def missing() -> list[str]:
    """Everything that keeps a cluster from being made here, in words; empty when all is well."""
    if os.geteuid() != 0:
        return ["root rights"]
    found = []
    for name in TOOLS:
        try:
            tool(name)
        except HarnessError as error:
            found.append(str(error))
    if not found:
        words = [
            tool("unshare"),
            "--mount",
            "--net",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "sh",
            "-ec",
            _PROBE,
        ]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            found.append(
                f"namespaces, overlayfs, device nodes, a bridge and a veth pair: {done.stderr.strip()}"
            )
    if not Path("/dev/fuse").exists():
        found.append("/dev/fuse (the kernel module `fuse`)")
    return found


def give_up(lacking: Sequence[str], env: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip a test that needs a cluster, saying why; with `TUNEPLANE_REQUIRE_CLUSTER=1` let it fail."""
    import pytest  # only tests come here; the rest of the harness is for people too

    text = f"no cluster can be made here; missing: {'; '.join(lacking)}"
    if env.get("TUNEPLANE_REQUIRE_CLUSTER") == "1":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
