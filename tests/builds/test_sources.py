"""What is told of things to import."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from image_files import sif, sqsh

from tuneplane.builds.sources import Source, told
from tuneplane.errors import ImageError

DOCKER = ("0a/layer.tar", "0a.json", "manifest.json", "repositories")
BOTH = ("blobs/sha256/0a", "index.json", "oci-layout", "manifest.json")
OCI = ("blobs/sha256/0a", "index.json", "oci-layout")
ROOTS = {
    "dotted": ("./", "./boot/", "./etc/passwd", "./usr/bin/env"),
    "plain": ("bin/sh", "dev/null", "etc/passwd"),
    "absolute": ("/usr/bin/env", "/etc/passwd"),
}


def tar(path: Path, names: Iterable[str], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(info, io.BytesIO())
    return path


@pytest.mark.parametrize(
    ("names", "kind"),
    [(DOCKER, "docker archive"), (BOTH, "docker archive"), (OCI, "OCI archive")]
    + [(names, "archive of a root filesystem") for names in ROOTS.values()],
)
def test_an_archive_is_told_by_its_names(tmp_path: Path, names: tuple[str, ...], kind: str) -> None:
    place = tar(tmp_path / "it's: a\n.sqsh", names)
    assert told(str(place)) == Source(kind, str(place))


@pytest.mark.parametrize("program", ["gzip", "bzip2", "xz", "zstd"])
def test_a_compressed_archive(tmp_path: Path, program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}")
    place = tar(tmp_path / "a", DOCKER)
    packed = tmp_path / "b.tar"
    packed.write_bytes(subprocess.run([program, "--stdout", place], capture_output=True, check=True).stdout)
    assert told(str(packed)) == Source("docker archive", str(packed), program)


def test_images_and_folders_are_told_by_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tar").write_bytes(sif(b"x"))
    (tmp_path / "b.sif").write_bytes(sqsh(b"x"))
    for name in ("root/etc", "root/usr", "other/src"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert told("a.tar") == Source("SIF image", str(tmp_path / "a.tar"), image="sif")
    assert told("b.sif") == Source("SQSH image", str(tmp_path / "b.sif"), image="sqsh")
    assert told("root") == Source("folder with a root filesystem", str(tmp_path / "root"))
    with pytest.raises(ImageError, match="a folder without etc/"):
        told("other")


def test_addresses_are_left_as_they_are() -> None:
    for word in ("docker://ghcr.io/a/b:c", "oras://r/x", "library://a/b"):
        assert told(word) == Source("image", word) and not told(word).is_file


@pytest.mark.parametrize("word", ["http://a/b", "docker://", "shub://a", "dockr://x"])
def test_other_addresses_are_refused(word: str) -> None:
    with pytest.raises(ImageError, match="cannot be imported"):
        told(word)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04rest", "it is a zip archive"),
        (b"#!/bin/sh\n", "it is a script"),
        (b"\x7fELF....", "it is a program"),
        (b"hello world", "it begins with b'hello wo'"),
        (b"\x1f\x8bnot gzip", "its archive cannot be read"),
        (sif(b"x" * 9000)[:-100], "is damaged: it is shorter than"),
    ],
)
def test_what_is_nothing_of_it_says_what_it_looks_like(tmp_path: Path, data: bytes, why: str) -> None:
    place = tmp_path / "x.tar"
    place.write_bytes(data)
    with pytest.raises(ImageError, match=why):
        told(str(place))


def test_an_archive_of_something_else_names_what_is_in_it(tmp_path: Path) -> None:
    place = tar(tmp_path / "src.tar", ["project/", "project/etc/x", "project/usr/y"])
    with pytest.raises(ImageError, match="an archive of something else, such as `project`"):
        told(str(place))
    with pytest.raises(ImageError, match=r"cannot read the image .*: No such file or directory"):
        told(str(tmp_path / "none"))


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    place = tar(tmp_path / "a.tar", [f"x/{i}" for i in range(5000)], "w:gz")
    place.write_bytes(place.read_bytes()[:5000])
    with pytest.raises(ImageError, match="its archive cannot be read: "):
        told(str(place))
