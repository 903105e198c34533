"""The tree a document is read into: scalars, sequences and mappings with their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Mark:
    """A place in a document; lines count from 1, line 0 is the document as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def at(self, key: str) -> str:
        """The place with the key that stands there, as messages name it."""
        return f"{self} {key}" if key else str(self)


@dataclass(frozen=True)
class Scalar:
    """A value and the very text it was written as; `quoted` when the document says it is text."""

    value: bool | int | float | str | None
    text: str
    quoted: bool
    mark: Mark


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True)
class Mapping:
    """Keys keep the text they were written as: a key `0.10` stays `0.10`."""

    entries: dict[str, Node]
    marks: dict[str, Mark] = field(default_factory=dict)
    mark: Mark = field(default_factory=lambda: Mark(""))

    def mark_of(self, key: str) -> Mark:
        return self.marks.get(key, self.mark)


Node: TypeAlias = "Scalar | Sequence | Mapping"


def plain(node: Node) -> Any:
    """The node as ordinary Python data."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


def at(node: Node, path: tuple[str | int, ...]) -> tuple[Mark, str]:
    """The place of the deepest part of `path` that exists, and the dotted key of the whole path."""
    mark = node.mark
    for step in path:
        if isinstance(node, Mapping) and str(step) in node.entries:
            mark, node = node.mark_of(str(step)), node.entries[str(step)]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            mark = node.mark
        else:
            break
    return mark, ".".join(str(step) for step in path)


def find(node: Node, path: tuple[str | int, ...]) -> Node | None:
    """The value at `path`, or None when there is none."""
    for step in path:
        if isinstance(node, Mapping) and str(step) in node.entries:
            node = node.entries[str(step)]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def flatten(mapping: Mapping, prefix: str = "") -> Iterator[tuple[str, Node, Mark]]:
    """Leaves of nested and dotted mappings under their dotted keys."""
    for key, value in mapping.entries.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping) and value.entries:
            yield from flatten(value, name)
        else:
            yield name, value, mapping.mark_of(key)


def merged(base: Node, over: Node) -> Node:
    """`over` laid on `base`: mappings are joined key by key, everything else is replaced.

    Values keep the places they came from, so that a message about an inherited value names the shared file.
    """
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    entries, marks = dict(base.entries), dict(base.marks)
    for key, value in over.entries.items():
        entries[key] = merged(entries[key], value) if key in entries else value
        marks[key] = over.mark_of(key)
    return Mapping(entries, marks, over.mark)
