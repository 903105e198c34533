"""Registering an image file: it is read once, started once, and put on its shelf."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.requires import unmet
from tuneplane.errors import ImageError, shown
from tuneplane.registry import person
from tuneplane.registry.artifact import RUNTIME_ID, Artifact
from tuneplane.registry.layout import Registry
from tuneplane.registry.shelf import Shelf, may_put, put
from tuneplane.registry.trust import doubts
from tuneplane.runtimes.formats import Facts, architecture, facts_of
from tuneplane.runtimes.identity import seen
from tuneplane.runtimes.measure import cannot_read, measure
from tuneplane.runtimes.probe import Holding, probe
from tuneplane.sites.kinds import NAMES, SIF, STARTED_BY
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Wish:
    """What is to be registered. arch: as the admin says it, empty for what the file tells; python: the interpreter
    inside; look: whether the image is started once; built: what is known of how it was made, beside what it says itself.
    """

    runtime_id: str
    file: str
    arch: str = ""
    python: str = "python3"
    look: bool = True
    replace: bool = False
    built: Mapping[str, str] = field(default_factory=dict)


def check_id(runtime_id: str) -> None:
    """Raises ImageError for a word that is no runtime id."""
    if not RUNTIME_ID.match(runtime_id):
        expected = "letters, digits, `.`, `_`, `+` and `-`, such as `pytorch-2.14.0`"
        raise ImageError.of(f"{shown(runtime_id)} is no runtime id", expected=expected)


def register(
    registry: Registry, site: Site, wish: Wish, progress: Callable[[int], None] | None = None
) -> tuple[Artifact, Shelf, list[str]]:
    """The artifact, the record that has it, and what an admin should know of it.

    Raises ImageError for what is no image or cannot be started, LockError when the registry cannot be written.
    """
    check_id(wish.runtime_id)
    # where it really lies: a link could be made to lead elsewhere
    path = os.path.realpath(wish.file)
    if any("\ud800" <= char <= "\udfff" for char in path):
        raise ImageError.of(f"the path {shown(path, 400)} is not UTF-8", expected="another name")
    facts = facts_of(path)
    arch = _arch(path, facts, wish)
    may_put(registry, wish.runtime_id, f"{facts.format}-{arch}", replace=wish.replace)
    try:
        status = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from None
    measured = measure(path, progress)
    holding = probe(site, path, facts.format, wish.python) if wish.look else None
    artifact = Artifact(
        runtime_id=wish.runtime_id,
        format=facts.format,
        arch=arch,
        path=path,
        sha256=measured.sha256,
        size=measured.size,
        samples=measured.samples,
        mtime=int(status.st_mtime),
        seen=seen(path, status),
        registered_at=int(time.time()),
        by=person.signature(),
        compression=facts.compression,
        labels=facts.labels,
        built={**facts.built, **wish.built},
        python=holding.python if holding else "",
        packages=holding.packages if holding else None,
    )
    shelf = put(registry, artifact, replace=wish.replace)
    return artifact, shelf, list(_notes(registry, site, artifact, status, holding))


def _arch(path: str, facts: Facts, wish: Wish) -> str:
    told = facts.arch if facts.format == SIF else architecture(path)
    if told and wish.arch and told != wish.arch:
        raise ImageError.of(f"{shown(path, 400)} is for {told}, not for {wish.arch}", "--arch")
    if not told and not wish.arch:
        what = f"the architecture of {shown(path, 400)} cannot be told here"
        raise ImageError.of(what, hint=f"--arch {os.uname().machine}")
    return told or wish.arch


def _notes(
    registry: Registry, site: Site, artifact: Artifact, status: os.stat_result, holding: Holding | None
) -> Iterator[str]:
    if artifact.format not in STARTED_BY.get(site.runtime.kind, ()):
        yield f"this site starts images by {site.runtime.kind}, which takes no {NAMES[artifact.format]}"
    if artifact.arch not in {profile.arch for profile in site.profiles.values()}:
        yield f"no profile of this site is {artifact.arch}"
    if artifact.compression == "lzo":
        yield "it is compressed by lzo, which many kernels and squashfuse cannot read"
    uids = registry.uids if registry.uids is not None else {0, os.geteuid()}
    folder = Path(artifact.path).parent
    for place, looked in ((artifact.path, status), (str(folder), folder.stat())):
        if stat.S_ISDIR(looked.st_mode) and looked.st_mode & stat.S_ISVTX:
            continue
        for doubt in doubts(looked, uids, registry.gid):
            yield f"{shown(place, 300)} {doubt}: its owner could put another image there, and jobs would be refused"
    if holding is not None and not holding.python:
        yield "it has no Python that was found: only plain commands can run in it, on one node"


def methods_of(catalog: Catalog) -> dict[str, list[tuple[str, list[str]]]]:
    """Runtime id → (`method version`, what that asks of the image) of everything that runs in it."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for name in catalog.entries:
        for version, said in catalog.manifest(name).framework.versions.items():
            if said.runtime_id:
                found.setdefault(said.runtime_id, []).append((f"{name} {version}", said.requires))
    return found


def lacking(artifact: Artifact, methods: list[tuple[str, list[str]]]) -> Iterator[str]:
    """A sentence for each method that the image does not suffice for."""
    if artifact.packages is None:
        return
    for method, requires in methods:
        for requirement, held in unmet(requires, artifact.packages):
            yield f"{method} needs {requirement}, and the image {'holds ' + held if held else 'does not hold it'}"
