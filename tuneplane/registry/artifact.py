"""One registered image file: where it lies, how it is known again, and what it holds."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

from tuneplane.documents.shape import construct

RUNTIME_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}\Z")


@dataclass(frozen=True)
class Seen:
    """How the file looked where it was registered: these count on that host and mount only.

    mount: mount point, filesystem and source as the host's mount table has them; times in nanoseconds.
    """

    host: str
    mount: str
    inode: int
    ctime_ns: int
    mtime_ns: int


@dataclass(frozen=True)
class Artifact:
    """A registered image.

    format: `sif` or `sqsh`; arch: as `uname -m` says it; size in bytes; samples: see `measure`; mtime: whole seconds;
    python: version of the interpreter in it; packages: name → version of what that finds, None when it was not probed;
    registered_at: seconds since the epoch.
    """

    runtime_id: str
    format: str
    arch: str
    path: str
    sha256: str
    size: int
    samples: str
    mtime: int
    seen: Seen
    registered_at: int
    by: str
    compression: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    built: dict[str, str] = field(default_factory=dict)
    python: str = ""
    packages: dict[str, str] | None = None

    @property
    def slot(self) -> str:
        """What it is one of: images of one runtime id stand side by side by format and architecture."""
        return f"{self.format}-{self.arch}"


def from_json(data: Any) -> Artifact:
    """The artifact of a record. Raises KeyError, TypeError or ValueError when it is none."""
    known = {f.name for f in dataclasses.fields(Artifact)}
    found: Artifact = construct(Artifact, {key: value for key, value in data.items() if key in known})
    return found
