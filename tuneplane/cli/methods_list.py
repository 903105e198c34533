"""Lists of methods, by their frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tuneplane.catalog.kinds import KINDS
from tuneplane.cli.cells import indented, row_lines, widths_of
from tuneplane.cli.labels import label
from tuneplane.cli.output import clean

if TYPE_CHECKING:
    from tuneplane.catalog.interface import Entry

    _Row = tuple[Entry, list[str]]

ENOUGH = 44
"""Cells that the last column of a table has; with less it stands below the others."""
_INDENT = 2


def listing(entries: Iterable[Entry], lang: str, cells: int) -> list[str]:
    """Every method with the kind of its data and what it does."""
    rows = [(entry, [entry.name, entry.data, entry.summary.read(lang)]) for entry in entries]
    return _grouped(rows, ["METHOD", "DATA", "WHAT IT DOES"], lang, cells)


def of_kind(kind: str, entries: Iterable[Entry], free: Sequence[str], lang: str, cells: int) -> list[str]:
    """What can be started from a kind of data, and when. free: methods that take any, for want of others."""
    made = KINDS[kind]
    lines = indented(f"{made.title.read(lang)}{label(': ', lang)}{made.line.read(lang)}", 0, cells)
    rows = [(entry, [entry.name, (entry.use or entry.summary).read(lang)]) for entry in entries]
    if rows:
        return [*lines, "", *_grouped(rows, ["METHOD", "WHEN TO USE IT"], lang, cells)]
    none = label("no method here starts from it; any data is taken by", lang)
    return [*lines, "", *indented(f"{none} {', '.join(free)}", 0, cells)]


def versions_of(default: str, versions: Sequence[str], lang: str) -> str:
    """The default version, and the others."""
    more = [version for version in versions if version != default]
    return default + (label(", also ", lang) + ", ".join(more) if more else "")


def _grouped(rows: Sequence[_Row], head: Sequence[str], lang: str, cells: int) -> list[str]:
    """The rows under their frameworks: as a table, or each over several lines where that would be too narrow."""
    titles = [label(text, lang) for text in head]
    shown = [[" " * _INDENT + row[0], *row[1:]] for _, row in rows]
    widths = widths_of([titles, *shown])
    wide = cells - sum(widths) - 2 * len(widths) >= ENOUGH
    lines = row_lines(titles, widths, cells) if wide else []
    for (framework, default, versions), members in groupby(sorted(rows, key=_place), key=_place):
        title = f"{framework} {versions_of(default, versions, lang)}"
        lines += [*([""] if lines else []), *indented(title, 0, cells)]
        for _, row in members:
            row = [" " * _INDENT + row[0], *row[1:]]
            lines += row_lines(row, widths, cells) if wide else _stacked(row, widths, cells)
    return [clean(line) for line in lines]


def _place(row: _Row) -> tuple[str, str, tuple[str, ...]]:
    entry = row[0]
    return entry.name.partition("/")[0], entry.default, tuple(entry.versions)


def _stacked(row: Sequence[str], widths: Sequence[int], cells: int) -> list[str]:
    """A row whose last column stands below the others."""
    return [*row_lines(row[:-1], widths[:-1], cells), *indented(row[-1], 3 * _INDENT, cells)]
