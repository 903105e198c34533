"""`tp runtime build` and `import`, their whole output, with an `apptainer` that is played."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli.world import REPOSITORY, Expected, Said, World
from image_files import sif, sqsh
from pretend_apptainer import Pretender, play

expected = Expected("runtime_build")
ID = "pytorch-2.14.0"


class Builds:
    """A world with a site that has a registry and a folder for images."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.apptainer = Pretender(world.root / "programs")
        self.bin = world.root / "bin"
        self.images = world.root / "images"
        self.scratch = world.root / "scratch"
        self.scratch.mkdir()
        self.site()

    def site(self, kind: str = "apptainer", base: str = "slurm-apptainer", **changes: Any) -> None:
        folders = {"runs": str(self.world.runs), "scratch": str(self.scratch)}
        folders |= {"images": str(self.images), "registry": str(self.world.root / "registry")}
        self.world.site(
            "pub",
            base,
            **{
                "folders": folders,
                "runtime": {"kind": kind, "apptainer": str(self.apptainer.path)},
                "publishers": {"uids": [os.getuid()]},
                "path": [str(self.bin), "/usr/bin", "/bin"],
            }
            | changes,
        )

    def tp(self, *words: str) -> Said:
        return self.world.tp("--site", "pub", "runtime", *words)

    def check(self, said: Said, name: str) -> None:
        """The output against the transcript; the names of work folders and digests in names differ each time."""
        known = {}
        work = [path.name for path in self.images.glob(".*")] if self.images.exists() else []
        for path in work:
            known[path] = "work"
        expected(
            said, name, self.world, known={word: text for word, text in known.items() if word in str(said)}
        )


@pytest.fixture
def builds(world: World) -> Builds:
    return Builds(world)


def test_a_build_is_registered_and_used(builds: Builds) -> None:
    said = builds.tp("build", ID, "--build-arg", "index=/mnt", "--bind", "/wheels:/mnt")
    known = {next(builds.scratch.parent.glob("images/*.sif")).name: "image"}
    work = said.err.partition("images/")[2].partition("/")[0]
    expected(said, "a build", builds.world, known={**known, work: "work"})
    shown = json.loads(builds.tp("show", ID, "--json").out)["images"][0]
    assert shown["built"]["argument index"] == "/mnt" and shown["packages"] == {"torch": "2.14.0"}
    assert Path(shown["path"]).name in known
    # the interpreter that the definition names was asked
    assert builds.apptainer.calls()[-1][-3] == "/opt/venv/bin/python"
    again = builds.tp("build", ID)
    expected(again, "a build in a place that is taken", builds.world, known=known)
    assert len(builds.apptainer.builds()) == 1
    builds.apptainer.makes(sif(b"another"))
    replaced = builds.tp("build", ID, "--replace", "--json")
    facts = json.loads(replaced.out)
    assert replaced.code == 0 and facts["record"] == 2 and facts["built"].keys() > {"definition"}
    assert builds.tp("undo", ID).code == 0 and builds.tp("retire", ID).code == 0


def test_a_build_by_another_definition(builds: Builds) -> None:
    file = builds.world.folder / "mine.def"
    file.write_text("Bootstrap: scratch\n")
    assert builds.tp("build", "mine", "--definition", "mine.def", "--python", "/py").code == 0
    assert builds.apptainer.calls()[-1][-3] == "/py"


def test_an_import_for_a_site_that_takes_sqsh(builds: Builds) -> None:
    builds.site("enroot")
    (builds.world.folder / "x").write_bytes(sif(b"x" * 99))
    said = builds.tp("import", "toy", "x")
    assert said.code == 0 and said.out.startswith("registered toy sqsh-x86_64\n"), said
    (image,) = builds.images.iterdir()
    assert image.read_bytes() == sqsh(b"x" * 99)


def test_a_build_that_fails(builds: Builds) -> None:
    builds.apptainer.fails("INFO:    Starting build...\nFATAL:   dial tcp: lookup x: no such host\n")
    builds.check(builds.tp("build", ID), "a build that fails")
    assert builds.tp("show", ID).code == 5
    (work,) = builds.images.iterdir()
    assert (work / "build.log").read_text().count("FATAL") == 1


