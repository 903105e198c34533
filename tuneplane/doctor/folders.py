"""The folders that runs need: there, writable, with space, on a clock that agrees with ours; and the secrets file."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Literal

from tuneplane.doctor.check import Check, of_problems
from tuneplane.errors import InputError, TuneplaneError, shown
from tuneplane.runs.folder import runs_folder
from tuneplane.sites.folders import place
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site
from tuneplane.sizes import parse_size

SMALL_SKEW_SECONDS, LARGE_SKEW_SECONDS = 3.0, 60.0
"""Network filesystems cut times to seconds; beyond the larger one heartbeats and ages of caches are misjudged."""


def folders(named_site: NamedSite) -> list[Check]:
    """Every folder of the site for the user at hand."""
    site = named_site.site
    return [*_runs(site), *_registry(named_site), *_models(site), *_secrets(site)]


def _runs(site: Site) -> list[Check]:
    folder = runs_folder(site)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    shows = shown(str(folder), 300)
    remedy = "a folder of yours under `folders: runs` of the site file"
    if not there.is_dir():
        return [Check("runs", f"{shown(str(there), 300)} is no folder", "bad", remedy)]
    if not os.access(there, os.W_OK | os.X_OK):
        how = "cannot be written" if there == folder else f"cannot be made: {there} cannot be written"
        return [Check("runs", f"{shows} {how}", "bad", remedy)]
    checks = [Check("runs", shows if there == folder else f"{shows} will be made")]
    try:
        return [*checks, *_space(site, there), _clock(there)]
    except OSError as error:
        return [Check("runs", f"{shows}: {error.strerror}", "bad")]


def _space(site: Site, folder: Path) -> list[Check]:
    """Free space and inodes against what the site asks of a node before a launch."""
    info = os.statvfs(folder)
    free, least = info.f_bavail * info.f_frsize, parse_size(site.preflight.run_folder)
    said = f"{_bytes(free)} free in {shown(str(folder), 300)}"
    clean = "remove old runs and their checkpoints"
    checks = [
        Check("space", said)
        if free >= least
        else Check("space", f"{said}, a run needs {_bytes(least)}", "bad", clean)
    ]
    # filesystems without a table of inodes say 0 of 0
    if info.f_files and info.f_favail < site.preflight.inodes:
        checks.append(
            Check("inodes", f"{info.f_favail} free, a run needs {site.preflight.inodes}", "bad", clean)
        )
    elif info.f_files:
        checks.append(Check("inodes", f"{info.f_favail} free"))
    return checks


def _clock(folder: Path) -> Check:
    """This machine's clock against the one that dates files there. Raises OSError."""
    before = time.time()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
        written = os.fstat(file.fileno()).st_mtime
    after = time.time()
    skew = written - after if written > after else min(0.0, written - before)
    said = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) <= SMALL_SKEW_SECONDS:
        return Check("clock", "this machine and the file server agree")
    level: Literal["note", "bad"] = "bad" if abs(skew) > LARGE_SKEW_SECONDS else "note"
    remedy = "let both follow the same time server (chrony, ntp)"
    return Check("clock", f"the file server's is {said}", level, remedy)


def _registry(named_site: NamedSite) -> list[Check]:
    from tuneplane.in_force import catalog_of, registry_warnings

    try:
        entries = len(catalog_of(named_site).entries)
        warnings = registry_warnings(named_site)
    except TuneplaneError as error:
        return of_problems("catalog", error.problems)
    where = (
        shown(str(named_site.registry), 300) if named_site.registry else "the bundled recipes and the site's"
    )
    checks = [Check("catalog", f"{entries} methods in {where}")]
    return checks + [Check("catalog", text, "note", "tp catalog refresh") for text in warnings]


def _models(site: Site) -> list[Check]:
    cache = place(site, site.folders.model_cache)
    if not cache:
        return []
    if os.access(cache, os.R_OK | os.X_OK):
        return [Check("model cache", shown(cache, 300))]
    what = "cannot be read" if os.path.exists(cache) else "is not there"
    return [Check("model cache", f"{shown(cache, 300)} {what}", "note", "Hub ids are not found without it")]


def _secrets(site: Site) -> list[Check]:
    from tuneplane.experiment.secrets import check_file

    file = Path(place(site, site.folders.secrets))
    if not os.path.lexists(file):
        return [Check("secrets", f"no file {shown(str(file), 300)}: only runs that ask for secrets need it")]
    try:
        check_file(file, [], where="")
    except InputError as error:
        return of_problems("secrets", error.problems, "user")
    return [Check("secrets", shown(str(file), 300))]


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
