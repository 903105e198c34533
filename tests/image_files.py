"""Small files with the heads of real images: what `formats` reads of them is right, nothing could start them."""

from __future__ import annotations

import json
import struct

ARCHITECTURES = {"x86_64": b"02\0", "aarch64": b"04\0", "i386": b"01\0"}
COMPRESSIONS = {"gzip": 1, "lzo": 3, "xz": 4, "zstd": 6}
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_HEADER = struct.Struct("<32s10s3s3s16s8q")


def sqsh(payload: bytes = b"", compression: str = "zstd") -> bytes:
    """A SquashFS whose superblock is right and whose content is `payload`."""
    size = 96 + len(payload)
    fields = (7, 1796064842, 131072, 1, COMPRESSIONS[compression], 17, 0xC0, 1, 4, 0, 0, size)
    return struct.pack("<4sIIIIHHHHHHQQ", b"hsqs", *fields).ljust(96, b"\0") + payload


def sif(
    payload: bytes = b"",
    arch: str = "x86_64",
    labels: dict[str, str] | None = None,
    definition: str = "bootstrap: localimage\nfrom: /roots/toy\n",
    compression: str = "zstd",
) -> bytes:
    """A SIF with a definition, labels and a SquashFS of `payload`, laid out as Apptainer 1.4.5 does."""
    inspected = json.dumps({"data": {"attributes": {"labels": labels or {}}}, "type": "container"})
    primary = struct.pack("<ii3s", 1, 2, ARCHITECTURES[arch])
    objects = [
        (0x4001, b"", definition.encode(), b""),
        (0x4006, b"inspect-metadata.json", inspected.encode(), b""),
        (0x4004, b"", sqsh(payload, compression), primary),
    ]
    start = 4096 + 48 * _DESCRIPTOR.size
    table, data = b"", b""
    for number, (kind, name, text, extra) in enumerate(objects, 1):
        place = start + len(data)
        table += _DESCRIPTOR.pack(
            kind, True, number, 0xF0000001, 0, place, len(text), len(text), 0, 0, 0, 0, name, extra
        )
        data += text
    head = _HEADER.pack(
        b"#!/usr/bin/env run-singularity\n\0", b"SIF_MAGIC\0", b"01\0", b"02\0", bytes(16),
        0, 0, 48 - len(objects), 48, 4096, 48 * _DESCRIPTOR.size, start, len(data),
    )  # fmt: skip
    return head.ljust(4096, b"\0") + table.ljust(48 * _DESCRIPTOR.size, b"\0") + data
