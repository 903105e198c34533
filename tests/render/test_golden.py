"""The golden scripts, compared whole; bash and shellcheck find nothing in them."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from render.golden import FOLDER, Case, Maker, cases
from render.tools import program

WRITE = "python tests/render/golden.py --write"
CASES = cases()


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_the_golden_one(maker: Maker, name: str) -> None:
    script = maker.script(name, CASES[name])
    # bytes: no line end is translated
    assert (FOLDER / f"{name}.sbatch").read_bytes().decode() == script, f"when it is right: {WRITE}"


def test_no_golden_script_is_missing_or_left_over() -> None:
    assert sorted(file.name for file in FOLDER.iterdir()) == sorted(f"{name}.sbatch" for name in CASES), WRITE


def test_a_script_that_names_its_folder_otherwise_is_seen(maker: Maker) -> None:
    """The names that stand for folder and helper cannot come from the script itself."""
    script = maker.script("another", Case("local", "custom/custom"))
    for spoilt in (script, f"{script}# {maker.root}/golden\n"):
        with pytest.raises(ValueError):
            maker.placeless(spoilt)


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.stem)
def test_bash_reads_it(file: Path) -> None:
    done = subprocess.run(["/bin/bash", "-n", file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.tools
def test_shellcheck_finds_nothing() -> None:
    """With all its severities; what a site sources itself it need not follow."""
    shellcheck = program("shellcheck")
    files = sorted(FOLDER.iterdir())

    def check(some: list[Path]) -> str:
        words = [shellcheck, "--severity=style", "--exclude=SC1091", "--format=gcc", *map(str, some)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr

    with ThreadPoolExecutor() as pool:
        assert "".join(pool.map(check, [files[::2], files[1::2]])) == ""
