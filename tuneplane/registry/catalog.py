"""The catalog as a registry publishes it."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tuneplane import __version__
from tuneplane.catalog.interface import Entry, unknown_method
from tuneplane.catalog.manifest import Manifest
from tuneplane.documents.shape import construct
from tuneplane.errors import LockError, shown
from tuneplane.registry.layout import INDEX_FILE, SCHEMA, Publication, Registry
from tuneplane.registry.reading import history, patiently, verified

_NAME = re.compile(rb'^\{"name":("(?:[^"\\]|\\.)*"),', re.M)


@dataclass(frozen=True)
class PublishedCatalog:
    """The methods of one publication; nothing is read before it is asked for, and everything against its digest."""

    registry: Registry
    publication: Publication

    @property
    def origin(self) -> dict[str, Any]:
        """Where it was read from."""
        p = self.publication
        return {"registry": str(self.registry.root), "serial": p.serial, "digest": p.digest}

    @cached_property
    def _index(self) -> bytes:
        return self._read(INDEX_FILE, self.publication.digest, "the index")

    @cached_property
    def _head(self) -> dict[str, Any]:
        head: dict[str, Any] = json.loads(self._index.split(b"\n", 2)[1].rstrip(b","))
        if head.get("schema") != SCHEMA:
            raise self._newer(f"has schema {shown(head.get('schema'))}")
        return head

    @property
    def names(self) -> list[str]:
        """Every method's name; nothing else is parsed."""
        return [json.loads(name) for name in _NAME.findall(self._index)] if self._head else []

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The index."""
        texts = self._index.split(b"\n")[2:-2] if self._head else []
        lines = [json.loads(text.rstrip(b",")) for text in texts if text]
        return {line["name"]: _entry(line) for line in lines}

    def has(self, method: str) -> bool:
        """Whether there is such a method."""
        return self._line(method) is not None

    def manifest(self, method: str) -> Manifest:
        """The method's manifest. Raises InputError for an unknown one, LockError for one that a newer `tp` wrote."""
        data = json.loads(self._part("methods", self._needed(method)["manifest"]))
        try:
            return construct(Manifest, data)  # type: ignore[no-any-return]
        except (KeyError, TypeError, ValueError, AttributeError):
            core = data.get("requires", {}).get("core", "")
            raise self._newer(f"has {method} in a form that this tp does not know", core) from None

    def starter(self, method: str) -> dict[str, tuple[bytes, bool]]:
        """The method's starter files."""
        named = self._needed(method)["starter"]
        return {path: (self._part("files", digest), runs) for path, (digest, runs) in named.items()}

    def attached(self, method: str, digest: str) -> bytes:
        """What the method's manifest names by that sha256."""
        return self._part("files", digest)

    def digests(self, method: str) -> tuple[str, dict[str, tuple[str, bool]]] | None:
        """sha256 of the method's manifest, and path → (sha256, executable) of its starter files; None without it."""
        line = self._line(method)
        if line is None:
            return None
        return line["manifest"], {path: (digest, runs) for path, (digest, runs) in line["starter"].items()}

    def site_text(self, name: str) -> str | None:
        """The text of a published site file."""
        digest = self._head["sites"].get(name)
        return self._part("sites", digest).decode() if digest else None

    def last_serial(self, method: str, framework_version: str = "") -> int | None:
        """The last earlier serial that had the method, in that version; None when none had. Looks at all of them."""
        seen = {self.publication.digest}
        for earlier in history(self.registry, self.publication):
            if earlier.digest in seen:
                continue
            seen.add(earlier.digest)
            catalog = PublishedCatalog(self.registry, earlier)
            try:
                line = catalog._line(method)
            except LockError:
                continue
            if line and framework_version in ("", *line["versions"]):
                return earlier.serial
        return None

    def _line(self, method: str) -> dict[str, Any] | None:
        """The method's line, found without parsing the others: every line begins with the name."""
        start = self._index.find(f'\n{{"name":{json.dumps(method)},'.encode()) if self._head else -1
        if start < 0:
            return None
        end = self._index.index(b"\n", start + 1)
        line: dict[str, Any] = json.loads(self._index[start + 1 : end].rstrip(b","))
        return line

    def _needed(self, method: str) -> dict[str, Any]:
        line = self._line(method)
        if line is None:
            raise unknown_method(method, self.names)
        return line

    def _part(self, folder: str, digest: str) -> bytes:
        return self._read(f"{folder}/{digest}", digest, f"{folder}/{digest[:12]}")

    def _read(self, path: str, digest: str, what: str) -> bytes:
        place, p = self.registry.catalog(self.publication.digest) / path, self.publication
        return patiently(lambda: verified(place, digest), f"{what} of serial {p.serial}", p.published_at)

    def _newer(self, what: str, core: str = "") -> LockError:
        found = LockError.of(
            f"serial {self.publication.serial} {what}",
            str(self.registry.root),
            f"tuneplane {core or 'of the publisher or newer'}, this is {__version__}",
            f"pip install --upgrade 'tuneplane{core}'",
        )
        assert isinstance(found, LockError)
        return found


def _entry(line: dict[str, Any]) -> Entry:
    known = {field.name for field in dataclasses.fields(Entry)}
    return construct(Entry, {key: value for key, value in line.items() if key in known})  # type: ignore[no-any-return]
