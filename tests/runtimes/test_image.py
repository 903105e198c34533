"""Which image a run starts: the user's, the registered one, or the site file's; and what its file says."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from builders import problems_of, site, whats
from image_files import sif, sqsh
from registry.images import artifact

from tuneplane.errors import ImageError
from tuneplane.plan.model import NOT_REGISTERED, Image
from tuneplane.runtimes.image import (
    Wanted,
    found_image,
    named_image,
    of_artifact,
    record_of,
    sha256_of,
    with_digest,
)
from tuneplane.sites.model import Site

ID = "toy-2.0.0"
SIF, SQSH = artifact("a"), artifact("b", format="sqsh", path="/images/b.sqsh")
BOTH = {"sif-x86_64": SIF, "sqsh-x86_64": SQSH}


def at(kind: str = "apptainer", **images: str) -> Site:
    return site(runtime={"kind": kind, "images": images or {"toy-2.0.0": f"/site/toy.{kind}"}})


def named(wanted: Wanted, here: Site, registered: dict[str, Any] = BOTH, record: int = 7) -> tuple[str, str]:
    found = named_image(wanted, here, registered, record)
    assert found is not None
    return found.path, found.source


def wanted(arch: str = "x86_64", **fields: Any) -> Wanted:
    return Wanted(ID, arch, **fields)


def test_who_names_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    registered = ("/images/a.sif", f"record 7 of {ID}")
    for by in ("--image", "TUNEPLANE_IMAGE_TOY"):
        assert named(wanted(given="my.sif", by=by), at()) == ("/usr/my.sif", by)
    assert named(wanted(), at()) == registered
    assert named(wanted(), at(), {}) == ("/site/toy.apptainer", f"site image of {ID}")
    assert named(wanted(), at(other="/x")) == registered
    assert named(wanted(), at(other="/x"), {}) == (ID, NOT_REGISTERED)


def test_the_format_that_the_site_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, path in (
        ("apptainer", "/images/a.sif"),
        ("pyxis", "/images/b.sqsh"),
        ("enroot", "/images/b.sqsh"),
    ):
        assert named(wanted(), at(kind))[0] == path
    # the better one first, the other where it is alone
    assert named(wanted(), at(), {"sqsh-x86_64": SQSH})[0] == "/images/b.sqsh"
    for kind in ("pyxis", "enroot"):
        assert named(wanted(), at(kind), {"sif-x86_64": SIF})[1] == f"site image of {ID}"


def test_only_for_another_format_or_architecture() -> None:
    """What there is instead is said."""
    for kind, arch, there in (("pyxis", "x86_64", "sif-x86_64"), ("apptainer", "aarch64", "sif-x86_64")):
        found = named_image(wanted(arch), at(kind, other="/x"), {"sif-x86_64": SIF}, 7)
        assert found == Image(ID, ID, NOT_REGISTERED, trouble=there)
    arm = artifact("c", arch="aarch64")
    assert named(wanted("aarch64"), at(), {**BOTH, "sif-aarch64": arm})[0] == "/images/c.sif"


def test_no_runtime_id() -> None:
    assert named_image(Wanted("", "x86_64"), at(), {}) is None
    assert named(Wanted("", "x86_64", given="/my.sif"), at(), {}) == ("/my.sif", "--image")


def test_what_a_record_says() -> None:
    requires = ("torch==2.14.0", "Flash_Attn>=2", "ray[default]")
    found = named_image(wanted(requires=requires), at(), BOTH, 7)
    assert found == of_artifact(SIF, 7, requires)
    assert dataclasses.asdict(found) == {
        "path": "/images/a.sif",
        "runtime_id": ID,
        "source": f"record 7 of {ID}",
        "sha256": "a" * 64,
        "size": 10,
        "samples": "a" * 64,
        "format": "sif",
        "arch": "x86_64",
        "packages": (("flash-attn", ""), ("ray", ""), ("torch", "2.14.0")),
        "trouble": "",
    }
    assert of_artifact(artifact(packages=None), 7, requires).packages is None
    assert of_artifact(SIF, 7, ()).packages == ()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("record 7 of toy-2.0.0", ("toy-2.0.0", 7)),
        ("record 12345678 of a+b", ("a+b", 12345678)),
        ("record 7 of a b", None),
        ("record -7 of a", None),
        ("record 7 of ", None),
        ("a record 7 of b", None),
        ("record 7 of a\n", None),
        ("--image", None),
        ("", None),
    ],
)
def test_the_record_that_a_source_names(source: str, found: tuple[str, int] | None) -> None:
    assert record_of(source) == found


def test_what_a_file_says(tmp_path: Path, cold_cache: Path) -> None:
    for name, data, arch in (("a.txt", sif(b"x", arch="aarch64"), "aarch64"), ("b.sif", sqsh(b"y"), "")):
        file = tmp_path / name
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        kind = "sif" if data.startswith(b"#!") else "sqsh"
        given = Image(str(file), ID, "--image")
        for _ in range(2):
            expected = Image(str(file), ID, "--image", digest, len(data), digest, kind, arch)
            assert with_digest(given) == found_image(given, {}) == expected
        assert sha256_of(str(file)) == digest


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "none", Path("/etc/passwd/x")):
        image = Image(str(path), ID, "site image of toy-2.0.0")
        assert with_digest(image) == found_image(image, {}) == image
        assert sha256_of(str(path)) is None


def test_what_is_no_image(tmp_path: Path) -> None:
    """A FIFO is no file either, and nobody waits for its writer."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ImageError) as caught:
            with_digest(Image(str(path), ID, "--image"))
        (problem,) = problems_of(caught)
        assert (problem.what, problem.where) == (f"`{path}` is not a file", "--image")
        with pytest.raises(ImageError, match="is not a file"):
            sha256_of(str(path))
    (tmp_path / "text").write_text("text")
    with pytest.raises(ImageError) as caught:
        with_digest(Image(str(tmp_path / "text"), ID, "--image"))
    assert whats(caught) == [f"`{tmp_path}/text` is no image: it begins with b'text'"]
    # for an audit it is a file like any other
    assert sha256_of(str(tmp_path / "text")) == hashlib.sha256(b"text").hexdigest()


def test_of_a_registered_image_the_record_speaks(tmp_path: Path) -> None:
    """Its file is held against it; digests, size and all the rest are the record's whatever lies there."""
    file = tmp_path / "a.sif"
    file.write_bytes(b"anything")
    kept = artifact("a", path=str(file))
    image = of_artifact(kept, 7, ())
    found = found_image(image, {kept.slot: kept})
    assert found == dataclasses.replace(image, trouble=f"the registered image `{file}` has 8 bytes, not 10")
    file.unlink()
    found = found_image(image, {kept.slot: kept})
    assert found == dataclasses.replace(image, trouble=f"the registered image `{file}` is gone")


def test_one_content_in_two_slots(tmp_path: Path) -> None:
    """A copy for the other architecture has its own file."""
    kept = artifact("a", path=str(tmp_path / "a"))
    copy = artifact("a", path=str(tmp_path / "b"), arch="aarch64")
    for item in (kept, copy):
        found = found_image(of_artifact(item, 1, ()), {"sif-x86_64": kept, "sif-aarch64": copy})
        assert found is not None and found.trouble == f"the registered image `{item.path}` is gone"


def test_no_image_and_none_that_is_registered_stay_as_they_are() -> None:
    image = Image(ID, ID, NOT_REGISTERED, trouble="sif-aarch64")
    assert found_image(None, {}) is None and found_image(image, {}) is image
