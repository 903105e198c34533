"""This machine: its Python, the limits of this shell, and the program that starts containers."""

from __future__ import annotations

import os
import platform
import resource
import sys

from tuneplane.doctor.check import Check
from tuneplane.sites.model import Site

FEWEST_FILES = 1024


def machine(site: Site) -> list[Check]:
    """What can be seen without leaving this process."""
    return [_python(), *_limits(), *_runtime(site)]


def _python() -> Check:
    # an older one than tp takes would not have come this far
    return Check("python", f"{platform.python_version()}, {sys.executable}")


def _limits() -> list[Check]:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    checks = []
    if files != resource.RLIM_INFINITY and files < FEWEST_FILES:
        checks.append(
            Check("open files", f"at most {files}", "note", f"`ulimit -n` of {FEWEST_FILES} or more")
        )
    else:
        checks.append(
            Check("open files", "at most " + ("any" if files == resource.RLIM_INFINITY else str(files)))
        )
    if size != resource.RLIM_INFINITY:
        checks.append(
            Check(
                "file size", f"files may have at most {size} bytes here", "bad", "ulimit -f unlimited", "user"
            )
        )
    return checks


def _runtime(site: Site) -> list[Check]:
    """A login node need not have what the nodes have: a hint, no fault."""
    kind = site.runtime.kind
    if kind not in ("apptainer", "enroot"):
        return []
    program = site.runtime.apptainer if kind == "apptainer" else site.runtime.enroot
    if os.access(program, os.X_OK):
        return [Check("runtime", f"{kind} is {program}")]
    return [
        Check(
            "runtime",
            f"there is no {program} on this machine; nodes may have it",
            "note",
            "tp doctor --job    (tries the nodes)",
        )
    ]
