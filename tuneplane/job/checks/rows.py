"""The first rows of a JSON or JSON Lines file, by its content as `datasets` 5.2 reads it, whatever its name says.

Rows stand in one array, or one after the other with white space between them, often a line each. No more than
`MAX_BYTES` are read: what lies behind is not looked at.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import IO, Any, Iterator, Tuple

MAX_BYTES = 16 << 20
_FIRST_BYTES = 256 << 10
_BLANKS = re.compile(r"[ \t\r\n]*")
# Whole numbers of thousands of digits are refused by newer Pythons; nobody needs their value here.
_DECODER = json.JSONDecoder(parse_int=float)
_CUT = 16
"""Closer to the end than this a fault may be that the rest was not read: a number, a word, an escape."""


class Malformed(Exception):
    """The file cannot be read as rows: a sentence whose subject is the file, or with a row the row in it."""

    def __init__(self, why: str, row: int = 0) -> None:
        super().__init__(why)
        self.why, self.row = why, row


class NotTold(Exception):
    """What the file holds cannot be told here, which is nobody's fault: a sentence whose subject is the file."""


class _Enough(Exception):
    """As much was read as may be read."""


def first_rows(file: IO[bytes], most: int) -> Iterator[Tuple[int, Any]]:
    """(number, value) of at most `most` rows: the line on which a row begins, for an array the place in it, from 1.

    Raises Malformed when the file goes wrong before that, NotTold when not one row could be read, and OSError.
    """
    text = _Text(file)
    rows = 0
    try:
        at = text.past_blanks(0)
        # what begins otherwise is a list for a row
        array = text.at(at) == "[" and text.at(text.past_blanks(at + 1)) in "{]"
        for rows, found in enumerate((_items if array else _sequence)(text, at), 1):
            yield found
            if rows == most:
                return
    except _Enough:
        if not rows:
            raise NotTold(f"has a first row of more than {MAX_BYTES >> 20} MiB") from None


def _sequence(text: _Text, at: int) -> Iterator[Tuple[int, Any]]:
    line, counted = 1, 0
    while text.at(at):
        line, counted = line + text.count_lines(counted, at), at
        value, at = text.value(at, line)
        yield line, value
        at = text.past_blanks(at)


def _items(text: _Text, at: int) -> Iterator[Tuple[int, Any]]:
    number, at = 0, text.past_blanks(at + 1)
    while number or text.at(at) != "]":
        number += 1
        value, at = text.value(at, number)
        yield number, value
        at = text.past_blanks(at)
        if text.at(at) == "]":
            break
        if text.at(at) != ",":
            raise text.fault(at, number)
        at = text.past_blanks(at + 1)
    end = text.past_blanks(at + 1)
    if text.at(end):
        raise text.fault(end, number)


class _Text:
    """The text of a file as far as it was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._text = ""
        self._bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._undecodable = False

    def at(self, place: int) -> str:
        """The character there, empty at the end of the file."""
        while place >= len(self._text):
            if not self._more():
                return ""
        return self._text[place]

    def past_blanks(self, place: int) -> int:
        """The first place from there that is no white space."""
        while True:
            match = _BLANKS.match(self._text, place)
            place = match.end() if match else place
            if place < len(self._text) or not self._more():
                return place

    def count_lines(self, start: int, end: int) -> int:
        """How many lines end between two places."""
        return self._text.count("\n", start, end)

    def value(self, place: int, row: int) -> Tuple[Any, int]:
        """The JSON value that begins there, and where it ends."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, place)
                # a number may go on
                whole = not isinstance(value, float) or end < len(self._text) - _CUT
                if whole or not self._more():
                    return value, end
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos > len(self._text) - _CUT
                if not cut or not self._more():
                    raise self.fault(error.pos, row) from None
            except RecursionError:
                raise Malformed("nests too deep to be read", row) from None

    def fault(self, place: int, row: int) -> Malformed:
        """What to say of a place where the text is no JSON any more."""
        line = 1 + self.count_lines(0, place)
        column = place - self._text.rfind("\n", 0, place)
        end = ", where the file ends" if place >= len(self._text) else ""
        return Malformed(f"is not JSON at line {line}, column {column}{end}", row)

    def _more(self) -> bool:
        """Read on, twice as far as before. False at the end of the file; raises _Enough, Malformed, OSError."""
        if self._undecodable:
            raise Malformed(f"is not UTF-8 text in line {1 + self.count_lines(0, len(self._text))}")
        size = min(max(self._bytes, _FIRST_BYTES), MAX_BYTES - self._bytes)
        data = self._file.read(size or 1)
        if data and not size:
            raise _Enough
        self._bytes += len(data)
        before = len(self._text)
        try:
            self._text += self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            self._undecodable = True
            self._text += error.object[: error.start].decode("utf-8", "ignore")
            return True
        return bool(data) or len(self._text) > before
