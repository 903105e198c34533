"""What an image file is, by its content: heads as they are, damaged ones, and bytes that are none."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from builders import problems_of
from hypothesis import given
from hypothesis import strategies as st
from image_files import ARCHITECTURES, COMPRESSIONS, sif, sqsh
from render.tools import lacking, program

from tuneplane.errors import ImageError
from tuneplane.runtimes.formats import Facts, architecture, facts_of

TABLE, DESCRIPTORS, ROW = 4096, 48, 585
"""Where Apptainer puts the table of descriptors, how many it has room for, and the bytes of one."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A place for a file whose suffix says something else, and whose name is odd."""
    return tmp_path / "an 'image' é.txt"


def of(file: Path, data: bytes) -> Facts:
    file.write_bytes(data)
    return facts_of(file)


def why(file: Path, data: bytes) -> str:
    """What is wrong with these bytes, without the file's name."""
    with pytest.raises(ImageError) as caught:
        of(file, data)
    (problem,) = problems_of(caught)
    assert f"`{file}`" in problem.what
    return problem.what.replace(f"`{file}`", "FILE")


def test_a_sif(file: Path) -> None:
    labels = {"org.label-schema.build-arch": "amd64", "maintainer": "wei 世界", "an": "apple"}
    made = sif(b"payload", labels=labels)
    facts = of(file, made)
    assert facts == Facts(
        "sif", "x86_64", "zstd", facts.filesystem, labels, {"bootstrap": "localimage", "from": "/roots/toy"}
    )
    offset, size = facts.filesystem
    assert made[offset : offset + size] == sqsh(b"payload")
    assert list(facts.labels) == sorted(labels)


def test_a_sqsh(file: Path) -> None:
    made = sqsh(b"payload")
    # Enroot and mksquashfs fill the last block with zeros
    assert of(file, made + bytes(4000)) == Facts("sqsh", "", "zstd", (0, len(made)))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_architecture_and_compression(file: Path, arch: str, compression: str) -> None:
    found = of(file, sif(arch=arch, compression=compression))
    assert (found.arch, found.compression) == (arch, compression)
    assert of(file, sqsh(compression=compression)).compression == compression


def replaced(data: bytes, at: int, part: bytes) -> bytes:
    return data[:at] + part + data[at + len(part) :]


def partition(data: bytes, at: int, part: bytes) -> bytes:
    """The SIF with other bytes in what the third descriptor, its partition's, says beside its name."""
    return replaced(data, TABLE + 2 * ROW + ROW - 384 + at, part)


@pytest.mark.parametrize(
    ("code", "arch"),
    [
        (b"00\0", ""),
        (b"12\0", "SIF architecture 12"),
        (b"\0\0\0", ""),
        (b"\n\x1b\0", ""),
        (b"06\0", "ppc64le"),
    ],
)
def test_an_architecture_that_few_have(file: Path, code: bytes, arch: str) -> None:
    assert of(file, partition(sif(), 8, code)).arch == arch


@pytest.mark.parametrize(
    ("definition", "built"),
    [
        ("", {}),
        (
            "Bootstrap: docker\nFrom: python:3.12\n%post\n  x: y\n",
            {"bootstrap": "docker", "from": "python:3.12"},
        ),
        ("BootStrap :docker\n", {"bootstrap": "docker"}),
        ("from:\n\xff: \x00", {}),
        ("# no header\n" * 300 + "from: x", {}),
    ],
)
def test_a_definition(file: Path, definition: str, built: dict[str, str]) -> None:
    assert of(file, sif(definition=definition)).built == built


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b"[1]", b"1", b'"x"', b'{"data": 1}', b'{"data": {"attributes": {"labels": [1]}}}', b"\xff\xfe", b"[" * 400],
)  # fmt: skip
def test_labels_that_are_none(file: Path, text: bytes) -> None:
    made = sif()
    start = made.index(b'{"data"')
    length = made.index(b"hsqs") - start
    assert of(file, replaced(made, start, text.ljust(length)[:length])).labels == {}


def test_labels_that_are_odd(file: Path) -> None:
    """Half of a surrogate pair can be written in JSON and nowhere else; a null is what it says."""
    made = sif(labels={"xxxxxx": "0123456789"})
    made = made.replace(b'"xxxxxx"', rb'"\ud800"').replace(b'"0123456789"', b"null        ")
    assert of(file, made).labels == {"?": "None"}


