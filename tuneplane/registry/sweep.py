"""Removing what killed publishers left beside the publications."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tuneplane.files import write_whole
from tuneplane.registry.layout import FILE_MODE, PARTS, Registry

LEFTOVER_SECONDS = 86400
_OURS = re.compile(
    r"\.(CURRENT|CHECKED|LOCK\.holder|serials|catalogs|artifacts|methods|files|sites|index\.json|clock|filelock-probe"
    r"|\d{8}\.json|[0-9a-f]{12}|[0-9a-f]{64})[.-]"
)


_RUNTIME = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._+-]*\.[a-z0-9_]{8}\Z")
"""Folders of runtime ids that have not got their name yet."""


def sweep(registry: Registry, *, deep: bool = False) -> None:
    """Remove temporary files and folders of ours once they are a day old by the filesystem's own clock.

    deep: also in every catalog, where one is left only by a publisher that was killed while it mended something.
    """
    folders = [registry.root, registry.serials, registry.catalogs, *_artifacts(registry)]
    folders += _catalogs(registry) if deep else ()
    found = [entry for folder in folders for entry in _leftovers(folder)]
    found += _leftovers(registry.artifacts, _RUNTIME)
    now = _clock(registry) if found else None
    for entry in found:
        with suppress(OSError):
            if now is None or now - entry.stat(follow_symlinks=False).st_mtime <= LEFTOVER_SECONDS:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _artifacts(registry: Registry) -> list[Path]:
    with suppress(OSError):
        return [registry.artifacts, *registry.artifacts.iterdir()]
    return []


def _catalogs(registry: Registry) -> Iterator[Path]:
    with suppress(OSError):
        for folder in registry.catalogs.iterdir():
            yield from (folder, *(folder / name for name in PARTS))


def _leftovers(folder: Path, ours: re.Pattern[str] = _OURS) -> list[os.DirEntry[str]]:
    with suppress(OSError):
        return [entry for entry in os.scandir(folder) if ours.match(entry.name)]
    return []


def _clock(registry: Registry) -> float | None:
    """The filesystem's time, which need not be this host's."""
    probe = registry.catalogs / f".clock.{os.getpid()}.{time.time_ns()}"
    with suppress(OSError):
        write_whole(probe, b"", FILE_MODE)
        now = probe.stat().st_mtime
        probe.unlink()
        return now
    return None
