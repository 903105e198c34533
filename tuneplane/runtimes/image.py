"""The image file of a run: the user's, the one that is registered, or the site's."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tuneplane.catalog.requires import required_name
from tuneplane.errors import ImageError, shown
from tuneplane.plan.model import NOT_REGISTERED, Image
from tuneplane.registry.artifact import Artifact
from tuneplane.runtimes.identity import measured, trouble
from tuneplane.sites.kinds import STARTED_BY
from tuneplane.sites.model import Site

_RECORD = re.compile(r"record (\d+) of (\S+)")


@dataclass(frozen=True)
class Wanted:
    """What a run asks for. given: a file that the user names, and `by` which word; requires: of the framework version."""

    runtime_id: str
    arch: str
    requires: tuple[str, ...] = ()
    given: str | None = None
    by: str = "--image"


def named_image(
    wanted: Wanted, site: Site, registered: Mapping[str, Artifact], record: int = 0
) -> Image | None:
    """The image by the user's word, by the registry, or by the site file, without a look at any file.

    registered: what is in force for the runtime id, by slot; record: the one that says so. One that nobody names has no
    path; None when there is no runtime id either.
    """
    runtime_id = wanted.runtime_id
    if wanted.given is not None:
        return Image(os.path.abspath(wanted.given), runtime_id, wanted.by)
    for kind in STARTED_BY.get(site.runtime.kind, ()):
        if held := registered.get(f"{kind}-{wanted.arch}"):
            return of_artifact(held, record, wanted.requires)
    if runtime_id in site.runtime.images:
        return Image(site.runtime.images[runtime_id], runtime_id, f"site image of {runtime_id}")
    if not runtime_id:
        return None
    others = ", ".join(sorted(registered))
    return Image(runtime_id, runtime_id, NOT_REGISTERED, trouble=others)


def of_artifact(artifact: Artifact, record: int, requires: Iterable[str]) -> Image:
    """A registered image, as its record says."""
    return Image(
        artifact.path,
        artifact.runtime_id,
        f"record {record} of {artifact.runtime_id}",
        artifact.sha256,
        artifact.size,
        artifact.samples,
        artifact.format,
        artifact.arch,
        _held(artifact.packages, requires),
    )


def record_of(image_source: str) -> tuple[str, int] | None:
    """Runtime id and number of the record that an image's source names; None for another source."""
    match = _RECORD.fullmatch(image_source)
    return (match[2], int(match[1])) if match else None


def _held(packages: Mapping[str, str] | None, requires: Iterable[str]) -> tuple[tuple[str, str], ...] | None:
    if packages is None:
        return None
    names = (required_name(text) for text in requires)
    return tuple((name, packages.get(name, "")) for name in sorted(names))


def found_image(named: Image | None, registered: Mapping[str, Artifact]) -> Image | None:
    """The image with what its file says; a file that is not there says nothing.

    Raises ImageError for what is no image.
    """
    if named is None or named.source == NOT_REGISTERED:
        return named
    if record_of(named.source):
        return replace(named, trouble=trouble(registered[f"{named.format}-{named.arch}"]))
    return with_digest(named)


def sha256_of(path: str) -> str | None:
    """The digest of a file whatever it holds, None where there is none. Raises ImageError when it cannot be read."""
    try:
        return measured(path, os.stat(path)).sha256
    except OSError:
        return None


def with_digest(image: Image) -> Image:
    """The image with digests, size, format and architecture of its file, as it is where there is none.

    Raises ImageError.
    """
    try:
        status = os.stat(image.path)
    except OSError:
        return image
    if not stat.S_ISREG(status.st_mode):
        raise ImageError.of(f"{shown(image.path, 400)} is not a file", image.source, "a SIF or SQSH image")
    from tuneplane.runtimes.formats import facts_of

    try:
        facts, found = facts_of(image.path), measured(image.path, status)
    except ImageError as error:
        raise ImageError(*(replace(problem, where=image.source) for problem in error.problems)) from None
    return replace(
        image,
        sha256=found.sha256,
        size=found.size,
        samples=found.samples,
        format=facts.format,
        arch=facts.arch,
    )
