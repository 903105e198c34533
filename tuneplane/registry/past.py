"""What a method was in earlier publications."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuneplane.catalog.manifest import Manifest
from tuneplane.errors import LockError
from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.registry.reading import history


@dataclass(frozen=True)
class Published:
    """A method as one serial has it. starter: path → (sha256, executable)."""

    serial: int
    manifest: Manifest
    starter: dict[str, tuple[str, bool]]


def published_before(catalog: PublishedCatalog, method: str) -> Iterator[Published]:
    """Every different state of the method from the catalog in force backwards; what cannot be read is passed over."""
    try:
        publications = history(catalog.registry, catalog.publication)
    except LockError:
        publications = [catalog.publication]
    seen: set[str] = set()
    for publication in publications:
        if publication.digest in seen:
            continue
        seen.add(publication.digest)
        earlier = PublishedCatalog(catalog.registry, publication)
        try:
            named = earlier.digests(method)
            if named is None or repr(named) in seen:
                continue
            seen.add(repr(named))
            yield Published(publication.serial, earlier.manifest(method), named[1])
        except LockError:
            continue
