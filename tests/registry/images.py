"""Registered images of the tests: artifacts whose files nobody looks at."""

from __future__ import annotations

from typing import Any

from tuneplane.registry.artifact import Artifact, Seen
from tuneplane.registry.layout import Registry
from tuneplane.registry.shelf import Shelf, history

ID = "toy-2.0.0"


def artifact(word: str = "a", **fields: Any) -> Artifact:
    """One all of whose facts say `word`."""
    base: dict[str, Any] = {
        "runtime_id": ID,
        "format": "sif",
        "arch": "x86_64",
        "path": f"/images/{word}.sif",
        "sha256": word[0] * 64,
        "size": 10,
        "samples": word[0] * 64,
        "mtime": 1,
        "seen": Seen("login", "/ ext4 /dev/root", 1, 2, 3),
        "registered_at": 5,
        "by": f"{word}@login",
        "labels": {"word": word, "世界": "é"},
        "packages": {"torch": "2.14.0"},
    }
    return Artifact(**{**base, **fields})


def words(shelf: Shelf | None) -> dict[str, str]:
    """Slot → word of what is in force; every fact of an image must say the same word."""
    found = {}
    for slot, held in (shelf.current if shelf else {}).items():
        said = {held.labels["word"], held.by.split("@")[0], held.path.split("/")[-1].split(".")[0]}
        assert len(said) == 1 and slot == held.slot, f"a mixture: {said}"
        found[slot] = said.pop()
    return found


def rows(registry: Registry, runtime_id: str = ID) -> list[Shelf]:
    """All records, the oldest first, each with its own number and nonce."""
    found = history(registry, runtime_id)[::-1]
    assert [shelf.serial for shelf in found] == list(range(1, len(found) + 1))
    assert len({shelf.nonce for shelf in found}) == len(found)
    assert all(shelf.before < shelf.serial for shelf in found)
    return found
