"""Whether an image file is still the one that was registered.

Size and whole-second mtime count everywhere; inode, ctime and nanoseconds differ between hosts on network mounts and
count only where they were recorded. A difference calls for the full hash, and that alone decides.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.errors import ImageError, shown
from tuneplane.registry.artifact import Artifact, Seen
from tuneplane.runtimes.measure import Measured, measure

Progress = Callable[[int], None]


def seen(path: str, status: os.stat_result) -> Seen:
    """How the file looks here."""
    return Seen(os.uname().nodename, mount_of(path), status.st_ino, status.st_ctime_ns, status.st_mtime_ns)


def mount_of(path: str) -> str:
    """`POINT TYPE SOURCE` of the mount that the file lies on; empty when the host's table does not tell."""
    real = os.path.realpath(path)
    best, found = -1, ""
    try:
        table = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        words, more = left.split(" "), right.split(" ")
        if len(words) < 5 or len(more) < 2:
            continue
        point = _unescaped(words[4])
        # of several at one point the last is the one on top
        if len(point) >= best and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, found = len(point), f"{point} {more[0]} {more[1]}"
    return found


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def trouble(artifact: Artifact, *, full: bool = False, progress: Progress | None = None) -> str:
    """Why the file is not the registered image any more, in one sentence; empty when it is.

    full: read all of it whatever it looks like.
    """
    where = shown(artifact.path, 400)
    try:
        status = os.stat(artifact.path)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return f"the registered image {where} is gone"
        return f"the registered image {where} cannot be reached: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return f"the registered image {where} is no file any more"
    if status.st_size != artifact.size:
        return f"the registered image {where} has {status.st_size} bytes, not {artifact.size}"
    if not full and looks_the_same(artifact, status):
        return ""
    try:
        found = measured(artifact.path, status, progress, again=full).sha256
    except ImageError as error:
        return str(error)
    if found == artifact.sha256:
        return ""
    return f"{where} is not the registered image: its sha256 is {found}, not {artifact.sha256}"


def looks_the_same(artifact: Artifact, status: os.stat_result) -> bool:
    """Whether nothing calls for the full hash; see above."""
    here, then = seen(artifact.path, status), artifact.seen
    if (here.host, here.mount) == (then.host, then.mount):
        return here == then
    return int(status.st_mtime) == artifact.mtime


def measured(
    path: str, status: os.stat_result, progress: Progress | None = None, *, again: bool = False
) -> Measured:
    """The file's digests, remembered for as long as size, times and inode stay. again: read it in any case.

    Raises ImageError.
    """
    place = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    key = cache_key("image", os.uname().nodename, path, repr(place))
    stored = None if again else cache_get(key)
    if stored:
        sha256, samples = stored.decode().split()
        return Measured(sha256, status.st_size, samples)
    found = measure(path, progress)
    cache_put(key, f"{found.sha256} {found.samples}".encode())
    return found
