"""Which runtime ids there are, and whether this site has an image for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from tuneplane.in_force import catalog_of
from tuneplane.registry import shelf
from tuneplane.registry.admission import registry_of
from tuneplane.registry.artifact import Artifact
from tuneplane.runtimes.registering import methods_of
from tuneplane.sites.kinds import STARTED_BY
from tuneplane.sites.load import NamedSite


@dataclass(frozen=True)
class Row:
    """One runtime id. image: what this site starts, in words; usable: whether that is a file that is there."""

    runtime_id: str
    image: str
    usable: bool
    slots: list[str] = field(default_factory=list)
    path: str = ""
    python: str = ""
    methods: list[str] = field(default_factory=list)

    @property
    def methods_text(self) -> str:
        return ", ".join(dict.fromkeys(name.split(" ")[0] for name in self.methods)) or "-"


def listing(named_site: NamedSite) -> list[Row]:
    """A row for each runtime id of the catalog, the site file and the registry."""
    methods = methods_of(catalog_of(named_site))
    registry = registry_of(named_site) if named_site.registry is not None else None
    kept = shelf.runtime_ids(registry) if registry else []
    rows = []
    for runtime_id in sorted({*methods, *kept, *named_site.site.runtime.images}):
        newest = shelf.newest(registry, runtime_id) if registry and runtime_id in kept else None
        names = [name for name, _ in methods.get(runtime_id, [])]
        rows.append(_row(named_site, runtime_id, newest.current if newest else {}, names))
    return rows


def _row(named_site: NamedSite, runtime_id: str, current: dict[str, Artifact], methods: list[str]) -> Row:
    site = named_site.site
    archs = {profile.arch for profile in site.profiles.values()}
    slots = [f"{kind}-{arch}" for kind in STARTED_BY.get(site.runtime.kind, ()) for arch in sorted(archs)]
    held = next((current[slot] for slot in slots if slot in current), None)
    if held is not None:
        there = os.path.isfile(held.path)
        words = held.slot if there else f"{held.slot}, its file is gone"
        return Row(runtime_id, words, there, sorted(current), held.path, held.python, methods)
    path = site.runtime.images.get(runtime_id, "")
    if path:
        there = os.path.isfile(path)
        return Row(
            runtime_id, "site file" if there else "site file, gone", there, sorted(current), path, "", methods
        )
    if site.runtime.kind == "host":
        return Row(runtime_id, "none: this site runs on the host", False, sorted(current), "", "", methods)
    others = f"none, only {', '.join(sorted(current))}" if current else "none"
    return Row(runtime_id, others, False, sorted(current), "", "", methods)
