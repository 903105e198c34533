"""The folders that a script binds by digest, read back as they are now and held against what they should be."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tuneplane.audit.model import CannotRecompile, Difference
from tuneplane.documents.text import read_data
from tuneplane.errors import InputError
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.locate import LOCK_FILE
from tuneplane.experiment.snapshot import FrozenFile, Snapshot

_SUM = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")
MAX_HELPER_BYTES = 16 << 20
_UNESCAPED = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
FROZEN, HELPER = "frozen file", "helper file"
"""Kinds of differences."""


def read_back(folder: Path, max_bytes: int) -> Snapshot:
    """What lies in `folder`. Raises CannotRecompile for what cannot be read or is larger than a site lets freeze."""
    left = max_bytes
    files = []
    for path, full in _entries(folder):
        try:
            status = full.lstat()
            if stat.S_ISLNK(status.st_mode):
                files.append(FrozenFile(path, target=os.readlink(full)))
                continue
            if not stat.S_ISREG(status.st_mode):
                raise CannotRecompile(f"{folder.name}/{path} is neither a file nor a link")
            left -= status.st_size
            if left < 0:
                raise CannotRecompile(f"{folder.name}/ holds more than {max_bytes} bytes")
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(status.st_size + 1)
        except OSError as error:
            raise CannotRecompile(f"{folder.name}/{path} cannot be read: {error.strerror}") from None
        files.append(FrozenFile(path, data, bool(status.st_mode & stat.S_IXUSR)))
    return Snapshot(tuple(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogateescape"))))


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """Everything below `folder` but folders, by path; links are not followed."""

    def fail(error: OSError) -> None:
        raise CannotRecompile(f"{folder.name}/ cannot be read: {error.strerror}")

    if folder.is_symlink():
        raise CannotRecompile(f"{folder.name} is a symbolic link")
    for parent, folders, names in os.walk(folder, onerror=fail):
        for name in (*names, *(name for name in folders if os.path.islink(os.path.join(parent, name)))):
            full = Path(parent, name)
            yield full.relative_to(folder).as_posix(), full


def sums(manifest: bytes) -> dict[str, str]:
    """Path → sha256 of a snapshot's manifest, as `sha256sum` writes names."""
    found = {}
    for line in manifest.decode(errors="surrogateescape").split("\n")[1:]:
        if match := _SUM.fullmatch(line):
            name = re.sub(r"\\[\\nr]", lambda m: _UNESCAPED[m[0]], match[3]) if match[1] else match[3]
            found["-" if name == "./-" else name] = match[2]
    return found


def changes(kind: str, folder: str, manifest: bytes, now: Snapshot) -> list[Difference]:
    """What is not as `manifest` has it, by file. folder: what stands before each name."""
    if now.manifest == manifest:
        return []
    expected, found = sums(manifest), sums(now.manifest)
    named = [
        Difference(kind, f"{folder}/{path}", _sha(expected.get(path)), _sha(found.get(path)))
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]
    structure = "executable bits, links and special files as they were frozen"
    return named or [Difference(kind, folder, structure, "others")]


def _sha(digest: str | None) -> str | None:
    return None if digest is None else f"sha256:{digest}"


@dataclass(frozen=True)
class Frozen:
    """Frozen files as a script follows from them: their digest, their names, the two that are always read, and all."""

    digest: str
    names: frozenset[str]
    config: bytes | None
    lock: bytes | None
    files: Snapshot

    @staticmethod
    def of(files: Snapshot) -> Frozen:
        names = frozenset(file.path for file in files.files)
        return Frozen(files.digest, names, files.data(CONFIG_FILE), files.data(LOCK_FILE), files)


def files_of_run(folder: Path, said: str, recorded: str, max_bytes: int, found: list[Difference]) -> Frozen:
    """The frozen files of a run, held against the digest that its script names. found: differences are added to it.

    said, recorded: the digest in the script and the one in the run's record. Raises CannotRecompile when what a script
    follows from is not what was frozen.
    """
    now = read_back(folder / "files", max_bytes)
    manifest = _manifest(folder / "files.sha256")
    if now.digest in (said, recorded):
        # where the script names others than are there and were recorded, compiling again shows where
        if manifest != now.manifest:
            what = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
            found.append(Difference(FROZEN, "files.sha256", f"sha256:{now.digest}", what))
        return Frozen.of(now)
    if hashlib.sha256(manifest).hexdigest() != said:
        found.append(Difference(FROZEN, "files/", f"sha256:{said}", f"sha256:{now.digest}"))
        raise CannotRecompile("the frozen files are not those that it names")
    found += changes(FROZEN, "files", manifest, now)
    bound = sums(manifest)
    held = Frozen.of(now)
    for name, data in ((CONFIG_FILE, held.config), (LOCK_FILE, held.lock)):
        if data is None or hashlib.sha256(data).hexdigest() not in bound.values():
            raise CannotRecompile(f"the frozen {name} is not the one that it was compiled from")
    links = {file.path for file in now.files if file.target}
    return replace(held, digest=said, names=frozenset(bound) | links)


def _manifest(file: Path) -> bytes:
    try:
        return read_data(file, file.name)
    except InputError:
        return b""


def helper_changes(folder: Path, own: Snapshot | None, said: str) -> list[Difference]:
    """How the helper of a run differs from this tp's `own`; of another tp's helper only the digest is known."""
    try:
        now = read_back(folder / "helper", MAX_HELPER_BYTES)
    except CannotRecompile as error:
        return [Difference(HELPER, "helper/", "the helper of this tp", str(error))]
    if own is not None:
        return changes(HELPER, "helper", own.manifest, now)
    if now.digest == said:
        return []
    return [Difference(HELPER, "helper/", f"sha256:{said}", f"sha256:{now.digest}")]
