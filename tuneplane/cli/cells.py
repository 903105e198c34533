"""Text laid out in a terminal's cells: a Chinese character takes two of them.

The standard library knows how wide characters are; tabulate counts them as one without a package that `tp` does not
need otherwise.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

MIN_COLUMNS, MAX_COLUMNS = 40, 140
"""Narrower than this nothing reads well, and wider lines are hard to follow."""
MIN_LAST = 20
"""A table's last column is not made narrower."""
_CLOSING = "，。、；：！？）】」』》〉”’,.;:!?)]}"
_OPENING = "（【「『《〈“‘([{"


def columns() -> int:
    """How many cells a line may have here."""
    return max(MIN_COLUMNS, min(shutil.get_terminal_size().columns, MAX_COLUMNS))


def width(text: str) -> int:
    """Cells that the text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


def padded(text: str, cells: int) -> str:
    """The text with blanks behind it up to that many cells."""
    return text + " " * (cells - width(text))


def wrapped(text: str, cells: int) -> list[str]:
    """The text in lines of at most that many cells; a word longer than a line stays whole."""
    lines, line = [], ""
    for piece in _pieces(text):
        if line and width(line) + width(piece.rstrip()) > cells:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line or not lines else lines


def _pieces(text: str) -> Iterator[str]:
    """What stays together: words with the blank behind them, wide characters with the marks around them."""
    piece = ""
    for character in text:
        if piece and _breaks(piece[-1], character):
            yield piece
            piece = ""
        piece += character
    if piece:
        yield piece


def _breaks(last: str, character: str) -> bool:
    """Whether a line may end between these two."""
    if character == " " or last == " ":
        return character != " "
    return 2 in (_cells(last), _cells(character)) and character not in _CLOSING and last not in _OPENING


def indented(text: str, by: int, cells: int, hang: int = 0) -> list[str]:
    """The text wrapped, each line behind that many blanks, and those after the first behind `hang` more."""
    first, *more = wrapped(text, cells - by - hang)
    return [" " * by + first, *(" " * (by + hang) + line for line in more)]


def table(rows: Sequence[Sequence[str]], cells: int) -> list[str]:
    """Columns as wide as what stands in them, the last one wrapped into what is left."""
    widths = widths_of(rows)
    return [line for row in rows for line in row_lines(row, widths, cells)]


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column but the last is."""
    return [max(map(width, column)) for column in list(zip(*rows, strict=True))[:-1]]


def row_lines(row: Sequence[str], widths: Sequence[int], cells: int) -> list[str]:
    """One row of a table, whose last column may take several lines."""
    start = sum(widths) + 2 * len(widths)
    before = "".join(padded(text, size) + "  " for text, size in zip(row[:-1], widths, strict=True))
    first, *more = wrapped(row[-1], max(cells - start, MIN_LAST))
    return [(before + first).rstrip(), *(" " * start + line for line in more)]
