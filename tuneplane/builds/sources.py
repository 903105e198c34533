"""What can be imported, told by its content or its scheme, never by its suffix."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from tuneplane.errors import ImageError, shown
from tuneplane.runtimes.formats import facts_of
from tuneplane.runtimes.measure import cannot_read
from tuneplane.schedulers.environment import clean_environment
from tuneplane.sites.kinds import NAMES

SCHEMES = ("docker", "oras", "library")
"""Those of Apptainer's that name an image somewhere else."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_UNPACKERS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_OTHERS = {b"PK\x03\x04": "it is a zip archive", b"\x7fELF": "it is a program", b"#!": "it is a script"}
DOCKER, OCI, ROOT = "docker archive", "OCI archive", "archive of a root filesystem"
_MARKS = {"manifest.json": DOCKER, "oci-layout": OCI}
_SYSTEM = frozenset({"etc", "usr", "bin"})


@dataclass(frozen=True)
class Source:
    """Something to import.

    kind: what it is in words; place: its absolute path, or its address; unpacker: the program that takes the compression
    off, empty for none; image: the format of one that is an image already.
    """

    kind: str
    place: str
    unpacker: str = ""
    image: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it lies on a disk."""
        return not _URI.match(self.place)


def told(word: str) -> Source:
    """What `word` names. Raises ImageError for what cannot become an image."""
    if match := _URI.match(word):
        return _address(word, match[1], match[2])
    path = os.path.abspath(word)
    if os.path.isdir(path):
        if not _system(os.listdir(path)):
            raise _unknown(path, "it is a folder without etc/ and usr/ or bin/")
        return Source("folder with a root filesystem", path)
    head = _head(path)
    if head[:4] == b"hsqs" or head[32:41] == b"SIF_MAGIC":
        image = facts_of(path).format
        return Source(f"{NAMES[image]} image", path, image=image)
    unpacker = next((name for magic, name in _UNPACKERS.items() if head.startswith(magic)), "")
    if not unpacker and head[257:262] != b"ustar":
        raise _unknown(path, _what(head))
    return Source(_archive(path), path, unpacker)


def _address(word: str, scheme: str, rest: str) -> Source:
    if scheme not in SCHEMES or not rest:
        expected = ", ".join(f"{name}://…" for name in SCHEMES) + ", or a file"
        raise ImageError.of(f"{shown(word, 300)} cannot be imported", expected=expected)
    return Source("image", word)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(512)
    except OSError as error:
        raise cannot_read(path, error) from None


def _what(head: bytes) -> str:
    if not head:
        return "it is empty"
    known = next((text for magic, text in _OTHERS.items() if head.startswith(magic)), "")
    return known or f"it begins with {head[:8]!r}"


def _unknown(path: str, why: str) -> ImageError:
    expected = "a SIF, a SQSH, or a tar of a Docker image, an OCI image or a root filesystem"
    error = ImageError.of(f"{shown(path, 400)} cannot be imported: {why}", expected=expected)
    assert isinstance(error, ImageError)
    return error


def _archive(path: str) -> str:
    """Which kind of archive: its names are listed until they tell."""
    words = ["tar", "--list", "--file", path, "--force-local", "--quoting-style=escape"]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=clean_environment())
        except OSError as error:
            what = f"an archive is read by `tar`, which cannot be run: {error.strerror}"
            raise ImageError.of(what) from None
        with process:
            assert process.stdout is not None
            kind, first = _kind(line.decode(errors="replace") for line in process.stdout)
            if kind:
                process.kill()
                return kind
        errors.seek(0)
        said = errors.read(4096).decode(errors="replace").strip()
    if process.returncode:
        raise _unknown(path, f"its archive cannot be read: {_first_line(said)}")
    raise _unknown(path, f"it is an archive of something else, such as {shown(', '.join(first), 120)}")


def _first_line(text: str) -> str:
    return text.splitlines()[0].removeprefix("tar: ") if text else "tar does not say why"


def _kind(names: Iterable[str]) -> tuple[str, list[str]]:
    """The kind of an archive, empty when its names do not tell, and what lies at its top."""
    top: dict[str, None] = {}
    for name in names:
        first = name.rstrip("\n").removeprefix("./").strip("/").partition("/")[0]
        if not first or first in top:
            continue
        top[first] = None
        if first == "manifest.json" or _system(top):
            return _MARKS.get(first, ROOT), list(top)
    # a Docker archive may hold the files of an OCI one too, so that one is told at the end
    return next((_MARKS[name] for name in top if name in _MARKS), ""), list(top)[:4]


def _system(names: Iterable[str]) -> bool:
    """Whether these are the top of a root filesystem."""
    found = _SYSTEM & set(names)
    return "etc" in found and len(found) > 1
