"""`tp explain`, `tp validate` and `tp compile` of sound experiments: who set what, and what wins over what."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.world import REPOSITORY, Expected, World
from image_files import sif

expected = Expected("explain")
RECIPES = [str(REPOSITORY / "tests/catalog_overlay"), str(REPOSITORY / "tests/cli/recipes")]
CONFIG = """\
model: weights
data: {train: train.parquet}
params:
  kl_beta: 0.3
  layers: [2, 3]
  every: 1h30m
env: {TOY_MODE: mine, NCCL_DEBUG: WARN, OMP_NUM_THREADS: 3}
secrets: [HF_TOKEN]
resources: {profile: cpu2, time: 2h, account: ours}
"""


@pytest.fixture
def toy(world: World) -> World:
    """A world with an experiment `exp` of toy/tuned, and two sites for it: `bench` and `queue`."""
    world.site("bench", "local", recipes=RECIPES, environment={"NCCL_DEBUG": "TRACE", "SITE": "here"})
    options = {"account": {"default": "site-account"}, "qos": {"default": "normal"}}
    profiles = {"cpu": {"cpus_per_node": 4}, "cpu2": {"cpus_per_node": 8, "partition": "long"}}
    world.site(
        "queue",
        "slurm-modules",
        recipes=RECIPES,
        slurm={"options": options, "add": {"switches": "1"}},
        profiles=profiles,
        default_profile="cpu",
    )
    folder = world.made("exp", "toy/tuned", "--site", "queue")
    for name in ("weights", "train.parquet", "other", "more.parquet"):
        (folder / name).write_text("")
    (folder / "config.yaml").write_text(CONFIG)
    return world


def rows(world: World, *words: str) -> dict[str, Any]:
    said = world.tp("--site", "queue", "explain", "exp", *words, "--json")
    assert (said.code, said.err) == (0, ""), said
    return {row["key"]: row for row in json.loads(said.out)}


ONE = {
    "a parameter": ["beta"],
    "a parameter that is not set": ["note"],
    "a parameter as JSON": ["beta", "--json"],
    "a parameter that is not set as JSON": ["tags", "--json"],
    "the model": ["model"],
    "data": ["data.train"],
    "the profile": ["resources.profile"],
    "the time": ["resources.time"],
    "a variable": ["env.NCCL_DEBUG"],
    "a variable without env": ["NCCL_DEBUG"],
    "a variable of the platform": ["TUNEPLANE_MODEL"],
    "a variable that the job finds out": ["TUNEPLANE_HEAD_PORT"],
    "a secret": ["HF_TOKEN"],
    "a directive": ["slurm.account"],
    "a flag among the directives": ["slurm.exclusive", "--json"],
    "unknown": ["bata"],
    "unknown like none": ["zzzz"],
    "over the command line": ["beta", "--set", "kl_beta=0.5", "--set", "beta=0.6"],
}


@pytest.mark.parametrize("name", ONE)
def test_one_key(toy: World, name: str) -> None:
    expected(toy.tp("--site", "queue", "explain", "exp", *ONE[name]), f"one: {name}", toy)


@pytest.mark.parametrize("site", ["bench", "queue"])
def test_all_keys(toy: World, site: str) -> None:
    config = toy.folder / "exp/config.yaml"
    if site == "bench":
        config.write_text(CONFIG.replace(", account: ours", ""))
    said = toy.tp("--site", site, "explain", "exp", "--set", "warmup=0", "--time", "90m")
    expected(said, f"all at {site}", toy)
    as_json = toy.tp("--site", site, "explain", "exp", "--set", "warmup=0", "--time", "90m", "--json")
    keys = [row["key"] for row in json.loads(as_json.out)]
    assert keys == [line.split()[0] for line in said.out.splitlines()[1:]]


def test_words_behind_the_dashes_are_no_key(world: World) -> None:
    world.made()
    said = world.tp("explain", "exp", "--", "beta", "--help")
    assert (said.code, said.err) == (0, "") and said.out.startswith("KEY ")
    expected(world.tp("explain", "exp", "LANG", "--", "x"), "one: before the words", world)


SETTINGS = {
    (): ("0.3", "config.yaml", ["0.1"]),
    ("--set", "beta=0.5"): ("0.5", "command line", ["0.3", "0.1"]),
    ("--set", "kl_beta=0.5"): ("0.5", "command line", ["0.3", "0.1"]),
    ("--set", "kl_beta=0.5", "--set", "beta=0.6"): ("0.6", "command line", ["0.5", "0.3", "0.1"]),
    ("--set", "beta=0.6", "--set", "kl_beta=0.5"): ("0.5", "command line", ["0.6", "0.3", "0.1"]),
}


@pytest.mark.parametrize("words", SETTINGS)
def test_set_over_params_over_default(toy: World, words: tuple[str, ...]) -> None:
    value, source, lost = SETTINGS[words]
    row = rows(toy, *words)["beta"]
    assert (row["value"], row["source"], [item["value"] for item in row["lost"]]) == (value, source, lost)
    script = toy.tp("--site", "queue", "compile", "exp", *words).out
    assert f"--loss.beta={value} " in script and f'"beta": {value},' in script


def test_a_default_holds_where_nothing_is_said(toy: World) -> None:
    (toy.folder / "exp/config.yaml").write_text("model: weights\ndata: {train: train.parquet}\n")
    row = rows(toy)["beta"]
    assert (row["value"], row["source"], row["lost"]) == ("0.1", "recipe default", [])


OPTIONS = {
    "--profile": ("resources.profile", "cpu", "cpu2"),
    "--time": ("resources.time", "3h", "2h"),
    "--model": ("model", "other", "weights"),
    "--train-data": ("data.train", "more.parquet", "train.parquet"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_the_command_line_over_the_file(toy: World, option: str) -> None:
    key, value, below = OPTIONS[option]
    before, row = rows(toy)[key], rows(toy, option, value)[key]
    place = "" if key.startswith("resources") else f"{toy.folder}/exp/"
    assert (before["value"], before["source"]) == (place + below, "config.yaml")
    assert (row["value"], row["source"], row["where"]) == (
        place + value,
        "command line",
        f"command line {option}",
    )
    assert row["lost"][0] == {"source": "config.yaml", "value": below, "where": before["where"]}
    assert rows(toy, option, below)[key]["value"] == before["value"]


def test_validation_data_from_the_command_line(toy: World) -> None:
    assert "data.validation" not in rows(toy)
    row = rows(toy, "--validation-data", "more.parquet")["data.validation"]
    assert (row["value"], row["source"], row["lost"]) == (
        f"{toy.folder}/exp/more.parquet",
        "command line",
        [],
    )


def test_options_reach_the_script(toy: World) -> None:
    script = toy.tp(
        *("--site", "queue", "compile", "exp", "--profile", "cpu:3", "--time", "1d2h", "--model", "other"),
        *("--train-data", "more.parquet", "--validation-data", "/etc/hostname", "--set", "layers=4,5"),
    ).out
    here = re.escape(str(toy.folder).replace("'", "'\\''"))
    for pattern in (
        r"^#SBATCH --nodes=3$",
        r"^#SBATCH --time=1-02:00:00$",
        r"^#SBATCH --account=ours$",
        rf"^export TUNEPLANE_MODEL='{here}/exp/other'$",
        rf"^export TUNEPLANE_TRAIN_DATA='{here}/exp/more\.parquet'$",
        r"^export TUNEPLANE_VALIDATION_DATA=/etc/hostname$",
        r"^ +--train\.layers \\\n +4 \\\n +5 \\$",
    ):
        assert re.search(pattern, script, re.MULTILINE), pattern


def test_environment_of_the_user_over_the_recipe_over_the_site(toy: World) -> None:
    found = rows(toy)
    assert [found[f"env.{name}"]["value"] for name in ("TOY_MODE", "NCCL_DEBUG", "OMP_NUM_THREADS")] == [
        "mine",
        "WARN",
        "3",
    ]
    config = toy.folder / "exp/config.yaml"
    config.write_text(re.sub(r"env: .*\n", "", CONFIG).replace(", account: ours", ""))
    said = toy.tp("--site", "bench", "explain", "exp", "--json")
    below = {row["key"]: row for row in json.loads(said.out)}
    assert (below["env.NCCL_DEBUG"]["value"], below["env.NCCL_DEBUG"]["source"]) == ("INFO", "recipe")
    assert below["env.NCCL_DEBUG"]["lost"] == [{"source": "site", "value": "TRACE", "where": ""}]
    assert (below["env.SITE"]["value"], below["env.SITE"]["source"]) == ("here", "site")


def test_an_image_from_the_command_line(world: World) -> None:
    world.made("exp", "pytorch/image-classification")
    (world.folder / "mine.sif").write_bytes(sif())
    said = world.tp("--site", "slurm-apptainer", "compile", "exp", "--image", "mine.sif")
    assert (said.code, said.err) == (0, "")
    assert f"#   image       {world.folder}/mine.sif (--image)\n" in said.out
    assert "digest unknown" not in said.out and "/shared/images" not in said.out


def test_validate(toy: World) -> None:
    config = toy.folder / "exp/config.yaml"
    config.write_text(CONFIG.replace("secrets: [HF_TOKEN]\n", ""))
    for name in (".env", "output/old.pt"):
        (toy.folder / "exp" / name).parent.mkdir(exist_ok=True)
        (toy.folder / "exp" / name).write_text("")
    expected(toy.tp("--site", "queue", "validate", "exp", "--profile", "cpu:2"), "valid", toy)
    said = toy.tp("--site", "queue", "validate", "exp", "--profile", "cpu:2", "--json")
    expected(said, "valid as JSON", toy)


def test_compile_prints_the_script_and_nothing_else(world: World) -> None:
    world.made()
    said = world.tp("compile", "exp")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("#!/bin/bash -p\n") and said.out.endswith("\n")
    assert world.real("compile", "exp") == said


def test_compile_says_the_command_that_prints_the_same(world: World) -> None:
    """The audit line of the script, typed into a shell in another folder, prints the very same bytes."""
    import subprocess
    import sys

    world.made("it's an 实验", "pytorch/image-classification")
    said = world.tp(
        *("--site", "slurm-modules", "compile", "it's an 实验", "--profile", "a100:2", "--time", "90m"),
        *("--set", "arch=$(x) 'y'", "--set", "epochs=3", "--train-data", "./no'ne"),
    )
    line = re.search(r"^# To audit: .*\n#   (tp .*)$", said.out, re.MULTILINE)
    assert line is not None
    tp = Path(sys.executable).with_name("tp")
    assert tp.exists(), "the console script is installed beside the interpreter"
    done = subprocess.run(
        ["/bin/bash", "-c", line[1]],
        cwd="/",
        env=world.environment | {"PATH": f"{tp.parent}:/usr/bin:/bin", "LC_ALL": "C", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, said.out, said.err)


def test_a_hub_id_is_a_commit_of_the_cache(world: World) -> None:
    cache = world.home / ".cache/huggingface/hub/models--org--name"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(commit)
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "snapshots" / commit / "config.json").write_text("{}")
    (world.made() / "config.yaml").write_text("model: org/name\n")
    expected(world.tp("explain", "exp", "model"), "one: a Hub id", world)
    script = world.tp("compile", "exp").out
    path = f"{cache}/snapshots/{commit}"
    assert f"#   model       {path} (org/name)\n" in script
    assert f"\nexport TUNEPLANE_MODEL={path}\n" in script
