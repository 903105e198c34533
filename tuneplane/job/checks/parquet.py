"""The columns of a Parquet file, from its footer, as parquet.apache.org/docs/file-format/metadata describes it.

The footer is a Thrift structure in the compact protocol. Only its beginning is read: the schema and the number of rows.
"""

from __future__ import annotations

import struct
from typing import IO, Any, Dict, List, NamedTuple, Tuple

from tuneplane.job.checks.rows import Malformed, NotTold

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_MAX_FOOTER = 16 << 20
_SCHEMA, _ROWS = 2, 3
_NAME, _CHILDREN = 4, 5
"""Fields of the footer, and of an element of its schema."""


class Table(NamedTuple):
    """columns: names, in groups with the names below them, else empty."""

    columns: Dict[str, Any]
    rows: int


def read_table(file: IO[bytes]) -> Table:
    """What the footer says. Raises Malformed, NotTold, OSError."""
    footer = _Thrift(_footer(file))
    try:
        schema, rows = footer.beginning()
        return Table(_tree(schema), rows)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        raise NotTold("has a footer that cannot be read here") from None


def _footer(file: IO[bytes]) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    if tail[4:] == _ENCRYPTED:
        raise NotTold("is encrypted")
    if tail[4:] != _MAGIC or size < 12:
        file.seek(0)
        whole = file.read(4) != _MAGIC
        raise Malformed(
            "is not a Parquet file" if whole else "is not a whole Parquet file: its end is missing"
        )
    length = int.from_bytes(tail[:4], "little")
    if length > size - 12:
        raise Malformed("is not a whole Parquet file: its footer is longer than the file")
    file.seek(size - 8 - length)
    return file.read(min(length, _MAX_FOOTER))


def _tree(elements: List[Dict[int, Any]]) -> Dict[str, Any]:
    """The schema, whose elements come parents first, as names in names."""
    rest = iter(elements)

    def below(count: int) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        for _ in range(count):
            element = next(rest, None)
            if element is None:
                raise ValueError("fewer elements than are counted")
            found[element[_NAME].decode("utf-8")] = below(element.get(_CHILDREN, 0))
        return found

    return below(next(rest, {}).get(_CHILDREN, 0))


class _Thrift:
    """A reader of the compact protocol; raises IndexError at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def beginning(self) -> Tuple[List[Dict[int, Any]], int]:
        """Schema and number of rows; what comes after them is left unread."""
        found: Dict[int, Any] = {}
        field = 0
        while not {_SCHEMA, _ROWS} <= found.keys():
            kind, field = self._header(field)
            if not kind:
                break
            found[field] = self._value(kind)
        return found[_SCHEMA], found[_ROWS]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise IndexError("the data ends")
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _header(self, last: int) -> Tuple[int, int]:
        """Type and number of the next field, type 0 at the end of a structure."""
        byte = self._byte()
        kind, step = byte & 0x0F, byte >> 4
        if not kind:
            return 0, last
        return kind, last + step if step else self._whole()

    def _value(self, kind: int, inside: bool = False) -> Any:
        """A value of a type; truth is in the type itself but `inside` a list."""
        if kind in (1, 2):
            return self._byte() == 1 if inside else kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list()
        if kind == 12:
            return self._structure()
        raise ValueError(f"the type {kind} is not expected here")

    def _list(self) -> List[Any]:
        byte = self._byte()
        count = byte >> 4 if byte >> 4 != 15 else self._varint()
        if count > len(self._data) - self._at:
            raise IndexError("the data ends")
        return [self._value(byte & 0x0F, inside=True) for _ in range(count)]

    def _structure(self) -> Dict[int, Any]:
        found: Dict[int, Any] = {}
        field = 0
        while True:
            kind, field = self._header(field)
            if not kind:
                return found
            found[field] = self._value(kind)
