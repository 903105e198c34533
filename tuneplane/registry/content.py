"""What one publication holds: an index with a line for each method, and everything it names by sha256."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneplane.files import write_whole
from tuneplane.registry.folders import cannot_write, make_folder, open_to_all
from tuneplane.registry.layout import FILE_MODE, INDEX_FILE, PARTS, SCHEMA, Registry

if TYPE_CHECKING:
    from tuneplane.catalog.load import SourceCatalog


@dataclass
class Content:
    """A publication in memory. index: the bytes whose sha256 names it; parts: path below its folder → bytes."""

    index: bytes = b""
    parts: dict[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(self.index)

    def add(self, folder: str, data: bytes) -> str:
        """Take `data` in under its digest, which is returned."""
        digest = sha256(data)
        self.parts[f"{folder}/{digest}"] = data
        return digest

    def again(self, word: str) -> Content:
        """The same content under another digest, that of an index with `word` in it; itself without a word."""
        if not word:
            return self
        opening, head, rest = self.index.split(b"\n", 2)
        comma = b"," if head.endswith(b",") else b""
        changed = {**json.loads(head.removesuffix(b",")), "again": word}
        return Content(b"\n".join([opening, _line(changed) + comma, rest]), self.parts)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build(catalog: SourceCatalog, sites: Mapping[str, bytes]) -> Content:
    """The publication of a catalog and of site files by name. Raises InputError when a manifest is invalid.

    The index is JSON with one line for each method, so that a reader finds a line among thousands without reading the
    others.
    """
    content = Content()
    lines = []
    for name, entry in catalog.entries.items():
        starter = catalog.starter(name)
        manifest = catalog.manifest(name)
        for digest in manifest.attached.values():
            content.add("files", catalog.attached(name, digest))
        line: dict[str, Any] = {
            **dataclasses.asdict(entry),
            "manifest": content.add("methods", _line(written(manifest))),
            "starter": {path: [content.add("files", data), runs] for path, (data, runs) in starter.items()},
        }
        lines.append(_line(line))
    named = {name: content.add("sites", data) for name, data in sorted(sites.items())}
    head = _line({"schema": SCHEMA, "sites": named})
    content.index = b"\n".join([b"[", head + (b"," if lines else b""), b",\n".join(lines), b"]", b""])
    return content


def written(value: Any) -> Any:
    """A document as JSON data without the fields that are as they are by default.

    So a `tp` that does not know a field yet reads what does not use it.
    """
    if dataclasses.is_dataclass(value):
        return {
            field.name: written(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, dict):
        return {key: written(item) for key, item in value.items()}
    return [written(item) for item in value] if isinstance(value, list) else value


def _default(field: dataclasses.Field[Any]) -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def store(registry: Registry, content: Content) -> None:
    """Put the publication's folder in its place, and what it lacks or has wrong into one that is there.

    A new one is made beside and renamed, so that it is there whole or not at all. Parts are named by their content:
    whoever writes one writes the same. Raises LockError.
    """
    target = registry.catalog(content.digest)
    try:
        if not target.is_dir():
            work = Path(tempfile.mkdtemp(prefix=f".{content.digest[:12]}.", dir=registry.catalogs))
            try:
                _fill(registry, work, content)
                open_to_all(work, registry.folder_mode, registry.gid)
                os.rename(work, target)
            except OSError:
                if not target.is_dir():
                    raise
            finally:
                shutil.rmtree(work, ignore_errors=True)
        _fill(registry, target, content)
    except OSError as error:
        raise cannot_write(registry, error) from None


def _fill(registry: Registry, folder: Path, content: Content) -> None:
    """Write the parts that are not in the folder as they should be, the index last; all readable by everybody."""
    for place in (folder, *(folder / name for name in PARTS)):
        make_folder(place, registry.folder_mode, registry.gid)
    for path, data in {**content.parts, INDEX_FILE: content.index}.items():
        if not _holds(folder / path, data):
            write_whole(folder / path, data, FILE_MODE)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data and not path.is_symlink()
    except OSError:
        return False
