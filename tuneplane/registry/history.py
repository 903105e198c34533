"""What the serials together say of catalogs: which are in force, which may be removed, what an earlier one held."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from tuneplane.errors import LockError
from tuneplane.registry.content import Content
from tuneplane.registry.layout import GC, INDEX_FILE, Publication, Registry
from tuneplane.registry.reading import history, patiently, verified


def condemned(serials: Sequence[Publication]) -> set[str]:
    """The catalogs that some serial has named for removal: no later publication names them again.

    Who publishes has read all serials before its own, and a serial exists once. So nothing that is in force, or ever
    will be, is removed, whatever else happens at the same time.
    """
    return {digest for p in serials if p.action == GC for digest in p.details.get("remove", [])}


def is_condemned(registry: Registry, digest: str, parent: Publication | None) -> bool:
    """Whether a serial up to `parent` has named the catalog for removal; also when not all of them can be read.

    A catalog's folder stays for ever, so what has none is new and the serials need not be read.
    """
    try:
        os.lstat(registry.catalog(digest))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return parent is not None and digest in condemned(history(registry, parent))
    except LockError:
        return True


def has_files(registry: Registry, digest: str) -> bool:
    """Whether the starter files of a catalog are still there."""
    return (registry.catalog(digest) / "files").is_dir()


def content_of(registry: Registry, made: Publication) -> Content:
    """What a publication holds, read whole. Raises LockError when something of it is gone or damaged."""
    if not has_files(registry, made.digest):
        raise LockError.of(f"the starter files of serial {made.serial} have been removed")
    folder = registry.catalog(made.digest)

    def part(path: str, digest: str) -> bytes:
        return patiently(
            lambda: verified(folder / path, digest), f"{path[:20]} of serial {made.serial}", made.published_at
        )

    content = Content(part(INDEX_FILE, made.digest))
    head, *lines = json.loads(content.index)
    wanted = [("sites", digest) for digest in head["sites"].values()]
    for line in lines:
        wanted += [
            ("methods", line["manifest"]),
            *(("files", digest) for digest, _ in line["starter"].values()),
        ]
    for kind, digest in wanted:
        content.add(kind, part(f"{kind}/{digest}", digest))
    return content
