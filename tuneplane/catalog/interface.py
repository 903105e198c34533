"""What the rest of `tp` asks of a catalog, read from folders or as a registry publishes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Protocol

from tuneplane.catalog.manifest import Manifest, Text
from tuneplane.documents.shape import document
from tuneplane.errors import InputError, nearest, shown


@document
class Entry:
    """One line of an index."""

    name: str
    title: Text
    summary: Text
    category: str
    data: str
    default: str
    versions: list[str]
    use: Text | None = None


class Catalog(Protocol):
    """Methods by name. What is not asked for is not read."""

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every method's line."""

    @property
    def origin(self) -> dict[str, Any] | None:
        """Registry, serial and digest that it was published as; None for one read from folders."""

    def has(self, method: str) -> bool:
        """Whether there is such a method."""

    def manifest(self, method: str) -> Manifest:
        """The method's manifest. Raises InputError for an unknown one."""

    def starter(self, method: str) -> Mapping[str, tuple[bytes, bool]]:
        """Path → (content, executable) of the method's starter files; empty where it has none."""

    def attached(self, method: str, digest: str) -> bytes:
        """What belongs to the method and has that sha256. Raises TuneplaneError where it is not to be had."""

    def last_serial(self, method: str, framework_version: str = "") -> int | None:
        """The last earlier serial that had the method, in that version; None when it was never published."""


def unknown_method(method: str, known: Iterable[str]) -> InputError:
    """The error for a method that is not there, with the nearest name."""
    close = nearest(method, known)
    what = f"there is no method {shown(method)}" + (f", did you mean `{close}`?" if close else "")
    error = InputError.of(what, hint="tp methods")
    assert isinstance(error, InputError)
    return error


def starter_name(path: PurePosixPath) -> bool:
    """Whether a file below `starter/` belongs to it: what Python or an editor leaves there does not."""
    return not any(
        part == "__pycache__" or part.startswith(".") or part.endswith(("~", ".pyc")) for part in path.parts
    )
