"""Which Ray the image has, and whether it may be used."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from typing import NamedTuple, Optional, Tuple

from tuneplane.job.checks.requires import installed

# The first Ray with authentication, and the first whose joining nodes take a temporary folder of their own.
AUTHENTICATED = (2, 52)
OWN_FOLDERS = (2, 55)
LOOK_SECONDS = 60.0


class Ray(NamedTuple):
    """The interpreter that has Ray, and Ray's version."""

    python: str
    text: str

    @property
    def version(self) -> Tuple[int, ...]:
        """The first two numbers of the version."""
        match = re.match(r"(\d+)\.(\d+)", self.text)
        return tuple(map(int, match.groups())) if match else (0, 0)

    @property
    def authenticated(self) -> bool:
        """Whether its clusters can be closed to others."""
        return self.version >= AUTHENTICATED


@functools.lru_cache(maxsize=1)
def find_ray() -> Optional[Ray]:
    """The Ray of the interpreter that runs this, else that of the program `ray` on PATH."""
    version = installed("ray")
    if version is not None:
        return Ray(sys.executable, version)
    python = _interpreter_of(shutil.which("ray"))
    if python is None:
        return None
    ask = "from importlib.metadata import version; print(version('ray'))"
    try:
        done = subprocess.run(
            [python, "-c", ask], stdout=subprocess.PIPE, timeout=LOOK_SECONDS, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Ray(python, done.stdout.strip())


def ray_problem(old_allowed: bool) -> Optional[str]:
    """Why Ray cannot be used here, or None."""
    ray = find_ray()
    if ray is None:
        return f"the image has no Ray: neither `{sys.executable}` nor PATH has it"
    if ray.authenticated or old_allowed:
        return None
    return (
        f"the image has Ray {ray.text}, whose clusters anyone on the network can use; take an image with Ray 2.52 "
        "or newer, or let the site allow it with `old_ray: true`"
    )


def _interpreter_of(program: Optional[str]) -> Optional[str]:
    """What the first line of a script names."""
    if program is None:
        return None
    try:
        with open(program, "rb") as file:
            line = file.readline(4096)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "surrogateescape").split() if line.startswith(b"#!") else []
    return words[0] if len(words) == 1 else None
