"""Names in the registry.

```
serials/00000042.json   one publication, created exclusively, never changed or reused
CURRENT                 the newest serial, a hint
CHECKED                 when the catalog was last held against its sources
artifacts/<id>/00000003.json   the images of one runtime id as they are from then on, created likewise
catalogs/<sha256>/      index.json (whose sha256 the folder is named after), methods/, files/, sites/ by their sha256
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERIAL_NAME = re.compile(r"(\d{8})\.json\Z")
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
FIRST = 1
LAST = 99_999_999
INSIDE = "serial.json"
"""Where links cannot be made a serial is a folder, and this is the file in it."""
REFRESH, ROLLBACK, GC = "refresh", "rollback", "gc"
FILE_MODE = 0o644
INDEX_FILE = "index.json"
PARTS = ("methods", "files", "sites")
SCHEMA = 1
"""Of an index."""


@dataclass(frozen=True)
class Registry:
    """A registry's folder.

    uids: the users it is believed from, None where nobody asks; gid: the group that may write to its folders.
    """

    root: Path
    uids: frozenset[int] | None = None
    gid: int | None = None

    @property
    def folder_mode(self) -> int:
        return 0o755 if self.gid is None else 0o2775

    @property
    def serials(self) -> Path:
        return self.root / "serials"

    @property
    def current(self) -> Path:
        return self.root / "CURRENT"

    @property
    def checked(self) -> Path:
        return self.root / "CHECKED"

    @property
    def catalogs(self) -> Path:
        return self.root / "catalogs"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    def serial(self, number: int) -> Path:
        return self.serials / f"{number:08d}.json"

    def catalog(self, digest: str) -> Path:
        return self.catalogs / digest


@dataclass(frozen=True)
class Publication:
    """What a serial says.

    digest: the catalog's folder; parent: that of the serial before; published_at: seconds since the epoch on the
    publisher's clock. details: for a rollback `to` (a serial), `held` and `held_by`; for a removal `remove`; `source`
    and `again` where the catalog has a folder beside the one that its content would have had.
    """

    serial: int
    digest: str
    parent: str
    nonce: str
    action: str
    published_at: int
    by: str
    details: dict[str, Any]

    @property
    def source(self) -> str:
        """The digest that its content has by itself."""
        return str(self.details.get("source", self.digest))

    def inherited(self, *more: str) -> dict[str, Any]:
        """Details that go on to a publication of the same catalog."""
        return {key: value for key, value in self.details.items() if key in ("source", "again", *more)}
