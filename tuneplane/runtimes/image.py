"""The image file of a run, found by the user's word or the site's, told by its sha256."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.errors import ImageError, shown
from tuneplane.plan.model import NOT_REGISTERED, Image

CHUNK = 1 << 22


def find_image(given: str | None, runtime_id: str, images: dict[str, str]) -> Image | None:
    """The image a run starts: `given` on the command line, else the site's for the runtime id.

    A file that is not there has no digest, nor has a runtime id that no image is registered under; None when there
    is no such id either. Raises ImageError for something that is no file.
    """
    if given is not None:
        return _described(os.path.abspath(given), runtime_id, "--image")
    if runtime_id in images:
        return _described(images[runtime_id], runtime_id, f"site image of {runtime_id}")
    return Image(f"{runtime_id}.sif", runtime_id, NOT_REGISTERED) if runtime_id else None


def _described(path: str, runtime_id: str, source: str) -> Image:
    try:
        status = os.stat(path)
    except OSError:
        return Image(path, runtime_id, source)
    if not stat.S_ISREG(status.st_mode):
        raise ImageError.of(f"{shown(path, 400)} is not a file", source, "a SIF image")
    return Image(path, runtime_id, source, _sha256(Path(path), status), status.st_size)


def _sha256(path: Path, status: os.stat_result) -> str:
    """The file's digest, remembered for as long as its size, times and inode stay."""
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    key = cache_key("image", os.uname().nodename, str(path), repr(identity))
    stored = cache_get(key)
    if stored:
        return stored.decode()
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise ImageError.of(f"cannot read the image {shown(str(path), 400)}: {error.strerror}") from None
    cache_put(key, digest.hexdigest().encode())
    return digest.hexdigest()
