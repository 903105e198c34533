"""A per-user cache of results that follow from their key alone; losing it costs only time."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tuneplane import __version__

_DIGEST_BYTES = 32


def cache_key(*parts: bytes | str) -> str:
    """A digest of `parts` and of the version of `tp`, which may read the same bytes differently."""
    digest = hashlib.sha256(__version__.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def cache_folder() -> Path | None:
    """The user's cache folder, or None when there is none that only this user can write."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        return None
    folder = Path(base, "tuneplane")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if private else None


def cache_get(key: str) -> bytes | None:
    """What was stored under `key`, or None; what is damaged was never stored."""
    folder = cache_folder()
    try:
        stored = (folder / key).read_bytes() if folder else b""
    except OSError:
        return None
    digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if digest == hashlib.sha256(data).digest() else None


def cache_put(key: str, data: bytes) -> None:
    """Store `data` under `key`; a failure to do so is of no consequence."""
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):
        descriptor, temporary = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(temporary, folder / key)
        except OSError:
            os.unlink(temporary)
