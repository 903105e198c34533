"""Ray's temporary folder: on this node, readable by the user alone, and short enough for the sockets in it."""

from __future__ import annotations

import hashlib
import os
import shutil

# A socket's path has at most 107 bytes, of which Ray adds up to 64: /session_…_PID/sockets/plasma_store
LONGEST_BYTES = 43


class RayFolder:
    """The folder of one node's Ray, made now. Raises OSError: one that exists already is never used."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.mkdir(path, 0o700)

    def remove(self) -> None:
        """Remove it with all that Ray left in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def folder_path(key: str, rank: int, scratch: str) -> str:
    """Where the folder of node `rank` lies: in `scratch`, a node-local folder, unless that makes it too long."""
    inside = os.path.join(scratch, f"ray-{rank}") if scratch else ""
    if inside.startswith("/") and len(os.fsencode(inside)) <= LONGEST_BYTES:
        return inside
    return f"/tmp/tp-{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:6]}-{rank}"
