"""Removing what is old, in two steps: a serial names it, and a later run removes what an earlier one named."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress

from tuneplane.errors import LockError
from tuneplane.registry.courtesy import courtesy
from tuneplane.registry.history import condemned, has_files
from tuneplane.registry.layout import GC, SHA256, Publication, Registry
from tuneplane.registry.publishing import Decision, publish
from tuneplane.registry.reading import history, newest
from tuneplane.registry.refresh import Outcome, check_trust, may_publish
from tuneplane.registry.sweep import sweep


def collect(registry: Registry, keep_seconds: int) -> tuple[Outcome, list[str]]:
    """Name in a publication what is to go, and remove what an earlier run named.

    Only starter and driver files go: the texts of recipes and sites stay for every serial. Catalogs that no serial has,
    left by publishers that were killed, are treated likewise. Returns the outcome and the digests whose files were
    removed. Raises Busy, LockError.
    """
    may_publish(registry)
    check_trust(registry)
    if newest(registry) is None:
        raise LockError.of("nothing is published")
    with courtesy(registry) as note:
        sweep(registry, deep=True)
        named = condemned(history(registry))
        removed = [digest for digest in sorted(named) if _remove(registry, digest)]

        def decide(parent: Publication | None) -> Decision | None:
            assert parent is not None
            named = _superfluous(registry, history(registry, parent), keep_seconds)
            return (
                (parent.digest, GC, {"remove": named, **parent.inherited("held", "held_by")})
                if named
                else None
            )

        latest, made = publish(registry, decide)
        assert latest is not None
        return Outcome(latest, made, (note,) if note else ()), removed


def _superfluous(registry: Registry, serials: Sequence[Publication], keep_seconds: int) -> list[str]:
    """Catalogs that have files, were in force at no time since `keep_seconds` ago, and are not named yet."""
    now = time.time()
    ends = [now, *(p.published_at for p in serials)]
    in_use = {p.digest for p, end in zip(serials, ends, strict=False) if now - end < keep_seconds}
    known = {p.digest for p in serials}
    with suppress(OSError):
        for folder in registry.catalogs.iterdir():
            if folder.name not in known and SHA256.match(folder.name):
                old = now - folder.stat().st_mtime >= keep_seconds
                known |= {folder.name} if old else set()
    return sorted(d for d in known - in_use - condemned(serials) if has_files(registry, d))


def _remove(registry: Registry, digest: str) -> bool:
    """Remove a catalog's files; whether there were any and they are gone."""
    place = registry.catalog(digest) / "files"
    if not SHA256.match(digest) or not place.is_dir():
        return False
    shutil.rmtree(place, ignore_errors=True)
    return not place.is_dir()
