"""Registering: what is recorded, what is refused before anything is read, and what an admin should know."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from builders import catalog, problems_of, site, write_recipe
from image_files import sif, sqsh
from registry.images import artifact

from tuneplane.errors import ImageError, LockError
from tuneplane.registry.layout import Registry
from tuneplane.registry.shelf import newest
from tuneplane.runtimes import registering
from tuneplane.runtimes.identity import seen, trouble
from tuneplane.runtimes.measure import Measured, measure
from tuneplane.runtimes.probe import Holding
from tuneplane.runtimes.registering import Wish, check_id, lacking, methods_of, register
from tuneplane.sites.model import Site

OWN = frozenset({0, os.getuid()})


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry", OWN)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "toy 世界.sif"
    made.write_bytes(sif(b"payload", labels={"a": "b"}))
    return made


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What would be started, with which interpreter; it always holds the same."""
    asked: list[tuple[str, str, str]] = []

    def probe(_: Site, path: str, image_format: str, python: str) -> Holding:
        asked.append((path, image_format, python))
        return Holding("3.12.4", {"torch": "2.13.0+cpu"})

    monkeypatch.setattr(registering, "probe", probe)
    return asked


def wish(file: Path | str, **fields: Any) -> Wish:
    return Wish("toy-2.0.0", str(file), **fields)


def test_what_is_recorded(registry: Registry, file: Path, held: list[tuple[str, str, str]]) -> None:
    told: list[int] = []
    made, shelf, notes = register(registry, site(), wish(file, python="/venv/python"), told.append)
    found, status = measure(file), file.stat()
    assert made.registered_at == shelf.at or abs(made.registered_at - time.time()) < 60
    assert (made.path, made.format, made.arch, made.compression) == (str(file), "sif", "x86_64", "zstd")
    assert (made.sha256, made.size, made.samples) == (found.sha256, found.size, found.samples)
    assert (made.seen, made.mtime) == (seen(str(file), status), int(status.st_mtime))
    assert (made.labels, made.built) == ({"a": "b"}, {"bootstrap": "localimage", "from": "/roots/toy"})
    assert (made.python, made.packages) == ("3.12.4", {"torch": "2.13.0+cpu"})
    assert held == [(str(file), "sif", "/venv/python")] and sum(told) == found.size
    assert notes == [] and newest(registry, "toy-2.0.0") == shelf
    assert trouble(made) == ""


