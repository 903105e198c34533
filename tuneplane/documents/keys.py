"""Renaming keys of a YAML document in place: every byte outside the renamed keys stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tuneplane.documents.yaml import events, parse, scalar_starts
from tuneplane.errors import InputError, Problem, shown


@dataclass(frozen=True)
class Key:
    """A key of a section. start, end: its characters in the text; obstacle: why it cannot be renamed in place."""

    word: str
    line: int
    start: int
    end: int
    quote: str = ""
    obstacle: str = ""


def keys_of(text: str, section: str) -> list[Key]:
    """The keys of the mapping under the top-level key `section`, in their order; none where there is no mapping."""
    found, starts = events(text), scalar_starts(text)
    aliases = [event.anchor for event in found if isinstance(event, yaml.AliasEvent)]
    for at in _members(found, _root(found)):
        head, body = found[at], found[at + 1]
        if isinstance(head, yaml.ScalarEvent) and head.value == section:
            if isinstance(body, yaml.AliasEvent):
                return _of_alias(found, at + 1, section)
            if not isinstance(body, yaml.MappingStartEvent):
                return []
            shared = f"`{section}` is used again by an alias" if body.anchor in aliases else ""
            return [_key(found, i, starts, aliases, shared) for i in _members(found, at + 1)]
    return []


def renamed(text: str, name: str, section: str, words: Mapping[str, str]) -> str:
    """`text` with keys of the section replaced. words: key → new key, which YAML must take as it stands.

    Raises InputError naming the keys that cannot be renamed in place; `name` is what messages call the file.
    """
    keys = [key for key in keys_of(text, section) if words.get(key.word, key.word) != key.word]
    problems = [
        Problem(f"{shown(key.word)} cannot be renamed in place: {key.obstacle}", f"{name}:{key.line} {section}.{key.word}",
                f"the key {shown(words[key.word])}, written out")
        for key in keys
        if key.obstacle
    ]  # fmt: skip
    if problems:
        raise InputError(*problems)
    made = text
    for key in sorted(keys, key=lambda key: key.start, reverse=True):
        made = f"{made[: key.start]}{key.quote}{words[key.word]}{key.quote}{made[key.end :]}"
    _check(text, made, name, section, words)
    return made


def _check(text: str, made: str, name: str, section: str, words: Mapping[str, str]) -> None:
    """What was made says what the old text did, but for the keys. Raises InputError when it does not."""
    before, now = parse(text, name), parse(made, name)
    inner = before.entries.get(section)
    wanted = [words.get(key, key) for key in getattr(inner, "entries", ())]
    kept = {key: node for key, node in before.entries.items() if key != section}
    left = {key: node for key, node in now.entries.items() if key != section}
    values = list(getattr(inner, "entries", {}).values())
    there = getattr(now.entries.get(section), "entries", {})
    # by their representation: `.nan` is not equal to itself
    if repr(kept) != repr(left) or list(there) != wanted or repr(list(there.values())) != repr(values):
        raise InputError.of(
            f"the keys of `{section}` cannot be renamed in place", name, hint="rename them by hand"
        )


def _root(found: list[Any]) -> int:
    """Where the top-level mapping starts; the end of the events where the document is none."""
    return next((i for i, event in enumerate(found) if isinstance(event, yaml.NodeEvent)), len(found))


def _members(found: list[Any], start: int) -> Iterator[int]:
    """Where each key of the mapping that starts at `start` stands."""
    if start >= len(found) or not isinstance(found[start], yaml.MappingStartEvent):
        return
    at = start + 1
    while not isinstance(found[at], yaml.MappingEndEvent):
        yield at
        at = _after(found, _after(found, at))


def _after(found: list[Any], at: int) -> int:
    """Where the node after the one at `at` stands."""
    depth = 0
    while True:
        depth += isinstance(found[at], yaml.CollectionStartEvent) - isinstance(
            found[at], yaml.CollectionEndEvent
        )
        at += 1
        if depth == 0:
            return at


def _key(found: list[Any], at: int, starts: Mapping[int, int], aliases: list[Any], shared: str) -> Key:
    event = found[at]
    line, start, end = event.start_mark.line + 1, event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.AliasEvent):
        # the alias itself makes way for the name; what it stands for stays
        return Key(found[_anchored(found, at)].value, line, start, end, "", shared)
    if event.anchor in aliases:
        shared = f"its anchor `&{event.anchor}` is used by an alias"
    if event.style in ("|", ">"):
        shared = "it is written as a block"
    return Key(event.value, line, starts.get(end, start), end, event.style or "", shared)


def _anchored(found: list[Any], at: int) -> int:
    """Where the node of the alias at `at` stands: the last one before it with its anchor."""
    nodes = (yaml.ScalarEvent, yaml.CollectionStartEvent)
    return next(
        i
        for i in range(at - 1, -1, -1)
        if isinstance(found[i], nodes) and found[i].anchor == found[at].anchor
    )


def _of_alias(found: list[Any], at: int, section: str) -> list[Key]:
    """Keys of a section that is an alias: they stand elsewhere and cannot be renamed for this section alone."""
    obstacle = f"`{section}` is an alias of `&{found[at].anchor}`"
    keys: list[Any] = [found[i] for i in _members(found, _anchored(found, at))]
    scalars = [event for event in keys if isinstance(event, yaml.ScalarEvent)]
    return [Key(e.value, e.start_mark.line + 1 if e.start_mark else 0, 0, 0, "", obstacle) for e in scalars]
