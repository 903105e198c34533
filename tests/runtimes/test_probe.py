"""Looking into an image by a container starter that is a script: what it is asked, and what is made of its answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import problems_of, site

from tuneplane.errors import ImageError
from tuneplane.runtimes import probe as probing
from tuneplane.runtimes.probe import Holding, probe
from tuneplane.sites.model import Site

OPTIONS = ["--quiet", "exec", "--cleanenv", "--no-eval", "--pid", "--no-mount", "home,cwd", "--pwd", "/"]


class Machine:
    """A login node with programs of its own, each of which writes down its words and variables."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log = place / "log"

    def program(self, name: str, then: str) -> str:
        """A program that ends with the shell text `then`, in which `$@` are the words behind the image."""
        path = self.place / name
        path.write_text(
            f'#!/bin/sh\n{{ printf "%s\\n" "$0" "$@"; env; printf "\\n---\\n"; }} >>"{self.log}"\n'
            f'while [ "$1" != /images/i ]; do shift; done; shift\n{then}\n'
        )
        path.chmod(0o755)
        return str(path)

    def site(self, apptainer: str = "", enroot: str = "", **fields: Any) -> Site:
        programs = {"apptainer": apptainer or "/no/apptainer", "enroot": enroot or "/no/enroot"}
        return site(runtime={"kind": "apptainer", **programs}, **fields)

    def calls(self) -> list[str]:
        return self.log.read_text().split("\n---\n")[:-1] if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def answer(python: str = "3.12.4", **packages: Any) -> str:
    return "echo 'tuneplane-holds:" + json.dumps([python, "x86_64", packages]) + "'"


def test_what_the_image_says(machine: Machine) -> None:
    here = machine.site(machine.program("apptainer", answer(Flash_Attn="2.8.1+cu130", torch="2.14.0", x="")))
    assert probe(here, "/images/i", "sif", "/opt/venv/bin/python") == Holding(
        "3.12.4", {"flash-attn": "2.8.1+cu130", "torch": "2.14.0", "x": ""}
    )
    (call,) = machine.calls()
    lines = call.split("\n")
    assert lines[: 1 + len(OPTIONS)] == [here.runtime.apptainer, *OPTIONS]
    assert lines[1 + len(OPTIONS) :][:3] == ["/images/i", "/opt/venv/bin/python", "-c"]


def test_its_real_question(machine: Machine) -> None:
    """Asked of this very Python, whose packages are known."""
    here = machine.site(machine.program("apptainer", f'shift; exec "{sys.executable}" "$@"'))
    found = probe(here, "/images/i", "sif")
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert {"pytest", "click", "pydantic"} <= set(found.packages)
    assert all(name == name.lower() and "_" not in name for name in found.packages)


def test_what_is_said_around_the_answer_does_not_count(machine: Machine) -> None:
    text = f"echo WARNING: nv files >&2; echo '== PyTorch =='; {answer(torch='1')}; echo bye; exit 3"
    here = machine.site(machine.program("apptainer", text))
    assert probe(here, "/images/i", "sif") == Holding("3.12.4", {"torch": "1"})


def test_an_image_without_python(machine: Machine) -> None:
    """It starts, and holds nothing."""
    text = '[ "$1" = /bin/sh ] || { echo "no python3" >&2; exit 127; }'
    here = machine.site(machine.program("apptainer", text))
    assert probe(here, "/images/i", "sif") == Holding("", {})
    assert [call.split("\n")[11:13] for call in machine.calls()] == [["python3", "-c"], ["/bin/sh", "-c"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo first >&2; printf '\x1b[31mFATAL: no\x1b[0m\n\x1b[0m' >&2; exit 255", "FATAL: no"),
        ("printf 'FATAL: a\x07b' >&2; exit 255", r"FATAL: a\x07b"),
        ("exit 9", "it ended with 9"),
        ("echo 'no error' ; exit 1", "it ended with 1"),
    ],
)
def test_an_image_that_does_not_start(machine: Machine, text: str, said: str) -> None:
    here = machine.site(machine.program("apptainer", text))
    with pytest.raises(ImageError) as caught:
        probe(here, "/images/i", "sif")
    (problem,) = problems_of(caught)
    assert (problem.what, problem.hint) == (
        f"the image `/images/i` cannot be started here: {said}",
        "--no-probe",
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", "1", '["3", "x"]', '["3", "x", []]', '["3", "x", {"a": 1}, 4]', "null"]
)
def test_an_answer_that_is_none(machine: Machine, text: str) -> None:
    here = machine.site(machine.program("apptainer", f"echo 'tuneplane-holds:{text}'"))
    with pytest.raises(ImageError) as caught:
        probe(here, "/images/i", "sif")
    assert problems_of(caught)[0].what == "the image `/images/i` says nothing sensible of itself"


