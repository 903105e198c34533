"""The catalog in force: read from folders, checked once, and kept compiled in the user's cache."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.catalog.manifest import Manifest, Text
from tuneplane.catalog.source import Layer, Source, gather
from tuneplane.documents.shape import checked, construct, document, fingerprint
from tuneplane.errors import InputError, Problem, nearest, shown
from tuneplane.resources import bundled


@document
class Entry:
    """One line of the index."""

    name: str
    title: Text
    summary: Text
    category: str
    data: str
    default: str
    versions: list[str]
    folders: list[str]


@dataclass(frozen=True)
class Catalog:
    """All methods of some recipe folders. Manifests are read one by one, when asked for."""

    layers: tuple[Layer, ...]

    @cached_property
    def _key(self) -> str:
        parts = []
        for layer in self.layers:
            parts += [str(layer.root), *(part for item in layer.files.items() for part in item)]
        return cache_key("catalog", fingerprint(Manifest), fingerprint(Entry), *parts)

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The index. Raises InputError with every fault of every manifest when one is invalid."""
        stored = cache_get(f"{self._key}.index")
        data = json.loads(stored) if stored else self._compiled()
        return {item["name"]: construct(Entry, item) for item in data}

    def manifest(self, method: str) -> Manifest:
        """The manifest of a method. Raises InputError for an unknown one."""
        self.entry(method)
        stored = cache_get(f"{self._key}.{method.replace('/', '.')}")
        if stored is None:
            return checked(Manifest, gather(self.layers)[method].tree)
        return construct(Manifest, json.loads(stored))  # type: ignore[no-any-return]

    def entry(self, method: str) -> Entry:
        """The method's line in the index. Raises InputError for an unknown one, with the nearest name."""
        if method in self.entries:
            return self.entries[method]
        close = nearest(method, self.entries)
        raise InputError.of(
            f"there is no method {shown(method)}" + (f", did you mean `{close}`?" if close else ""),
            hint="tp methods",
        )

    def starter(self, method: str) -> Path | None:
        """The topmost folder with starter files of the method, or None."""
        folders = [Path(folder, "starter") for folder in self.entry(method).folders]
        return next((folder for folder in reversed(folders) if folder.is_dir()), None)

    def _compiled(self) -> list[dict[str, Any]]:
        """Check every manifest and store index and manifests in the cache."""
        sources = gather(self.layers)
        problems: list[Problem] = []
        manifests: dict[str, Manifest] = {}
        for name, source in sources.items():
            try:
                manifests[name] = _checked(source)
            except InputError as error:
                problems.extend(error.problems)
        if problems:
            raise InputError(*problems)
        index = [_line(manifest, sources[name]) for name, manifest in manifests.items()]
        for name, manifest in manifests.items():
            cache_put(
                f"{self._key}.{name.replace('/', '.')}", json.dumps(dataclasses.asdict(manifest)).encode()
            )
        cache_put(f"{self._key}.index", json.dumps(index).encode())
        return index


def load_catalog(overlays: Sequence[Path] = ()) -> Catalog:
    """The bundled recipes with the site's `overlays` laid over them, in their order."""
    return Catalog(tuple(Layer.read(root) for root in (bundled("recipes"), *overlays)))


def _checked(source: Source) -> Manifest:
    from tuneplane.catalog.check import Checker

    manifest = checked(Manifest, source.tree)
    problems = list(Checker(manifest, source.tree, source.name).problems())
    if problems:
        raise InputError(*problems)
    return manifest


def _line(manifest: Manifest, source: Source) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "title": dataclasses.asdict(manifest.title),
        "summary": dataclasses.asdict(manifest.summary),
        "category": manifest.category,
        "data": manifest.data.kind,
        "default": manifest.framework.default,
        "versions": list(manifest.framework.versions),
        "folders": [str(folder) for folder in source.folders],
    }
