"""The text of a document, read once and bounded."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tuneplane.errors import InputError, shown

MAX_BYTES = 1 << 20


def read_text(path: Path, name: str, limit: int = MAX_BYTES) -> str:
    """The file's text, refused above `limit` bytes before it is read.

    Raises InputError when it is missing, no regular file, too large or not UTF-8.
    """
    try:
        # O_NONBLOCK: a FIFO of that name is refused below, never waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError.of(f"{shown(name)} is not a regular file", name)
            if status.st_size > limit:
                raise InputError.of(
                    f"{shown(name)} has {status.st_size} bytes", name, f"at most {limit} bytes"
                )
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError.of(f"cannot read {shown(name)}: {error.strerror}") from None
    if len(data) > limit:
        raise InputError.of(f"{shown(name)} grew while it was read", name, f"at most {limit} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError.of("the file is not UTF-8 text", f"{name}:{line}") from None
