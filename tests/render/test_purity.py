"""The same experiment gives the same bytes, whoever compiles it, where and when; and a submission freezes them."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from image_files import sif
from render.golden import ODD, OPTIONS
from render.places import Place
from render.tools import LEGACY, made_locale
from render.values import odd

CONFIG = ODD + "model: ../models/none\ndata: {train: 'data é'}\n"
REPOSITORY = str(Path(__file__).resolve().parents[2])
VARIANTS: dict[str, dict[str, str]] = {
    "seed": {"PYTHONHASHSEED": "1"},
    "another seed": {"PYTHONHASHSEED": "4242"},
    "C": {"LANG": "C", "LC_ALL": "C"},
    "no locale": {"LANG": "", "LC_ALL": "", "PYTHONCOERCECLOCALE": "0"},
    "POSIX": {"LANG": "POSIX", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
    "Turkish": {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
    "Chinese": {"LANG": "zh_CN.UTF-8", "LC_ALL": "zh_CN.UTF-8", "LANGUAGE": "zh"},
    "time": {"TZ": "Pacific/Kiritimati", "SOURCE_DATE_EPOCH": "0"},
    "user": {
        "USER": "somebody",
        "LOGNAME": "else",
        "HOSTNAME": "elsewhere",
        "SHELL": "/bin/false",
        "COLUMNS": "20",
    },
    "folders": {
        "HF_HOME": "/somewhere",
        "HF_HUB_CACHE": "/some/hub",
        "TMPDIR": "/var/tmp",
        "PATH": "/nonexistent",
    },
    "slurm": {"SLURM_JOB_ID": "7", "SBATCH_ACCOUNT": "x", "SLURM_CONF": "/x", "CUDA_VISIBLE_DEVICES": "3"},
    "cold cache": {"XDG_CACHE_HOME": "{root}/cold"},
    "no cache": {"XDG_CACHE_HOME": "/proc/none"},
    "optimised": {"PYTHONOPTIMIZE": "2"},
}


def compiled(
    place: Place, words: list[str], changes: dict[str, str], cwd: Path, umask: int = 0o022
) -> tuple[int, bytes]:
    """Exit code and output of `tp` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tuneplane", *words],
        cwd=cwd,
        env=place.environment | {"PYTHONPATH": REPOSITORY} | changes,
        umask=umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("site", ["slurm-apptainer", "local"])
def test_the_same_bytes_from_any_process(place: Place, site: str) -> None:
    folder = place.experiment("exit 0", CONFIG + (OPTIONS if site != "local" else ""))
    (folder / "data é").mkdir()
    # the order in which a folder lists its files is not that of their names
    for name in ("b", "a", "Z", "é", "_"):
        (folder / name).write_text(name)
    image = place.root / "tool 1.sif"
    image.write_bytes(sif())
    options = ["--image", str(image)] if site != "local" else []
    words = ["--site", site, "compile", str(folder), *options, "--", "it's", "a\nb", "é"]
    here = place.tp(*words)
    assert here.code == 0, here.err
    assert "🫠" in here.out
    places = itertools.cycle([place.folder, place.root, Path("/"), folder])
    umasks = itertools.cycle([0o022, 0o077, 0o000])

    def one(name: str, cwd: Path, umask: int) -> tuple[int, bytes]:
        changes = {key: value.replace("{root}", str(place.root)) for key, value in VARIANTS[name].items()}
        return compiled(place, words, changes, cwd, umask)

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(VARIANTS, pool.map(one, VARIANTS, places, umasks), strict=True))
    assert {name: result for name, result in found.items() if result != (0, here.out.encode())} == {}


@pytest.mark.parametrize("name", LEGACY)
def test_the_same_bytes_in_a_locale_that_is_not_utf_8(place: Place, locales: Path, name: str) -> None:
    folder = place.experiment("exit 0", "env: {A: é 世界}\n")
    words = ["--site", "here", "compile", str(folder), "--", "é", "世界"]
    here = place.tp(*words)
    changes = {"LOCPATH": str(made_locale(locales, name)), "LC_ALL": name, "LANG": name}
    assert compiled(place, words, changes, place.root) == (0, here.out.encode())


def test_the_time_and_owner_of_the_files_are_in_no_script(place: Place) -> None:
    folder = place.experiment("exit 0", CONFIG)
    first = place.tp("--site", "here", "compile", "exp")
    for file in folder.rglob("*"):
        os.utime(file, (1, 1))
    copy = place.root / "copy"
    shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    assert place.tp("--site", "here", "compile", "exp").out == first.out
    assert first.code == 0


def test_another_experiment_gives_other_bytes(place: Place) -> None:
    """So that the tests above could fail."""
    folder = place.experiment("exit 0", CONFIG)
    first = place.tp("--site", "here", "compile", "exp").out
    (folder / "more").write_text("")
    assert place.tp("--site", "here", "compile", "exp").out != first


def test_the_command_in_the_script_prints_the_very_same_script(place: Place) -> None:
    """Copied out of the header into a bash, from another folder."""
    folder = place.experiment("exit 0", "env: {A: é}\n")
    (folder / "data").mkdir()
    words = [text for text in odd(200, seed=41) if len(text) < 1000]
    tp = [
        "--site",
        "here",
        "compile",
        str(folder),
        "--time",
        "90m",
        "--train-data",
        f"{folder}/data",
        "--profile",
        "cpu2",
    ]
    said = place.tp(*tp, "--", *words)
    assert said.code == 0, said.err
    match = re.search(r"^# To audit: .*\n#   (tp .*)$", said.out, re.MULTILINE)
    assert match is not None
    shell = f'tp() {{ "{sys.executable}" -m tuneplane "$@"; }}\n{match[1]}\n'
    environment = place.environment | {"PYTHONPATH": REPOSITORY}
    done = subprocess.run(
        ["/bin/bash"], input=shell.encode(), cwd="/", env=environment, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout.decode()) == (0, said.out)


def test_submit_writes_what_compile_prints_and_later_edits_change_nothing(place: Place) -> None:
    folder = place.experiment(
        'cp train.sh "$TUNEPLANE_OUTPUT_DIR/ran"; [ "$1" = "a b" ]', CONFIG.replace("model", "#")
    )
    (folder / "data é").mkdir()
    words = ("exp", "--", "a b", "é\n")
    script = place.tp("--site", "here", "compile", *words)
    assert script.code == 0, script.err
    said = place.tp("--site", "here", "submit", "--wait", *words)
    assert said.code == 0, said.err
    run = place.root / "runs" / said.out.strip().splitlines()[0]
    assert (run / "job.sbatch").read_bytes() == script.out.encode()
    assert (run / "output/ran").read_bytes() == (folder / "train.sh").read_bytes()

    def kept() -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in run.rglob("*") if file.is_file()}

    before = kept()
    for file in (folder / "train.sh", folder / "config.yaml"):
        file.write_text("# edited\n")
    (folder / "new").write_text("")
    (folder / "recipe.lock.json").unlink()
    assert kept() == before
    assert (run / "files/train.sh").stat().st_nlink == 1