def test_where_it_really_lies(registry: Registry, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A link could be made to lead elsewhere, and a word stands for another place in another folder."""
    (tmp_path / "newest.sif").symlink_to(file.name)
    monkeypatch.chdir(tmp_path)
    assert register(registry, site(), wish("newest.sif"))[0].path == str(file)


def test_not_looked_into(registry: Registry, file: Path, held: list[tuple[str, str, str]]) -> None:
    made, _, notes = register(registry, site(), wish(file, look=False))
    assert (made.python, made.packages, notes, held) == ("", None, [], [])


def test_without_a_python(registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "probe", lambda *_: Holding("", {}))
    made, _, notes = register(registry, site(), wish(file))
    assert (made.python, made.packages) == ("", {})
    assert notes == ["it has no Python that was found: only plain commands can run in it, on one node"]


@pytest.mark.parametrize("name", ["a", "pytorch-2.14.0", "A.b+c_d-1", "0", "a" * 100])
def test_runtime_ids(name: str) -> None:
    check_id(name)


@pytest.mark.parametrize("name", ["", ".", "-a", "a b", "a/b", "../a", "é", "a\n", "a" * 101])
def test_what_is_no_runtime_id(registry: Registry, file: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        register(registry, site(), Wish(name, str(file)))
    (problem,) = problems_of(caught)
    assert problem.what.endswith(" is no runtime id") and not registry.root.exists()
    assert problem.expected == "letters, digits, `.`, `_`, `+` and `-`, such as `pytorch-2.14.0`"


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading an image takes minutes: what is refused is refused before."""

    def refuse(*_: object) -> Measured:
        raise AssertionError("it was read")

    monkeypatch.setattr(registering, "measure", refuse)


def refused(registry: Registry, wanted: Wish, kind: type[Exception] = ImageError) -> tuple[str, str, str]:
    with pytest.raises(kind) as caught:
        register(registry, site(), wanted)
    (problem,) = problems_of(caught)  # type: ignore[arg-type]
    return problem.what, problem.where, problem.hint


def test_what_is_refused_before_it_is_read(
    registry: Registry, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(registry, site(), wish(file))
    unread(monkeypatch)
    assert refused(registry, wish(file, arch="aarch64")) == (
        f"`{file}` is for x86_64, not for aarch64",
        "--arch",
        "",
    )
    assert refused(registry, wish(file))[0] == f"toy-2.0.0 has a sif-x86_64 image already: `{file}`"
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        assert refused(registry, wish(place))[0] == f"`{place}` is not a file"
    assert refused(registry, wish(tmp_path / "x"))[0] == f"cannot read the image `{tmp_path}/x`: No such file or directory"  # fmt: skip
    (tmp_path / "text").write_text("FROM x")
    assert refused(registry, wish(tmp_path / "text"))[0] == f"`{tmp_path}/text` is no image: it begins with b'FROM x'"  # fmt: skip
    name = os.fsencode(tmp_path / "nam") + b"\xff"
    os.rename(file, name)
    assert refused(registry, wish(os.fsdecode(name)))[0] == f"the path `{tmp_path}/nam\\udcff` is not UTF-8"


def test_who_may_not_register_is_told_before_it_is_read(
    registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread(monkeypatch)
    registry.root.mkdir()
    registry.root.chmod(0o757)
    assert refused(registry, wish(file), LockError)[0] == f"`{registry.root}` is writable by everybody"
    registry.root.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert refused(registry, wish(file), LockError)[0] == "uid 54321 (uid 54321) is no publisher of the site"


def test_an_architecture_that_the_file_does_not_tell(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "toy.sqsh"
    file.write_bytes(sqsh())
    monkeypatch.setattr(registering, "architecture", lambda _: "")
    what, _, hint = refused(registry, wish(file))
    assert what == f"the architecture of `{file}` cannot be told here"
    assert hint == f"--arch {os.uname().machine}"
    assert register(registry, site(), wish(file, arch="aarch64"))[0].slot == "sqsh-aarch64"
    monkeypatch.setattr(registering, "architecture", lambda _: "aarch64")
    assert refused(registry, wish(file, arch="x86_64"))[0] == f"`{file}` is for aarch64, not for x86_64"
    assert register(registry, site(), wish(file, replace=True))[0].slot == "sqsh-aarch64"


def test_an_image_that_cannot_be_started_is_not_registered(
    registry: Registry, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Holding:
        raise ImageError.of("no image can be started on this machine", hint="--no-probe")

    monkeypatch.setattr(registering, "probe", fail)
    assert refused(registry, wish(file))[2] == "--no-probe"
    assert newest(registry, "toy-2.0.0") is None


def test_a_file_that_changes_meanwhile_is_not_registered(registry: Registry, file: Path) -> None:
    with pytest.raises(ImageError, match="changes while it is read"):
        register(registry, site(), wish(file), lambda _: file.touch())
    assert newest(registry, "toy-2.0.0") is None


# --- what an admin should know ---


def notes_of(registry: Registry, here: Site, file: Path, **fields: Any) -> list[str]:
    return register(registry, here, wish(file, replace=True, **fields))[2]


def test_an_image_that_the_site_does_not_start(registry: Registry, file: Path) -> None:
    for kind in ("pyxis", "enroot"):
        here = site(runtime={"kind": kind})
        assert notes_of(registry, here, file) == [f"this site starts images by {kind}, which takes no SIF"]
    host = site(scheduler="local", runtime={"kind": "host"})
    assert notes_of(registry, host, file) == ["this site starts images by host, which takes no SIF"]


def test_an_architecture_of_no_profile(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "arm.sif"
    file.write_bytes(sif(arch="aarch64"))
    assert notes_of(registry, site(), file) == ["no profile of this site is aarch64"]
    here = site(profiles={"h200": {"cpus_per_node": 1}, "gh200": {"cpus_per_node": 1, "arch": "aarch64"}})
    assert notes_of(registry, here, file) == []


def test_a_compression_that_few_can_read(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "lzo.sif"
    file.write_bytes(sif(compression="lzo"))
    assert notes_of(registry, site(), file) == ["it is compressed by lzo, which many kernels and squashfuse cannot read"]  # fmt: skip


def test_an_image_that_others_could_replace(registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    file = folder / "toy.sif"
    file.write_bytes(sif())
    end = ": its owner could put another image there, and jobs would be refused"
    folder.chmod(0o757)
    assert notes_of(registry, site(), file) == [f"`{folder}` is writable by everybody{end}"]
    folder.chmod(0o1757)
    assert notes_of(registry, site(), file) == []
    folder.chmod(0o755)
    file.chmod(0o646)
    assert notes_of(registry, site(), file) == [f"`{file}` is writable by everybody{end}"]
    file.chmod(0o664)
    assert notes_of(registry, site(), file) == [f"`{file}` is writable by gid {file.stat().st_gid}{end}"]
    if os.geteuid() == 0:
        file.chmod(0o644)
        os.chown(file, 54321, -1)
        assert notes_of(registry, site(), file) == [f"`{file}` belongs to uid 54321{end}"]
    assert stat.S_ISREG(file.stat().st_mode)


MANIFEST = """\
schema: 1
name: {name}
version: 1.0.0
title: {{en: Toy}}
summary: {{en: A toy}}
category: supervised
requires: {{core: ">=0.1,<0.2"}}
framework:
  kind: toy
  default: 2.0.0
  versions:
    1.0.0: {{}}
    2.0.0: {{runtime_id: toy-2.0.0, requires: [{requires}]}}
launch: {{kind: process, entry: {{experiment: main.sh}}, interpreter: [bash]}}
config: {{style: argv}}
data: {{kind: any}}
"""


def test_methods_and_what_they_lack(tmp_path: Path) -> None:
    for name, requires in (("toy/a", "torch==2.14.0, flash-attn"), ("toy/b", ""), ("toy/c", "torch>=2.13")):
        write_recipe(tmp_path, MANIFEST.format(name=name, requires=requires), name)
    methods = methods_of(catalog(tmp_path))
    assert methods == {
        "toy-2.0.0": [
            ("toy/a 2.0.0", ["torch==2.14.0", "flash-attn"]),
            ("toy/b 2.0.0", []),
            ("toy/c 2.0.0", ["torch>=2.13"]),
        ]
    }
    assert list(lacking(artifact(packages={"torch": "2.13.0+cpu"}), methods["toy-2.0.0"])) == [
        "toy/a 2.0.0 needs torch==2.14.0, and the image holds torch 2.13.0+cpu",
        "toy/a 2.0.0 needs flash-attn, and the image does not hold it",
    ]
    assert list(lacking(artifact(packages=None), methods["toy-2.0.0"])) == []
    assert list(lacking(artifact(packages={"torch": "3", "flash-attn": "1"}), methods["toy-2.0.0"])) == [
        "toy/a 2.0.0 needs torch==2.14.0, and the image holds torch 3"
    ]


def test_the_digest_is_that_of_the_bytes(registry: Registry, file: Path) -> None:
    made = register(registry, site(), wish(file))[0]
    assert made.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
