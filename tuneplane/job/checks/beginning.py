"""The beginning of a data file as rows, by its suffix: values of JSON, the header of CSV, the schema of Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import os
import stat
import zlib
from typing import IO, Any, Callable, Dict, Iterator, List, Tuple

from tuneplane.job.checks.parquet import read_table
from tuneplane.job.checks.rows import Malformed, NotTold, first_rows

ROWS = 100
_HEADER_BYTES = 64 << 10
_POINTER = b"version https://git-lfs."

Rows = Iterator[Tuple[int, Any]]


def beginning(path: str) -> Rows:
    """(number, row) of the first rows; one row with the number 0 where a header or a schema speaks for all of them.

    Raises Malformed, which also a file without rows is, and NotTold when the format is not known.
    """
    name = path[:-3] if path.endswith(".gz") else path
    way = _WAYS.get(os.path.splitext(name)[1])
    if way is None:
        raise NotTold("has no suffix of a known format")
    number = -1
    try:
        with _opened(path) as file:
            for number, row in way(file):
                yield number, row
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise Malformed("is compressed and cannot be decompressed") from None
    except OSError as error:
        raise Malformed(f"cannot be read: {error.strerror}") from None
    if number < 0:
        raise Malformed("has no rows")


def _opened(path: str) -> IO[bytes]:
    """The file to read from. Raises OSError, and Malformed for what is no file of data."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            raise Malformed("is a folder, not a file" if stat.S_ISDIR(kind) else "is not a regular file")
        if os.pread(handle, len(_POINTER), 0) == _POINTER:
            raise Malformed("is a pointer of Git LFS, not the file itself")
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _seen_through(file: IO[bytes]) -> IO[bytes]:
    """What gzip holds, by the first bytes: a name does not always tell."""
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[return-value]


def _json(file: IO[bytes]) -> Rows:
    return first_rows(_seen_through(file), ROWS)


def _csv(file: IO[bytes]) -> Rows:
    data = _seen_through(file).read(_HEADER_BYTES)
    whole = len(data) < _HEADER_BYTES
    try:
        records = _records(data.decode("utf-8-sig", "strict" if whole else "ignore"))
    except (UnicodeDecodeError, csv.Error):
        records = [["\0"]]
    if any("\0" in name for record in records for name in record):
        raise Malformed("is not CSV in UTF-8")
    if len(records) == 2:
        yield 0, dict.fromkeys(records[0], "")
    elif not whole:
        raise NotTold("has a longer header than is read")


def _records(text: str) -> List[List[str]]:
    """The first two records that are not empty."""
    found: List[List[str]] = []
    for record in csv.reader(io.StringIO(text, newline="")):
        if record:
            found.append(record)
        if len(found) == 2:
            break
    return found


def _parquet(file: IO[bytes]) -> Rows:
    table = read_table(file)
    if table.rows:
        yield 0, table.columns


_WAYS: Dict[str, Callable[[IO[bytes]], Rows]] = {
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
