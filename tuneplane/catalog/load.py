"""The catalog in force: read from folders, checked once, and kept compiled in the user's cache."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.catalog.interface import Entry, starter_name, unknown_method
from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.recipe import index_file
from tuneplane.catalog.source import Layer, Source, gather
from tuneplane.documents.shape import checked, construct, fingerprint
from tuneplane.errors import InputError, Problem
from tuneplane.files import sha256
from tuneplane.resources import bundled


@dataclass(frozen=True)
class SourceCatalog:
    """All methods of some recipe folders. Manifests are read one by one, when asked for."""

    layers: tuple[Layer, ...]

    @property
    def origin(self) -> None:
        """It is not published."""

    @cached_property
    def _key(self) -> str:
        parts = []
        for layer in self.layers:
            parts += [str(layer.root), *(part for item in layer.files.items() for part in item)]
            parts += [part for item in layer.tables.items() for part in item]
        return cache_key("catalog", fingerprint(Manifest), fingerprint(Entry), *parts)

    @cached_property
    def _index(self) -> dict[str, dict[str, Any]]:
        stored = cache_get(f"{self._key}.index")
        return {line["name"]: line for line in (json.loads(stored) if stored else self._compiled())}

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The index. Raises InputError with every fault of every manifest when one is invalid."""
        return {name: construct(Entry, _public(line)) for name, line in self._index.items()}

    def has(self, method: str) -> bool:
        return method in self._index

    def folders(self, method: str) -> list[Path]:
        """Where the method's manifest comes from, the topmost layer last. Raises InputError for an unknown one."""
        if method not in self._index:
            raise unknown_method(method, self._index)
        return [Path(folder) for folder in self._index[method]["folders"]]

    def manifest(self, method: str) -> Manifest:
        """The manifest of a method. Raises InputError for an unknown one."""
        self.folders(method)
        stored = cache_get(f"{self._key}.{method.replace('/', '.')}")
        if stored is None:
            return _checked(gather(self.layers)[method], self.layers)
        return construct(Manifest, json.loads(stored))  # type: ignore[no-any-return]

    def starter(self, method: str) -> dict[str, tuple[bytes, bool]]:
        """The files of the topmost layer that has a `starter/` for the method."""
        places = [folder / "starter" for folder in reversed(self.folders(method))]
        root = next((place for place in places if place.is_dir()), None)
        if root is None:
            return {}
        files = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {
            name.as_posix(): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
            for name, path in files.items()
            if starter_name(PurePosixPath(name.as_posix()))
        }

    def attached(self, method: str, digest: str) -> bytes:
        """Raises InputError for a file that changed since the catalog was read."""
        named = self.manifest(method).attached
        for name, held in named.items():
            if held == digest:
                data = find_attached(self.layers, method, name)
                if data is not None and sha256(data) == digest:
                    return data
                raise InputError.of(f"{name} of {method} changes while it is read", hint="the same once more")
        raise InputError.of(f"{method} has nothing with sha256:{digest}")

    def last_serial(self, method: str, framework_version: str = "") -> None:
        """Folders have no past."""

    def _compiled(self) -> list[dict[str, Any]]:
        """Check every manifest and store index and manifests in the cache."""
        sources = gather(self.layers)
        problems: list[Problem] = []
        manifests: dict[str, Manifest] = {}
        for name, source in sources.items():
            try:
                manifests[name] = _checked(source, self.layers)
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


def load_catalog(overlays: Sequence[Path] = ()) -> SourceCatalog:
    """The bundled recipes with the site's `overlays` laid over them, in their order."""
    return SourceCatalog(tuple(Layer.read(root) for root in (bundled("recipes"), *overlays)))


def _checked(source: Source, layers: Sequence[Layer]) -> Manifest:
    """The manifest with the digests of what lies beside it. Raises InputError with every fault."""
    from tuneplane.catalog.check import Checker

    manifest = checked(Manifest, source.tree)
    checker = Checker(manifest, source.tree, source.name)
    problems = list(checker.problems())
    found: dict[str, str] = {}
    for version in manifest.framework.versions:
        name = index_file(manifest, version)
        data = find_attached(layers, source.name, name) if name else None
        if data is not None:
            found[name] = sha256(data)
        elif name:
            problems.append(checker.problem(f"there is no table _keys/{name}", "config", "index"))
    if problems:
        raise InputError(*problems)
    return dataclasses.replace(manifest, attached=found)


def find_attached(layers: Sequence[Layer], method: str, name: str) -> bytes | None:
    """A table of upstream's keys, from the topmost layer that has it."""
    framework = method.partition("/")[0]
    for layer in reversed(layers):
        try:
            return (layer.root / framework / "_keys" / name).read_bytes()
        except OSError:
            continue
    return None


def _line(manifest: Manifest, source: Source) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "title": dataclasses.asdict(manifest.title),
        "summary": dataclasses.asdict(manifest.summary),
        "category": manifest.category,
        "data": manifest.data.kind,
        "default": manifest.framework.default,
        "versions": list(manifest.framework.versions),
        "use": dataclasses.asdict(manifest.use) if manifest.use else None,
        "folders": [str(folder) for folder in source.folders],
    }


def _public(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "folders"}
