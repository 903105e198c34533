"""Small files written whole: readers see the old content or the new, never a part."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_whole(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Write `data` beside `path`, sync it and rename it there. Raises OSError; then nothing is left behind."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_json(path: Path, data: Any, mode: int = 0o640) -> None:
    """`write_whole` of a JSON document with a line's end."""
    write_whole(path, (json.dumps(data, indent=2, ensure_ascii=True) + "\n").encode(), mode)


def read_json(path: Path) -> Any:
    """The document, or None when it is missing or damaged: what a killed writer left is no record."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
