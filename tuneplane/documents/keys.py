"""Where the keys of a section stand in a YAML document, and why one could not be written over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from tuneplane.documents.yaml import events, scalar_starts


@dataclass(frozen=True)
class Key:
    """A key of a section, its places counted in characters of the text.

    start, end: the key itself, with its quotes; value: what stands for it, from its anchor or tag to its end; inline:
    whether it stands in braces; obstacle: why the key cannot be another; fixed: why its value cannot.
    """

    word: str
    line: int
    start: int
    end: int
    quote: str = ""
    value: tuple[int, int] = (0, 0)
    inline: bool = False
    obstacle: str = ""
    fixed: str = ""


def keys_of(text: str, section: str) -> list[Key]:
    """The keys of the mapping under the top-level key `section`, in their order; none where there is no mapping."""
    found = _Found(text)
    for at in found.members(found.root()):
        head, body = found.events[at], found.events[at + 1]
        if isinstance(head, yaml.ScalarEvent) and head.value == section:
            if isinstance(body, yaml.AliasEvent):
                return list(found.behind_alias(at + 1, section))
            if not isinstance(body, yaml.MappingStartEvent):
                return []
            shared = f"`{section}` is used again by an alias" if body.anchor in found.aliases else ""
            return [found.key(i, shared, bool(body.flow_style)) for i in found.members(at + 1)]
    return []


class _Found:
    """The events of a text, which are its nodes in their order with a start and an end for each collection."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events = events(text)
        self.starts: Mapping[int, int] = scalar_starts(text)
        self.aliases = [event.anchor for event in self.events if isinstance(event, yaml.AliasEvent)]

    def root(self) -> int:
        """Where the top-level mapping starts; the end of the events where the document is none."""
        nodes = (i for i, event in enumerate(self.events) if isinstance(event, yaml.NodeEvent))
        return next(nodes, len(self.events))

    def members(self, start: int) -> Iterator[int]:
        """Where each key of the mapping that starts at `start` stands."""
        if start >= len(self.events) or not isinstance(self.events[start], yaml.MappingStartEvent):
            return
        at = start + 1
        while not isinstance(self.events[at], yaml.MappingEndEvent):
            yield at
            at = self.after(self.after(at))

    def after(self, at: int) -> int:
        """Where the node after the one at `at` stands."""
        depth = 0
        while True:
            event = self.events[at]
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            at += 1
            if depth == 0:
                return at

    def key(self, at: int, shared: str, inline: bool) -> Key:
        event = self.events[at]
        line, start, end = event.start_mark.line + 1, event.start_mark.index, event.end_mark.index
        value = (self.events[at + 1].start_mark.index, self.events[self.after(at + 1) - 1].end_mark.index)
        fixed = shared or self.fixed(at + 1, value)
        if isinstance(event, yaml.AliasEvent):
            # the alias itself makes way for the name; what it stands for stays
            word = self.events[self.anchored(at)].value
            return Key(word, line, start, end, "", value, inline, shared, fixed)
        if event.anchor in self.aliases:
            shared = f"its anchor `&{event.anchor}` is used by an alias"
        if event.style in ("|", ">"):
            shared = "it is written as a block"
        start = self.starts.get(end, start)
        return Key(event.value, line, start, end, event.style or "", value, inline, shared, fixed or shared)

    def fixed(self, at: int, value: tuple[int, int]) -> str:
        """Why the value at `at` cannot make way for another; empty when it can."""
        for event in self.events[at : self.after(at)]:
            anchor = None if isinstance(event, yaml.AliasEvent) else getattr(event, "anchor", None)
            if anchor in self.aliases:
                return f"the anchor `&{anchor}` of its value is used by an alias"
        spans = "\n" in self.text[value[0] : value[1]] or "\r" in self.text[value[0] : value[1]]
        return "its value spans several lines" if spans else ""

    def anchored(self, at: int) -> int:
        """Where the node of the alias at `at` stands: the last one before it with its anchor."""
        nodes = (yaml.ScalarEvent, yaml.CollectionStartEvent)
        anchor = self.events[at].anchor
        return next(
            i
            for i in range(at - 1, -1, -1)
            if isinstance(self.events[i], nodes) and self.events[i].anchor == anchor
        )

    def behind_alias(self, at: int, section: str) -> Iterator[Key]:
        """Keys of a section that is an alias: they stand elsewhere and cannot be others for this section alone."""
        why = f"`{section}` is an alias of `&{self.events[at].anchor}`"
        for i in self.members(self.anchored(at)):
            event = self.events[i]
            if isinstance(event, yaml.ScalarEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                yield Key(event.value, line, 0, 0, obstacle=why, fixed=why)
