"""Definitions of runtime images: what an image of a runtime id is made from, and what is in it.

A definition is two files of one name: `ID.yaml`, read here, and `ID.def`, which Apptainer builds the image from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from tuneplane.catalog.manifest import Text
from tuneplane.catalog.requires import normalized
from tuneplane.documents.load import load
from tuneplane.documents.shape import document
from tuneplane.documents.text import read_text
from tuneplane.documents.tree import Mapping, at
from tuneplane.errors import ImageError, Problem, nearest, shown
from tuneplane.resources import bundled

PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[a-z0-9,._-]+\])?==(?P<version>[0-9][A-Za-z0-9.]*)\Z"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_SOURCE = re.compile(r"https://\S+\Z")


@document
class Framework:
    """What a runtime is for: the `kind` and the `version` of the recipes that run in it."""

    kind: str
    version: str


@document
class Base:
    """The root an image begins with: `REGISTRY/NAME:TAG`, its `sha256:…` where it was looked up, and where that is done."""

    image: str
    digest: str = ""
    source: str


@document
class Python:
    """The interpreter in the image that has the packages: its absolute path, and its version as `3.12`."""

    executable: str
    version: str


@document
class Definition:
    """What `ID.yaml` says.

    packages: `name==version`, with `[extras]` or not; an `ID.def` with an argument `packages` installs them, one
    without finds them in its base; ray: the version of Ray, empty without it; capabilities: what recipes may ask for.
    """

    schema: Literal[1]
    title: Text
    framework: Framework
    base: Base
    python: Python
    packages: list[str]
    ray: str = ""
    capabilities: list[str] = field(default_factory=list)
    notes: Text | None = None

    def pins(self) -> dict[str, str]:
        """Name → version of the packages; names in lower case with `-`, as package indexes compare them."""
        found = (PIN.match(pin) for pin in self.packages)
        return {normalized(pin["name"]): pin["version"] for pin in found if pin}


def definition_names(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """Runtime id → YAML file of every definition in `folders`, the first with a name wins; bundled ones without any."""
    found: dict[str, Path] = {}
    for folder in folders or (bundled("runtimes"),):
        for file in sorted(folder.glob("*.yaml")):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def load_definition(runtime_id: str, folders: Sequence[Path] = ()) -> Definition:
    """The definition of a runtime id; see `definition_names` for `folders`.

    Raises ImageError when there is none, InputError with every fault of its YAML file.
    """
    file = _file(runtime_id, folders)
    return read_definition(read_text(file, str(file)), str(file))


def build_file(runtime_id: str, folders: Sequence[Path] = ()) -> Path:
    """The `.def` that an image of a runtime id is built from. Raises ImageError when there is none."""
    file = _file(runtime_id, folders).with_suffix(".def")
    if not file.is_file():
        raise ImageError.of(f"{shown(runtime_id)} has no definition file", str(file))
    return file


def _file(runtime_id: str, folders: Sequence[Path]) -> Path:
    names = definition_names(folders)
    if runtime_id in names:
        return names[runtime_id]
    close = nearest(runtime_id, names)
    raise ImageError.of(
        f"there is no definition of {shown(runtime_id)}" + (f", did you mean `{close}`?" if close else ""),
        expected="one of " + ", ".join(names) if names else "a folder with definitions",
    )


def read_definition(text: str, name: str) -> Definition:
    """The definition of a file's text; `name` is what messages call the file. Raises InputError with every fault."""
    return load(Definition, text, name, _problems)


def _problems(definition: Definition, tree: Mapping) -> Iterator[Problem]:
    """What the shape alone does not show, each with its place."""

    def fault(what: str, *path: str | int, expected: str = "") -> Problem:
        mark, key = at(tree, path)
        return Problem(what, mark.at(key), expected)

    base, python = definition.base, definition.python
    if base.digest and not _DIGEST.match(base.digest):
        yield fault(
            f"{shown(base.digest)} is no digest", "base", "digest", expected="`sha256:` and 64 hex digits"
        )
    if not _SOURCE.match(base.source):
        yield fault(f"{shown(base.source)} is no address", "base", "source", expected="https://…")
    if not python.executable.startswith("/"):
        yield fault(f"{shown(python.executable)} is not absolute", "python", "executable")
    if not re.fullmatch(r"3\.[0-9]+", python.version):
        yield fault(f"{shown(python.version)} is no version of Python such as `3.12`", "python", "version")
    seen: set[str] = set()
    for i, pin in enumerate(definition.packages):
        match = PIN.match(pin)
        if not match:
            yield fault(
                f"{shown(pin)} is not one version of one package", "packages", i, expected="name==version"
            )
        elif normalized(match["name"]) in seen:
            yield fault(f"{shown(match['name'])} stands here twice", "packages", i)
        else:
            seen.add(normalized(match["name"]))
    held = definition.pins().get("ray", "")
    if definition.ray != held:
        expected = f"`{held}`, as under `packages`" if held else "no `ray`, since `packages` has none"
        yield fault(f"{shown(definition.ray)} is not the Ray of this image", "ray", expected=expected)
