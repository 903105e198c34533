"""Registries and contents that tests of several rooms build their cases from."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.registry.content import Content
from tuneplane.registry.history import content_of
from tuneplane.registry.layout import Publication, Registry
from tuneplane.registry.reading import history, newest
from tuneplane.registry.refresh import refresh

DAY = 86400
OWN = frozenset({0, os.getuid()})


def content(word: str, methods: int = 2) -> Content:
    """A publication all of whose parts say `word`, so that a mixture of two is seen."""
    made = Content()
    lines = []
    for i in range(methods):
        starter = {"main.py": [made.add("files", f"{word} starter {i}".encode()), False]}
        manifest = made.add("methods", f"{word} manifest {i}".encode())
        lines.append(
            {"name": f"toy/m{i}", "word": word, "versions": ["1"], "manifest": manifest, "starter": starter}
        )
    head = {"schema": 1, "sites": {"here": made.add("sites", f"{word} site".encode())}}
    made.index = "\n".join(
        ["[", ",\n".join(json.dumps(x, separators=(",", ":")) for x in (head, *lines)), "]", ""]
    ).encode()
    return made


def word_of(registry: Registry, made: Publication) -> str:
    """The word of a publication, every part of which has been read."""
    found = content_of(registry, made)
    words = {part.split()[0].decode() for part in found.parts.values()}
    words |= {line["word"] for line in json.loads(found.index)[1:]}
    assert len(words) == 1, f"a mixture: {words}"
    return words.pop()


def read_word(registry: Registry) -> str:
    """The word of what is in force."""
    made = newest(registry)
    assert made is not None
    return word_of(registry, made)


def site_read(registry: Registry) -> str:
    """What a reader through the catalog's own interface gets of one part."""
    made = newest(registry)
    assert made is not None
    return PublishedCatalog(registry, made).site_text("here") or ""


def publish_all(registry: Registry, *words: str) -> None:
    for word in words:
        assert refresh(registry, content(word)).made


def chain(registry: Registry) -> list[Publication]:
    """All publications, the oldest first, each held to be the child of the one before."""
    found = history(registry)[::-1]
    assert [p.serial for p in found] == list(range(1, len(found) + 1))
    assert [p.parent for p in found] == ["", *(p.digest for p in found)][: len(found)]
    assert len({p.nonce for p in found}) == len(found)
    return found


def backdate(registry: Registry, serial: int, seconds: int) -> None:
    """Let a serial say that it was published so long ago."""
    file = registry.serial(serial)
    data = json.loads(file.read_text())
    data["published_at"] -= seconds
    file.write_text(json.dumps(data))


def age_leftovers(root: Path, seconds: int = 2 * DAY) -> None:
    """Let everything whose name begins with a dot be so old."""
    then = time.time() - seconds
    for place in root.rglob(".*"):
        os.utime(place, (then, then), follow_symlinks=False)


_NAMES = re.compile(
    r"(CURRENT|CHECKED|LOCK|serials|catalogs|artifacts|serials/\d{8}\.json(/serial\.json)?"
    r"|artifacts/[A-Za-z0-9][A-Za-z0-9._+-]*(/\d{8}\.json(/serial\.json)?)?"
    r"|catalogs/[0-9a-f]{64}(/index\.json|/(methods|files|sites)(/[0-9a-f]{64})?)?)\Z"
)


def strangers(registry: Registry) -> list[str]:
    """What lies in a registry that does not belong there."""
    names = (path.relative_to(registry.root).as_posix() for path in registry.root.rglob("*"))
    return sorted(name for name in names if not _NAMES.match(name))
