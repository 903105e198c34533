"""What an image file is, told by its content: a SIF of Apptainer, or a SquashFS of Enroot (SQSH).

SIF has a header, a table of descriptors and one SquashFS among its objects (github.com/apptainer/sif, pkg/sif/sif.go);
the superblock of a SquashFS is that of linux/fs/squashfs/squashfs_fs.h. Both are little-endian.
"""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tuneplane.errors import ImageError, shown
from tuneplane.runtimes.measure import cannot_read, opened
from tuneplane.sites.kinds import SIF, SQSH

_MAGIC_AT, _MAGIC = 32, b"SIF_MAGIC\0"
_HEADER = struct.Struct("<32s10s3s3s16s8q")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_DEFINITION, _LABELS, _PARTITION, _JSON = 0x4001, 0x4003, 0x4004, 0x4006
_HEAD = 512
"""Bytes that tell what a file is; the mark of a tar is the furthest."""
_MOST_DESCRIPTORS = 4096
_MOST_BYTES = 1 << 20
_SQUASHFS, _PRIMARY = 1, 2
_ARCHITECTURES = {b"01": "i386", b"02": "x86_64", b"03": "arm", b"04": "aarch64", b"06": "ppc64le"}
_SUPERBLOCK = struct.Struct("<4sIIIIHHHHHHQQ")
_COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
_ELF_MACHINES = {3: "i386", 21: "ppc64le", 40: "arm", 62: "x86_64", 183: "aarch64"}
_PROGRAMS = ("usr/bin/env", "bin/busybox", "usr/bin/bash", "bin/bash", "usr/bin/dash", "bin/dash")


@dataclass(frozen=True)
class Facts:
    """What a file says of itself.

    arch: as `uname -m` says it, empty where the file does not tell; filesystem: (offset, bytes) of its SquashFS;
    built: facts of how it was made, such as the head of its definition file.
    """

    format: str
    arch: str
    compression: str
    filesystem: tuple[int, int]
    labels: dict[str, str] = field(default_factory=dict)
    built: dict[str, str] = field(default_factory=dict)


def facts_of(path: str | Path) -> Facts:
    """Read the file's head. Raises ImageError when it cannot be read or is no image that a runtime starts."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD)
            if head[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC:
                return _sif(file, head[: _HEADER.size], path)
            if head[:4] == b"hsqs":
                file.seek(0)
                compression, size = _squashfs(file, path)
                return Facts(SQSH, "", compression, (0, size))
    except OSError as error:
        raise cannot_read(path, error) from None
    expected = "a SIF of Apptainer or a SquashFS of Enroot (SQSH)"
    raise ImageError.of(f"{shown(str(path), 400)} is no image: {_what(head)}", expected=expected)


def _what(head: bytes) -> str:
    if not head:
        return "it is empty"
    if head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar":
        return "it looks like an archive, which `tp runtime import` takes"
    return f"it begins with {head[:8]!r}"


def _sif(file: BinaryIO, head: bytes, path: str | Path) -> Facts:
    if len(head) < _HEADER.size:
        raise _damaged(path, "it ends within its header")
    _, _, _, arch, _, _, _, free, total, table, table_size, _, _ = _HEADER.unpack(head)
    if not 0 <= free <= total <= _MOST_DESCRIPTORS or table_size < total * _DESCRIPTOR.size or table < 0:
        raise _damaged(path, "its header is not right")
    end = file.seek(0, 2)
    if table + total * _DESCRIPTOR.size > end:
        raise _damaged(path, "it ends within its header")
    file.seek(table)
    rows = file.read(total * _DESCRIPTOR.size)
    labels: dict[str, str] = {}
    built: dict[str, str] = {}
    found: tuple[int, int] | None = None
    compression = ""
    for row in _DESCRIPTOR.iter_unpack(rows):
        kind, used, _, _, _, offset, size, *_, name, extra = row
        if not used:
            continue
        if offset < 0 or size < 0 or offset + size > end:
            raise _damaged(path, "it is shorter than its header says")
        text = _text(file, offset, size) if kind in (_DEFINITION, _LABELS, _JSON) else ""
        if kind == _DEFINITION:
            built |= _definition(text)
        elif kind == _LABELS or (kind == _JSON and name.rstrip(b"\0") == b"inspect-metadata.json"):
            labels |= _labels(text)
        elif kind == _PARTITION:
            fs, part = struct.unpack_from("<ii", extra)
            if part == _PRIMARY and fs == _SQUASHFS:
                file.seek(offset)
                compression, _ = _squashfs(file, path)
                found, arch = (offset, size), extra[8:11]
    if found is None:
        raise _damaged(path, "it holds no SquashFS to start")
    return Facts(SIF, _machine(arch[:2]), compression, found, labels, built)


def _machine(code: bytes) -> str:
    if code in _ARCHITECTURES:
        return _ARCHITECTURES[code]
    return f"SIF architecture {code.decode()}" if code.isdigit() and code != b"00" else ""


def _squashfs(file: BinaryIO, path: str | Path) -> tuple[str, int]:
    """Compression and size in bytes of the SquashFS that begins here."""
    block = file.read(_SUPERBLOCK.size)
    if len(block) < _SUPERBLOCK.size:
        raise _damaged(path, "it ends within its superblock")
    magic, _, _, _, _, compression, _, _, _, major, _, _, size = _SUPERBLOCK.unpack(block)
    if magic != b"hsqs" or major != 4:
        raise _damaged(path, "its SquashFS is of another version")
    start = file.tell() - _SUPERBLOCK.size
    if start + size > file.seek(0, 2):
        raise _damaged(path, "it is shorter than its superblock says")
    return _COMPRESSIONS.get(compression, f"number {compression}"), size


def _damaged(path: str | Path, why: str) -> ImageError:
    return ImageError(f"the image {shown(str(path), 400)} is damaged: {why}")


def _text(file: BinaryIO, offset: int, size: int) -> str:
    file.seek(offset)
    return file.read(min(size, _MOST_BYTES)).decode("utf-8", "replace")


def _definition(text: str) -> dict[str, str]:
    """`Bootstrap` and `From` of the definition file."""
    pairs = (line.partition(":") for line in text.splitlines()[:200])
    found = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return {key: found[key] for key in ("bootstrap", "from") if found.get(key)}


def _labels(text: str) -> dict[str, str]:
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        data = json.loads(text)
        labels = data["data"]["attributes"]["labels"] if "data" in data else data
        # halves of surrogate pairs can be written into JSON, and nowhere else
        texts = {str(key): str(value).encode("utf-8", "replace").decode() for key, value in labels.items()}
        return {key.encode("utf-8", "replace").decode(): texts[key] for key in sorted(texts)}
    return {}


def architecture(path: str | Path, unsquashfs: str = "unsquashfs") -> str:
    """The architecture of a program in a SQSH, as `uname -m` says it; empty where none can be looked at."""
    with tempfile.TemporaryDirectory(prefix="tp-arch-") as folder:
        words = [unsquashfs, "-quiet", "-no-progress", "-no-xattrs", "-force", "-dest", folder, str(path)]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([*words, *_PROGRAMS], capture_output=True, timeout=120, check=False)
        for program in _PROGRAMS:
            place = Path(folder, program)
            if place.is_file() and not place.is_symlink():
                head = place.read_bytes()[:20]
                if head[:4] == b"\x7fELF" and len(head) == 20:
                    (machine,) = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)
                    return _ELF_MACHINES.get(machine, f"ELF machine {machine}")
    return ""