def test_programs_that_cannot_be_run(machine: Machine) -> None:
    """A folder, and a file that is no program."""
    broken = machine.place / "broken"
    broken.write_bytes(b"\0\1\2")
    broken.chmod(0o755)
    for path, said in ((str(broken), "Exec format error"), (str(machine.place), "Permission denied")):
        with pytest.raises(ImageError) as caught:
            probe(machine.site(path), "/images/i", "sif")
        assert problems_of(caught)[0].what.endswith(f"cannot be started here: {path}: {said}")


def test_which_program_starts_it(machine: Machine) -> None:
    apptainer = machine.program("apptainer", answer("3.1"))
    enroot = machine.program("enroot", answer("3.2"))
    assert probe(machine.site(apptainer, enroot), "/images/i", "sqsh").python == "3.1"
    assert probe(machine.site("", enroot), "/images/i", "sqsh").python == "3.2"
    assert machine.calls()[-1].split("\n")[:3] == [enroot, "start", "/images/i"]


@pytest.mark.parametrize(
    ("image_format", "expected"), [("sif", "/no/apptainer"), ("sqsh", "/no/apptainer or /no/enroot")]
)
def test_no_program_that_starts_it(machine: Machine, image_format: str, expected: str) -> None:
    here = machine.site("", machine.program("enroot", answer()) if image_format == "sif" else "")
    with pytest.raises(ImageError) as caught:
        probe(here, "/images/i", image_format)
    (problem,) = problems_of(caught)
    expected = expected.replace("/no/enroot", here.runtime.enroot)
    assert (problem.what, problem.expected, problem.hint) == (
        "no image can be started on this machine",
        expected,
        "--no-probe",
    )
    assert machine.calls() == []


def test_nothing_of_the_admins_environment_reaches_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "PYTHONPATH",
        "APPTAINER_BIND",
        "SINGULARITY_BIND",
        "ENROOT_MOUNTS",
        "HF_TOKEN",
        "LD_PRELOAD",
    ):
        monkeypatch.setenv(name, "/evil")
    here = machine.site(machine.program("apptainer", answer()), path=["/usr/bin", "/opt/bin", "/bin"])
    probe(here, "/images/i", "sif")
    (call,) = machine.calls()
    assert "/evil" not in call and "PATH=/usr/bin:/opt/bin:/bin" in call.split("\n")
    scratch = [line.partition("=")[2] for line in call.split("\n") if line.startswith("APPTAINER_TMPDIR=")]
    assert not os.path.exists(scratch[0]), "what it unpacks is removed"


def test_one_that_says_nothing_for_long(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "SECONDS", 0.2)
    here = machine.site(machine.program("apptainer", "exec sleep 60"))
    with pytest.raises(ImageError) as caught:
        probe(here, "/images/i", "sif")
    assert problems_of(caught)[0].what.endswith("cannot be started here: nothing was heard for 0.2 s")


def test_its_question_needs_no_new_python() -> None:
    """Nor `importlib.metadata`, without which nothing is found."""
    code = f"import sys; sys.modules['importlib.metadata'] = None\n{probing._LOOK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    python, machine, found = json.loads(done.stdout.removeprefix("tuneplane-holds:"))
    assert (python.split(".")[0], machine, found) == ("3", os.uname().machine, {})
