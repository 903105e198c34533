"""What every module of the harness needs: its one error, running a program, the cache, locks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class HarnessError(RuntimeError):
    """The machine or a host did not do what the harness asked; the text says what and shows its output."""


def repo_root() -> Path:
    """The clone this file belongs to: the closest folder above with a `pyproject.toml`."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file():
            return folder
    raise HarnessError(f"no `pyproject.toml` in any folder above {__file__}")


def tool(name: str) -> str:
    """The full path of a program of the machine, also of one in `sbin`. Raises HarnessError without it."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")
    if path is None:
        raise HarnessError(f"`{name}` is not installed")
    return path


def sh(*argv: str | Path, env: Mapping[str, str] | None = None, timeout: float = 1800) -> str:
    """Run a program of the machine and give its standard output; raises HarnessError when it fails."""
    words = [tool(str(argv[0])), *map(str, argv[1:])]
    done = subprocess.run(
        words,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        errors="replace",
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:].strip()
        raise HarnessError(f"{' '.join(words)} ended with {done.returncode}: {said}")
    return done.stdout


def say(text: str) -> None:
    """One line of progress on stderr."""
    print(f"cluster harness: {text}", file=sys.stderr, flush=True)


def cache_dir() -> Path:
    """Where roots and images are kept between runs; never inside the clone. Made when missing."""
    chosen = os.environ.get("TUNEPLANE_TEST_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = (Path(chosen) if chosen else Path(base) / "tuneplane-tests").resolve()
    root = repo_root()
    if path == root or root in path.parents:
        raise HarnessError(
            f"the test cache {path} lies inside the clone; set `TUNEPLANE_TEST_CACHE` to another folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(recipe: object) -> str:
    """A short name for a recipe (anything JSON can write): another recipe, another name."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


@contextmanager
def locked(path: Path) -> Iterator[IO[str]]:
    """Hold an exclusive lock on a file; says so when it has to wait, and for which process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            say(f"waiting for {path}, held by {handle.read().strip() or 'an unknown process'}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(f"process {os.getpid()}\n")
        handle.flush()
        try:
            yield handle
        finally:
            handle.truncate(0)


def cached(kind: str, name: str, recipe: object, build: Callable[[Path], Any], suffix: str = "") -> Path:
    """Give `CACHE/KIND/NAME-DIGEST[SUFFIX]`, made by `build(path)` in a temporary place when it is missing.

    Only one process builds a thing at a time; a build that fails leaves nothing under the final name.
    """
    folder = cache_dir() / kind
    final = folder / f"{name}-{digest(recipe)}{suffix}"
    if final.exists():
        return final
    with locked(folder / f".{final.name}.lock"):
        if final.exists():
            return final
        partial = folder / f".{final.name}.partial"
        remove(partial)
        say(f"building {final}")
        try:
            build(partial)
            partial.rename(final)
        finally:
            remove(partial)
    return final


def remove(path: Path) -> None:
    """Delete a file or a folder, without following a mount into another filesystem."""
    if os.path.lexists(path):
        sh("rm", "-rf", "--one-file-system", path)


def until(holds: Callable[[], Any], what: str, timeout: float = 60, every: float = 0.05) -> Any:
    """Ask again every so many seconds until the answer is true; gives it. Raises HarnessError after `timeout`."""
    deadline = time.monotonic() + timeout
    while not (answer := holds()):
        if time.monotonic() > deadline:
            raise HarnessError(f"{what}: not so after {timeout:g} s")
        time.sleep(every)
    return answer


def starttime(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or already dead (a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def python_with(version: tuple[int, int]) -> str:
    """An interpreter of that version: the running one, else `pythonX.Y` on PATH. Raises HarnessError without one."""
    if sys.version_info[:2] == version:
        return sys.executable
    return tool("python{}.{}".format(*version))


def pip(*args: str | Path, python: str | None = None) -> str:
    """Run pip with the machine's own configuration (indexes, certificates, folders)."""
    words: Sequence[str | Path] = (
        python or sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        *args,
    )
    return sh(*words)
