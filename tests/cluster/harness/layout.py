"""The files of one cluster on the machine, and how each host sees them.

STATE/spec.json, munge.key, rootfs    what the cluster was asked to be, its key, a link to its root
STATE/slurm        /etc/slurm         of every host, read-only there
STATE/shared       /shared            of every host
STATE/hosts/HOST   /var/log/slurm, /var/spool/slurm: what of a host outlives it
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path

from . import config
from .config import ClusterSpec
from .rootfs import USERS
from .spawn import HostSpec, common_binds


def prepare(state: Path, spec: ClusterSpec, name: str, subnet: int, root: Path) -> None:
    """Write everything the hosts read, and make the users' homes."""
    (state / "spec.json").write_text(json.dumps(asdict(spec)))
    (state / "munge.key").write_text(secrets.token_hex(256))
    (state / "rootfs").symlink_to(root)
    (state / "slurm").mkdir()
    for file, text in config.files(spec, name, subnet).items():
        path = state / "slurm" / file
        # slurmdbd refuses a file that others may read
        path.touch(mode=0o600 if file == "slurmdbd.conf" else 0o644)
        path.write_text(text)
    shared = state / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "home").mkdir(mode=0o755)
    for user, uid in USERS.items():
        home = shared / "home" / user
        home.mkdir(mode=0o700)
        os.chown(home, uid, uid)


def read_spec(state: Path) -> ClusterSpec:
    values = json.loads((state / "spec.json").read_text())
    return ClusterSpec(**values | {"slurm_conf": tuple(values["slurm_conf"])})


def describe(state: Path, spec: ClusterSpec, name: str, subnet: int, host: str) -> HostSpec:
    """One host of a prepared cluster; makes the folders that it alone has."""
    own = state / "hosts" / host
    for folder in ("log", "spool"):
        (own / folder).mkdir(parents=True, exist_ok=True)
    return HostSpec(
        name=host,
        role="controller" if host == "login" else "submit" if host in spec.logins else "node",
        rootfs=os.readlink(state / "rootfs"),
        cluster=name,
        hosts=config.hosts_file(spec, subnet),
        munge_key=(state / "munge.key").read_text(),
        gpus=spec.gpus(host)[1],
        binds=(
            *common_binds(),
            (str(state / "shared"), "/shared"),
            (str(state / "slurm"), "/etc/slurm", "ro"),
            (str(own / "log"), "/var/log/slurm"),
            (str(own / "spool"), "/var/spool/slurm"),
        ),
        tmp_size=spec.tmp_size,
        shm_size=spec.shm_size,
        root_size=spec.root_size,
    )