def test_an_image_that_cannot_be_started_here_stays(builds: Builds) -> None:
    builds.apptainer.mute()
    said = builds.tp("build", ID)
    (image,) = builds.images.iterdir()
    work = said.err.partition("images/")[2].partition("/")[0]
    expected(said, "an image that cannot be started", builds.world, known={image.name: "image", work: "work"})
    # what was said is what helps
    assert builds.tp("register", ID, str(image), "--no-probe").code == 0


MINE = ["build", "mine", "--definition", "mine.def"]
REFUSED = {
    "no runtime id": ["build", "a/b"],
    "no such argument": [*MINE, "--build-arg", "indx=/mnt"],
    "a password": [*MINE, "--build-arg", "index=https://me:word@host/simple"],
    "no file": ["build", ID, "--definition", "none.def"],
    "options of a job": ["build", ID, "--time", "1h"],
    "a profile of two nodes": ["build", ID, "--job", "--profile", "h200:16"],
    "too long": ["build", ID, "--job", "--time", "2d"],
    "no such resource": ["build", ID, "--job", "--resource", "acount=x"],
    "no such source": ["import", ID, "none.tar"],
    "a folder of something else": ["import", ID, "."],
    "a script": ["import", ID, str(REPOSITORY / "scripts/test")],
    "another scheme": ["import", ID, "http://host/image.sif"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(builds: Builds, name: str) -> None:
    (builds.world.folder / "mine.def").write_text("%arguments\nbase=x\nindex=y\n")
    builds.check(builds.tp(*REFUSED[name]), name)
    assert not builds.images.exists() and builds.apptainer.calls() == []


SITES: dict[str, dict[str, Any]] = {
    "on the host": {"runtime": {"kind": "host"}},
    "no folder for images": {"folders": {"runs": "/runs", "registry": "/nowhere/registry"}},
    "no registry": {"folders": {"runs": "/runs", "images": "/images"}},
    "not a publisher": {"publishers": {"uids": []}},
    "no apptainer": {"runtime": {"kind": "apptainer", "apptainer": "/none/apptainer"}},
}


@pytest.mark.parametrize("name", SITES)
def test_a_site_that_cannot(builds: Builds, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "not a publisher":
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        monkeypatch.setattr("tuneplane.registry.person.me", lambda: "carol")
    if name == "no folder for images":
        SITES[name]["folders"] |= {"registry": str(builds.world.root / "registry")}
    builds.site(**SITES[name])
    builds.check(builds.tp("build", ID), name)


def test_a_runtime_id_without_a_definition(builds: Builds) -> None:
    said = builds.tp("build", "pytorch-2.14")
    assert said.code == 5 and said.out == ""
    assert said.err.startswith(f"error: there is no definition of `pytorch-2.14`, did you mean `{ID}`?\n")


def test_a_local_site_has_no_queue(builds: Builds) -> None:
    builds.site(base="local", inherit=[], default_profile="cpu:1", profiles={"cpu": {"cpus_per_node": 1}})
    builds.check(builds.tp("build", ID, "--job"), "no queue")


def test_a_job_that_slurm_refuses(builds: Builds) -> None:
    play(builds.bin, "sbatch", "echo 'sbatch: error: Invalid qos specification' >&2; exit 1")
    play(builds.bin, "squeue", "exit 0")
    play(builds.bin, "scontrol", "exit 1")
    builds.check(builds.tp("build", ID, "--job"), "a job that Slurm refuses")
    assert list(builds.images.iterdir()) == []


def test_a_job_that_is_done(builds: Builds) -> None:
    play(
        builds.bin,
        "sbatch",
        'cd "${2#--chdir=}" && env -i SLURM_JOB_ID=7 PATH=/usr/bin bash -p job.sbatch && echo 7',
    )
    play(builds.bin, "scontrol", "echo PartitionName=cpu Default=YES MaxTime=UNLIMITED TotalNodes=9")
    said = builds.tp("build", ID, "--job")
    known = {next(builds.images.glob("*.sif")).name: "image"}
    work = said.err.partition("images/")[2].partition("/")[0]
    expected(said, "a job", builds.world, known={**known, work: "work"})
