"""The image file of a run, found by the user's word or the site's, told by its sha256."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
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
    named = named_image(given, runtime_id, images)
    return named if named is None or named.source == NOT_REGISTERED else with_digest(named)


def named_image(given: str | None, runtime_id: str, images: dict[str, str]) -> Image | None:
    """The same without looking at any file: it has no digest."""
    if given is not None:
        return Image(os.path.abspath(given), runtime_id, "--image")
    if runtime_id in images:
        return Image(images[runtime_id], runtime_id, f"site image of {runtime_id}")
    return Image(f"{runtime_id}.sif", runtime_id, NOT_REGISTERED) if runtime_id else None


def with_digest(image: Image) -> Image:
    """The image with the digest and size of its file, as it is where there is none. Raises ImageError."""
    try:
        status = os.stat(image.path)
    except OSError:
        return image
    if not stat.S_ISREG(status.st_mode):
        raise ImageError.of(f"{shown(image.path, 400)} is not a file", image.source, "a SIF image")
    return replace(image, sha256=_sha256(Path(image.path), status), size=status.st_size)


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
