"""What tests take from the package index, got once and kept in the test cache: interpreters, unpacked wheels."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

REQUIRED = "TUNEPLANE_REQUIRE_TORCH"
PYTHON = "3.11"
"""The Python of kept things: CPU builds of PyTorch and every framework's wheels are at hand for it."""


class Unavailable(Exception):
    """It is not kept, and cannot or may not be got now; the text says why."""


def kept_interpreter(name: str, requirements: Sequence[str], size: str) -> Path:
    """The interpreter of a virtual environment with the requirements. Raises Unavailable.

    Only `python -m` may be used of it, since the scripts in its `bin` name the place where it was made.
    """
    base = shutil.which(f"python{PYTHON}") or sys.executable
    version = subprocess.run([base, "--version"], capture_output=True, text=True).stdout.strip()

    def build(folder: Path) -> None:
        python = str(folder / "bin/python")
        run(base, "-m", "venv", str(folder))
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)

    return kept(name, [*requirements, version, platform.machine()], build, size) / "bin/python"


def kept_wheel(requirement: str) -> Path:
    """A folder on which Python finds what the wheel of `NAME==VERSION` holds, and nothing that it needs.

    Raises Unavailable.
    """

    def build(folder: Path) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            words = [*options, "--python-version", PYTHON, "--dest", place, requirement]
            run(sys.executable, "-m", "pip", "download", *words)
            (wheel,) = Path(place).iterdir()
            zipfile.ZipFile(wheel).extractall(folder)
        for purelib in folder.glob("*.data/purelib/*"):
            purelib.rename(folder / purelib.name)

    return kept(requirement.replace("==", "-"), [requirement, PYTHON], build, "1 MB")


def kept(name: str, made_from: Sequence[str], build: Callable[[Path], None], size: str) -> Path:
    """The folder `NAME-DIGEST` of the cache, built when it is not there and the environment allows it.

    It is built in a temporary place, then renamed: a folder under the final name is always whole. Raises Unavailable.
    """
    digest = hashlib.sha256("\n".join(made_from).encode()).hexdigest()[:12]
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tuneplane-tests"
    cache = Path(os.environ.get("TUNEPLANE_TEST_CACHE") or default).absolute()
    folder = cache / f"{name}-{digest}"
    if folder.exists():
        return folder
    if os.environ.get(REQUIRED) != "1":
        raise Unavailable(f"{name} is not in the test cache; {REQUIRED}=1 has it made ({size})")
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{folder.name}.lock"):
        if not folder.exists():  # nobody made it while this one waited
            temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=cache))
            try:
                build(temporary)
                temporary.rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return folder


def run(*command: str) -> None:
    """Raises Unavailable with its last line when it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"`{' '.join(command)}` failed: {lines[-1] if lines else 'no output'}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Saves a second build; that what is kept is whole rests on the rename, not on this."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for {holder(file)} to build {path.stem}", file=sys.__stderr__)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        print(f"process {os.getpid()} on {platform.node()}", file=file, flush=True)
        yield


def holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "another process"
