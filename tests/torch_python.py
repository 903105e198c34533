"""An interpreter with torch for the tests of supervisor and starters, made once and kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import pytest

REQUIREMENTS = ("torch==2.13.0", "numpy", "scikit-learn", "pillow", "accelerate", "ray")
PROBE = "import torch, numpy, sklearn, PIL, accelerate, ray"


def unavailable(why: str) -> NoReturn:
    if os.environ.get("TUNEPLANE_REQUIRE_TORCH") == "1":
        pytest.fail(f"no interpreter with torch: {why}", pytrace=False)
    pytest.skip(f"no interpreter with torch: {why}")


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The path of an interpreter with torch, numpy, scikit-learn, pillow, accelerate and ray."""
    given = os.environ.get("TUNEPLANE_TORCH_PYTHON")
    python = Path(given).absolute() if given else kept_interpreter()
    try:
        subprocess.run([python, "-c", PROBE], check=True, capture_output=True, text=True)
    except OSError as error:
        unavailable(f"{python}: {error}")
    except subprocess.CalledProcessError as error:
        unavailable(f"{python}: {error.stderr.strip().splitlines()[-1]}")
    return python


def kept_interpreter() -> Path:
    base = shutil.which("python3.11") or sys.executable
    version = subprocess.run([base, "--version"], capture_output=True, text=True).stdout.strip()
    text = "\n".join([*REQUIREMENTS, version, platform.machine()])
    name = "torch-venv-" + hashlib.sha256(text.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tuneplane-tests"
    folder = Path(os.environ.get("TUNEPLANE_TEST_CACHE") or cache).absolute() / name
    python = folder / "bin" / "python"
    if not python.exists() and os.environ.get("TUNEPLANE_REQUIRE_TORCH") != "1":
        unavailable("set TUNEPLANE_TORCH_PYTHON, or TUNEPLANE_REQUIRE_TORCH=1 to have one made (over 1 GB)")
    if not python.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{name}.lock")):
            if not python.exists():  # nobody made it while this one waited
                build(base, folder)
    return python


def build(base: str, folder: Path) -> None:
    """In a temporary place, then renamed: a folder under the final name is always whole.

    Only `python -m` may be used of it, since the scripts in its `bin` name the temporary place.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    python = str(temporary / "bin" / "python")
    try:
        for command in ([base, "-m", "venv", str(temporary)], [python, *install]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                unavailable(f"`{' '.join(command)}` failed: {lines[-1] if lines else 'no output'}")
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Saves a second build; that a venv is whole rests on the rename, not on this."""
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
