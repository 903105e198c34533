"""The root filesystem of the hosts: a Debian with Slurm, munge, a database, Apptainer and the project's needs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from .debian import debootstrap, in_root, mirror
from .tools import HarnessError, cached, pip, repo_root

PACKAGES = (
    "slurm-wlm", "slurmdbd", "mariadb-server", "munge", "squashfuse", "fuse3", "squashfs-tools", "tini",
    "python3", "python3-venv", "ca-certificates", "iproute2", "procps", "hostname", "shellcheck", "strace",
    "openssh-server", "sshfs",
)  # fmt: skip
# suite: (packages of the suite itself, packages taken from sid); Debian has Apptainer in sid only, and bookworm's
# libc is too old for that one. Slurm is 22.05 in bookworm, 24.11 in trixie, 26.05 in sid.
SUITES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bookworm": (PACKAGES, ()),
    "trixie": (PACKAGES, ("apptainer",)),
    "sid": ((*PACKAGES, "apptainer"), ()),
}
USERS = {"alice": 1001, "bob": 1002}
REPO = "/opt/tuneplane"
VENV = "/opt/tp"
# the clone is read-only in every host, so compiled files need a place of their own
TP = f'#!/bin/sh\nexec {VENV}/bin/python -X pycache_prefix=/var/cache/tp -m tuneplane "$@"\n'
# no name server can be reached from a host: ask only the files
NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"


def dependencies() -> list[str]:
    """The project's run-time dependencies, as its `pyproject.toml` names them."""
    text = (repo_root() / "pyproject.toml").read_text()
    try:
        import tomllib
    except ImportError:  # Python 3.10: read the one list we need
        table = re.search(r"^\[project\]$(.*?)(?=^\[|\Z)", text, re.M | re.S)
        found = re.search(r"^dependencies\s*=\s*\[(.*?)\]\s*$", table[1] if table else "", re.M | re.S)
        return re.findall(r"""["']([^"']+)["']""", found[1]) if found else []
    return list(tomllib.loads(text)["project"].get("dependencies", []))


def recipe(suite: str) -> dict[str, object]:
    """All that decides what a root contains."""
    if suite not in SUITES:
        raise HarnessError(f"no such suite: `{suite}`; one of {', '.join(SUITES)}")
    return {
        "suite": suite, "packages": SUITES[suite], "dependencies": sorted(dependencies()), "mirror": mirror(),
        "users": USERS, "tp": TP, "nsswitch": NSSWITCH, "layout": 1,
    }  # fmt: skip


def rootfs(suite: str = "trixie") -> Path:
    """The root of a suite: from the cache, or built there (about a minute). Raises HarnessError."""
    return cached("rootfs", suite, recipe(suite), lambda root: _build(root, suite))


def _build(root: Path, suite: str) -> None:
    own, pinned = SUITES[suite]
    debootstrap(root, suite, own, pinned)
    (root / "etc/nsswitch.conf").write_text(NSSWITCH)
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/resolv.conf").touch()
    for user, uid in USERS.items():
        home = f"/shared/home/{user}"
        in_root(root, "useradd", "-M", "-U", "-u", str(uid), "-d", home, "-s", "/bin/bash", user)
    _venv(root)
    tp = root / "usr/local/bin/tp"
    tp.write_text(TP)
    tp.chmod(0o755)
    (root / "var/cache/tp").mkdir()
    (root / "var/cache/tp").chmod(0o1777)
    (root / REPO.lstrip("/")).mkdir(parents=True)
    (root / "shared").mkdir()


def _venv(root: Path) -> None:
    """A virtual environment of the root's own Python.

    The machine's pip fetches (so its indexes and certificates count), the root's pip installs.
    """
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = in_root(root, "python3", "-c", asked).strip()
    in_root(root, "python3", "-m", "venv", VENV)
    wanted = dependencies()
    if wanted:
        with tempfile.TemporaryDirectory() as wheels:
            pip(
                "download",
                "--quiet",
                "--only-binary=:all:",
                f"--python-version={version}",
                "--dest",
                wheels,
                *wanted,
            )
            install = ("install", "--quiet", "--no-index", "--find-links=/mnt", "--disable-pip-version-check")
            in_root(
                root, f"{VENV}/bin/python", "-m", "pip", *install, *wanted, binds=[(Path(wheels), "/mnt")]
            )
    site = root / VENV.lstrip("/") / f"lib/python{version}/site-packages"
    (site / "tuneplane-clone.pth").write_text(f"{REPO}\n")
