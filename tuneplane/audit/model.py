"""What an audit speaks of: differences, and claims that only the submitter can make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuneplane.plan.command import Command

IMAGE = "image"
"""The kind of differences that tell of another image."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it should be.

    kind: what it is (directive, argument, environment, frozen file, image, …); where: line, name or path; expected: as
    it is when compiled again, None for what should not be there; found: as it is, None for what is gone.
    """

    kind: str
    where: str
    expected: str | None
    found: str | None


@dataclass(frozen=True)
class Place:
    """What was said of a model, data set or path parameter when the script was made; path: None when unknown."""

    path: str | None
    exists: bool
    commit: str = ""
    missing: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Claims:
    """What only the submitter knows, and what the inputs are called that the auditor looks up.

    image_path: empty without an image; image_source: who named it; image_sha256, image_size, image_samples: None where
    its file was not there.
    """

    tool_version: str
    method: str
    framework_version: str
    recipe_digest: str
    site: str
    site_digest: str
    files_digest: str
    helper_digest: str
    command: Command
    places: dict[str, Place] = field(default_factory=dict)
    image_path: str = ""
    image_source: str = ""
    image_sha256: str | None = None
    image_size: int | None = None
    image_samples: str | None = None
    admitted: dict[str, Any] | None = None


class CannotRecompile(Exception):
    """Why the script cannot be made again; the text completes "cannot be re-compiled: "."""
