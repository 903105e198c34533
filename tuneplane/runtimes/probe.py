"""Looking into an image: it is started once, and its Python says what packages it has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from tuneplane.catalog.requires import normalized
from tuneplane.errors import ImageError, shown
from tuneplane.schedulers.environment import clean_environment
from tuneplane.sites.kinds import SIF
from tuneplane.sites.model import Site

SECONDS = 600
_MARK = "tuneplane-holds:"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOOK = f"""
import json, platform, sys
try:
    from importlib import metadata
except ImportError:
    metadata = None
found = {{}}
for item in metadata.distributions() if metadata else ():
    name = item.metadata["Name"]
    if name and name not in found:
        found[name] = item.version or ""
print("{_MARK}" + json.dumps([platform.python_version(), platform.machine(), found]))
"""


@dataclass(frozen=True)
class Holding:
    """What an image holds. python: a version, empty without one; packages: normalized name → version."""

    python: str
    packages: dict[str, str]


def probe(site: Site, path: str, image_format: str, python: str = "python3") -> Holding:
    """Start the image and ask its Python; one without a Python holds no packages.

    python: the interpreter inside. Raises ImageError when no container starts here.
    """
    with tempfile.TemporaryDirectory(prefix="tp-probe-") as scratch:
        words = _words(site, path, image_format, scratch)
        said = _run([*words, python, "-c", _LOOK], site, scratch)
        for line in said.stdout.splitlines():
            if line.startswith(_MARK):
                return _holding(path, line.removeprefix(_MARK))
        if _run([*words, "/bin/sh", "-c", "exit 0"], site, scratch).returncode == 0:
            return Holding("", {})
    lines = [line.strip() for line in _COLOUR.sub("", said.stderr).splitlines() if line.strip()]
    last = lines[-1] if lines else f"it ended with {said.returncode}"
    raise ImageError.of(
        f"the image {shown(path, 400)} cannot be started here: {shown(last, 300)[1:-1]}", hint="--no-probe"
    )


def _holding(path: str, answer: str) -> Holding:
    try:
        python, _, found = json.loads(answer)
        return Holding(
            str(python), {normalized(name): str(version) for name, version in sorted(found.items())}
        )
    except (ValueError, TypeError, AttributeError):
        raise ImageError.of(f"the image {shown(path, 400)} says nothing sensible of itself") from None


def _words(site: Site, path: str, image_format: str, scratch: str) -> list[str]:
    """The words before a command that is to run in the image, by what this machine has."""
    apptainer, enroot = site.runtime.apptainer, site.runtime.enroot
    if os.access(apptainer, os.X_OK):
        return [apptainer, "--quiet", "exec", "--cleanenv", "--no-eval", "--pid", "--no-mount", "home,cwd",
                "--pwd", "/", path]  # fmt: skip
    if image_format != SIF and os.access(enroot, os.X_OK):
        return [enroot, "start", path]
    needed = apptainer if image_format == SIF else f"{apptainer} or {enroot}"
    raise ImageError.of("no image can be started on this machine", expected=needed, hint="--no-probe")


def _run(words: Sequence[str], site: Site, scratch: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **clean_environment(),
        "PATH": ":".join(site.path),
        "APPTAINER_TMPDIR": scratch,
        "APPTAINER_CACHEDIR": scratch,
        **{f"ENROOT_{name}_PATH": f"{scratch}/{name.lower()}" for name in ("DATA", "CACHE", "RUNTIME")},
    }
    try:
        return subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(words, 126, "", f"{words[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"nothing was heard for {SECONDS} s")