DAMAGED = {
    "an end in the header": (sif()[:100], "it ends within its header"),
    "an end before the descriptors": (sif()[:4000], "it ends within its header"),
    "an end in the descriptors": (sif()[: TABLE + 10 * ROW], "it ends within its header"),
    "an end in the definition": (sif()[: TABLE + DESCRIPTORS * ROW + 5], "it is shorter than its header says"),
    "an end in the payload": (sif(b"x" * 500)[:-100], "it is shorter than its header says"),
    "too many descriptors": (replaced(sif(), 88, struct.pack("<q", 1 << 40)), "its header is not right"),
    "more free than there are": (replaced(sif(), 80, struct.pack("<q", 49)), "its header is not right"),
    "a table before the file": (replaced(sif(), 96, struct.pack("<q", -1)), "its header is not right"),
    "a table far behind it": (replaced(sif(), 96, struct.pack("<q", (1 << 63) - 1)), "it ends within its header"),
    "an object before the file": (
        replaced(sif(), TABLE + 17, struct.pack("<q", -5)),
        "it is shorter than its header says",
    ),
    "no partition": (replaced(sif(), TABLE + 2 * ROW, struct.pack("<i", 0x4002)), "it holds no SquashFS to start"),
    "a partition that is not in use": (replaced(sif(), TABLE + 2 * ROW + 4, b"\0"), "it holds no SquashFS to start"),
    "a partition that is not the first": (partition(sif(), 4, struct.pack("<i", 3)), "it holds no SquashFS to start"),
    "an ext3 in it": (partition(sif(), 0, struct.pack("<i", 2)), "it holds no SquashFS to start"),
    "something else in it": (sif().replace(b"hsqs", b"EMPT"), "its SquashFS is of another version"),
    "a SquashFS that ends early": (sqsh(b"x" * 500)[:-100], "it is shorter than its superblock says"),
    "a SquashFS of less than a superblock": (sqsh()[:40], "it ends within its superblock"),
    "a SquashFS of version 3": (replaced(sqsh(), 28, struct.pack("<H", 3)), "its SquashFS is of another version"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged(file: Path, case: str) -> None:
    data, said = DAMAGED[case]
    assert why(file, data) == f"the image FILE is damaged: {said}"


NO_IMAGES = {
    "empty": (b"", "it is empty"),
    "one byte": (b"h", "it begins with b'h'"),
    "a text": (b"Bootstrap: docker\n", "it begins with b'Bootstra'"),
    "a script": (b"#!/usr/bin/env run-singularity\n", "it begins with b'#!/usr/b'"),
    "a big-endian SquashFS": (b"sqsh" + bytes(200), "it begins with b'sqsh\\x00\\x00\\x00\\x00'"),
    "an archive": (bytes(257) + b"ustar\0", "it looks like an archive, which `tp runtime import` takes"),
    "a packed archive": (gzip.compress(b"x"), "it looks like an archive, which `tp runtime import` takes"),
}


@pytest.mark.parametrize("case", NO_IMAGES)
def test_no_images(file: Path, case: str) -> None:
    data, said = NO_IMAGES[case]
    assert why(file, data) == f"FILE is no image: {said}"


def test_what_is_expected_is_said(file: Path) -> None:
    with pytest.raises(ImageError) as caught:
        of(file, b"text")
    assert problems_of(caught)[0].expected == "a SIF of Apptainer or a SquashFS of Enroot (SQSH)"


def test_what_is_no_file_or_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO has no writer here: whoever waits for one hangs."""
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(ImageError) as caught:
            facts_of(place)
        assert problems_of(caught)[0].what == f"`{place}` is not a file"
    (tmp_path / "loop").symlink_to("loop")
    for name, said in (("none", "No such file or directory"), ("loop", "Too many levels of symbolic links")):
        with pytest.raises(ImageError) as caught:
            facts_of(tmp_path / name)
        assert problems_of(caught)[0].what == f"cannot read the image `{tmp_path / name}`: {said}"


HEADS = st.sampled_from([sif(b"payload"), sqsh(b"payload"), sif(labels={"a": "b"}), b"", bytes(200)])


@st.composite
def almost(draw: st.DrawFn) -> bytes:
    """A real head with some bytes changed and the end cut off; changes keep to where something stands."""
    data = bytearray(draw(HEADS))
    for _ in range(draw(st.integers(0, 6))):
        if data:
            at = draw(
                st.one_of(st.integers(0, 130), st.integers(TABLE, TABLE + 3 * ROW), st.integers(0, 40_000))
            )
            part = draw(st.binary(min_size=1, max_size=8))
            data[at % len(data) : at % len(data) + len(part)] = part
    return bytes(data[: draw(st.one_of(st.none(), st.integers(0, len(data))))])


@given(st.one_of(st.binary(max_size=300), almost()))
def test_no_bytes_are_more_than_no_image(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "hypothesis.img"
    try:
        facts = of(file, data)
    except ImageError:
        return
    offset, size = facts.filesystem
    assert offset >= 0 and offset + size <= len(data) and data[offset : offset + 4] == b"hsqs"
    # what is kept can be written as text
    "".join([facts.arch, *facts.labels, *facts.labels.values(), *facts.built.values()]).encode()


# --- real ones ---


@pytest.fixture(scope="module")
def squashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SquashFS of this machine's `env`."""
    place = tmp_path_factory.mktemp("squashed")
    (place / "root/usr/bin").mkdir(parents=True)
    shutil.copy("/usr/bin/env", place / "root/usr/bin/env")
    words = [program("mksquashfs"), str(place / "root"), str(place / "made"), "-quiet", "-no-progress", "-comp", "xz"]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return place / "made"


@pytest.mark.tools
def test_a_real_sqsh(squashed: Path) -> None:
    facts = facts_of(squashed)
    size = squashed.stat().st_size
    assert (facts.format, facts.arch, facts.compression) == ("sqsh", "", "xz")
    assert facts.filesystem[0] == 0 and size - 4096 < facts.filesystem[1] <= size
    program("unsquashfs")
    assert architecture(squashed) == os.uname().machine


@pytest.mark.tools
def test_a_sqsh_whose_programs_are_for_another_machine(tmp_path: Path) -> None:
    """A big-endian head, a link in a program's place, and one of a machine that nobody knows here."""
    for name, head, arch in (
        ("ppc", b"\x7fELF\x02\x02\x01" + bytes(9) + b"\0\x02\0\x15", "ppc64le"),
        ("riscv", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xf3\0", "ELF machine 243"),
        ("text", b"#!/bin/sh\n" + bytes(20), ""),
    ):
        root = tmp_path / name
        (root / "usr/bin").mkdir(parents=True)
        (root / "bin").mkdir()
        (root / "usr/bin/env").symlink_to("/usr/bin/env")
        (root / "bin/busybox").write_bytes(head)
        made = tmp_path / f"{name}.sqsh"
        words = [program("mksquashfs"), str(root), str(made), "-quiet", "-no-progress"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        assert architecture(made, program("unsquashfs")) == arch, name


def test_an_architecture_that_cannot_be_looked_at(file: Path) -> None:
    file.write_bytes(sqsh())
    assert architecture(file) == "" and architecture(file, "/no/unsquashfs") == ""


@pytest.mark.tools
def test_a_real_sif(tmp_path: Path) -> None:
    """One that Apptainer made: the tests on a cluster keep it. Its partition, cut out, is its SquashFS."""
    kept = sorted(Path(os.environ["TUNEPLANE_TEST_CACHE"], "images").glob("python-*.sif"))
    image = kept[0] if kept else lacking("no test on a cluster has made an image here")
    facts = facts_of(image)
    assert (facts.format, facts.arch, facts.compression) == ("sif", os.uname().machine, "zstd")
    assert facts.built["bootstrap"] == "localimage" and facts.labels["org.label-schema.build-arch"]
    offset, size = facts.filesystem
    assert offset + size <= image.stat().st_size
    cut = tmp_path / "cut"
    with image.open("rb") as whole, cut.open("wb") as file:
        os.copy_file_range(whole.fileno(), file.fileno(), 1 << 20, offset)
        file.truncate(size)
    part = facts_of(cut)
    assert (part.format, part.compression) == ("sqsh", "zstd") and size - 4096 < part.filesystem[1] <= size
    program("unsquashfs")
    done = subprocess.run(
        ["unsquashfs", "-quiet", "-offset", str(offset), "-cat", str(image), "etc/debian_version"],
        capture_output=True,
        timeout=60,
    )
    assert done.stdout.startswith(b"12.")
