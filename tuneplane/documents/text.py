"""The text of a document, read once and bounded."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from tuneplane.errors import InputError, shown
from tuneplane.visible import visible

MAX_BYTES = 1 << 20
_PLAIN = re.compile(r"-?[A-Za-z0-9_./+][A-Za-z0-9_./+-]*\Z")
_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def flow(text: str) -> str:
    """`text` as one value of a YAML document, in a list or alone, with quotes where it needs them."""
    if _PLAIN.match(text) and text.lower() != "null":
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """`text` in double quotes, as YAML reads them."""
    return '"' + "".join(_ESCAPES.get(c, c) if visible(c) else f"\\U{ord(c):08x}" for c in text) + '"'


def read_text(path: Path, name: str, limit: int = MAX_BYTES) -> str:
    """The file's text. Raises InputError as `read_data` does, and when it is not UTF-8."""
    return decoded(read_data(path, name, limit), name)


def read_data(path: Path, name: str, limit: int = MAX_BYTES) -> bytes:
    """The file's bytes, refused above `limit` before they are read.

    Raises InputError when it is missing, no regular file or too large.
    """
    try:
        # O_NONBLOCK: a FIFO of that name is refused below, never waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError.of(f"{shown(name, 400)} is not a regular file", name)
            if status.st_size > limit:
                raise InputError.of(
                    f"{shown(name, 400)} has {status.st_size} bytes", name, f"at most {limit} bytes"
                )
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError.of(f"cannot read {shown(name, 400)}: {error.strerror}") from None
    if len(data) > limit:
        raise InputError.of(f"{shown(name, 400)} grew while it was read", name, f"at most {limit} bytes")
    return data


def decoded(data: bytes, name: str) -> str:
    """The text of the file `name`. Raises InputError when it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError.of("the file is not UTF-8 text", f"{name}:{line}") from None
