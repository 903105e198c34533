"""The check inside an image agrees with `packaging`, but for what it says that it leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from job.conftest import old_python
from packaging.requirements import Requirement
from packaging.version import Version

from tuneplane.job.checks.requires import installed, unmet

REPOSITORY = Path(__file__).resolve().parents[2]
CLAUSES = [
    "==2.14.0", "==2.14", "==2", "==2.*", "==2.14.*", "==2.14.0.*", "!=2.14.0", "!=2.14.*", "!=2.13.*", ">=2.14.0", ">=2.14", ">=2.15", "<=2.14.0",
    "<=2.13.9", "<2.14.0", "<3", "<2.14.1", ">2.13", ">2.14.0", ">2.14", "~=2.14.0", "~=2.13", "~=2.14", "~=2.0", "~=2.13.1", "===2.14.0", ">=2.12,<3",
    ">=2.12,<2.14", ">=2,!=2.14.0,<4", "==10.0", ">=9.1", ">=2.14.0.0", "==2.014.0",
]  # fmt: skip
VERSIONS = [
    "2.14.0",
    "2.14",
    "2.14.1",
    "2.13.0",
    "2.13.9",
    "3.0",
    "2.15.0",
    "10.0",
    "2.14.0.1",
    "2",
    "0.1",
    "v2.14.0",
]
LOCAL = ["2.14.0+cpu", "2.14.0+cu130", "2.13.0+cpu", "2.14.1+gitabcdef", "2.15.0+1", "2+a"]
ORDERED = [clause for clause in CLAUSES if "===" not in clause]


def ours(clause: str, version: str | None) -> bool:
    return unmet(f"torch{clause}", lambda _: version) == ""


def theirs(clause: str, version: str) -> bool:
    return Requirement(f"torch{clause}").specifier.contains(version, prereleases=True)


def test_it_agrees_on_releases() -> None:
    wrong = [(c, v) for c in CLAUSES for v in VERSIONS if ours(c, v) != theirs(c, v)]
    # `===` compares texts there, and releases here
    assert all(clause.startswith("===") for clause, _ in wrong), wrong


def test_it_agrees_on_local_versions() -> None:
    """`2.14.0+cu130` is 2.14.0; whether it is more than that is asked nowhere."""
    wrong = [(c, v) for c in ORDERED for v in LOCAL if ours(c, v) != theirs(c, v)]
    assert wrong == []


@pytest.mark.parametrize(
    "version", ["2.14.0rc1", "2.14.0a0", "2.14.0.dev20260101", "2.14.0.post2", "2.14.0a0+git1", "1!2.14.0"]
)
def test_what_follows_the_release_does_not_count(version: str) -> None:
    """As documented: a candidate and a post-release are taken for the release, and no epoch counts."""
    for clause in ORDERED:
        assert ours(clause, version) == ours(clause, "2.14.0"), clause
    # where `packaging` looks at them, it is in clauses that name this very release
    wrong = [c for c in ORDERED if ours(c, version) != theirs(c, version)]
    assert all("14" in clause or version.startswith("1!") for clause in wrong), wrong
    assert Version(version) != Version("2.14.0")


def test_a_local_part_that_is_asked_for_does_not_count_either() -> None:
    assert ours("==2.14.0+cu130", "2.14.0+cpu") and not theirs("==2.14.0+cu130", "2.14.0+cpu")
    assert not ours("==2.15.0+cu130", "2.14.0+cu130")


@pytest.mark.parametrize(
    ("requirement", "held", "said"),
    [
        ("torch==2.14.0", "2.13.0+cpu", "the image has torch 2.13.0+cpu, and the method needs torch==2.14.0"),
        ("torch==2.14.0", None, "the image has no torch, and the method needs torch==2.14.0"),
        ("torch", None, "the image has no torch, and the method needs torch"),
        ("torch", "anything", ""),
        ("torch==1", "anything", ""),
        ("ray[default]>=2.49", "2.50.0", ""),
        ("ray[default]>=2.51", "2.50.0", "the image has ray 2.50.0, and the method needs ray[default]>=2.51"),
        (" flash_attn >= 2 , < 3 ", "2.8", ""),
        (
            " flash_attn >= 2 , < 3 ",
            "3.1",
            "the image has flash_attn 3.1, and the method needs  flash_attn >= 2 , < 3 ",
        ),
        ("torch>=v2", "2.1", ""),
        ("", "1", ""),
        ("-x", "1", ""),
    ],
)
def test_what_is_said(requirement: str, held: str | None, said: str) -> None:
    assert unmet(requirement, lambda _: held) == said


def test_the_name_that_is_asked_for() -> None:
    asked: list[str] = []

    def version_of(name: str) -> str:
        asked.append(name)
        return "2"

    for text in ("Flash_Attn>=2", "ray[default]", "a.b-c~=2.0"):
        unmet(text, version_of)
    assert asked == ["Flash_Attn", "ray", "a.b-c"]


def test_what_is_installed_here() -> None:
    assert installed("pytest") == pytest.__version__ and installed("no-such-package") is None
    assert unmet("pytest>=1") == "" and unmet("no-such-package").startswith("the image has no ")


def test_the_oldest_python_says_the_same() -> None:
    """All of it, by the interpreter of 2019."""
    python = old_python()
    if python is None:
        pytest.skip("there is no Python 3.8 here")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tuneplane.job.checks.requires import unmet\n"
        "for line in sys.stdin.read().split('\\n'):\n"
        "    clause, version = line.split(' ')\n"
        "    print(int(unmet('torch' + clause, lambda _: version) == ''), end='')\n"
        "assert unmet('no-such-package')\n"
    )
    pairs = [(c, v) for c in CLAUSES for v in (*VERSIONS, *LOCAL)]
    done = subprocess.run(
        [python, "-c", code, str(REPOSITORY)],
        input="\n".join(f"{c} {v}" for c, v in pairs),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "".join(str(int(ours(c, v))) for c, v in pairs)
    assert sys.version_info >= (3, 10)
