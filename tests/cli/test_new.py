"""`tp new`: what it makes, and that it never overwrites nor leaves half an experiment."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest
from cli.world import REPOSITORY, Expected, World, lines, normal

expected = Expected("new")
METHODS = ["custom/custom", "pytorch/image-classification"]


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("method", METHODS)
def test_new(world: World, method: str) -> None:
    expected(world.tp("new", "exp", "--method", method), "made", world)
    made = files(world.folder / "exp")
    assert normal(made.pop("config.yaml"), world) == expected.section(f"config.yaml of {method}")
    assert normal(made.pop("recipe.lock.json"), world) == expected.section(f"lock of {method}")
    assert made == files(REPOSITORY / "recipes" / method / "starter")
    assert sorted(os.listdir(world.folder)) == ["exp"]


@pytest.mark.parametrize("method", METHODS)
def test_what_was_made_is_valid_and_compiles(world: World, method: str) -> None:
    world.made("exp", method)
    assert world.tp("validate", "exp").code == 0
    said = world.tp("compile", "exp")
    assert (said.code, said.err, said.out[:15]) == (0, "", "#!/bin/bash -p\n")


def test_the_lock_names_the_recipe_in_force(world: World) -> None:
    lock = json.loads((world.made() / "recipe.lock.json").read_text())
    shown = json.loads(world.tp("methods", "custom/custom", "--json").out)
    assert lock["recipe"]["digest"] == shown["digest"]


def test_the_files_are_the_users_to_edit(world: World) -> None:
    folder = world.made()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("train.sh") in (0o755, 0o644)
    assert set(modes.values()) == {0o644}


def test_in_chinese(world: World) -> None:
    expected(world.tp("new", "exp", "--method", "custom/custom", "--lang", "zh"), "made", world)
    text = (world.folder / "exp/config.yaml").read_text(encoding="utf-8")
    assert text == expected.section("config.yaml in Chinese")


def test_as_json(world: World) -> None:
    expected(world.tp("new", "exp", "--method", "custom/custom", "--json"), "made as JSON", world)


def test_with_a_framework_version(world: World) -> None:
    world.site("bench", "local", recipes=[str(REPOSITORY / "tests/catalog_overlay")])
    options = ("--method", METHODS[1], "--framework-version", "2.13.0")
    expected(world.tp("--site", "bench", "new", "exp", *options), "made at a named site", world)
    lock = (world.folder / "exp/recipe.lock.json").read_text()
    assert normal(lock, world) == expected.section("lock of 2.13.0")
    assert world.tp("--site", "bench", "validate", "exp").code == 0
    expected(world.tp("validate", "exp"), "a version that the site does not have", world)


def test_every_type_of_parameter_is_scaffolded(world: World) -> None:
    world.site("bench", "local", recipes=[str(REPOSITORY / "tests/cli/recipes")])
    assert world.tp("--site", "bench", "new", "exp", "--method", "toy/tuned").code == 0
    file = world.folder / "exp/config.yaml"
    text = file.read_text()
    assert text == expected.section("config.yaml of toy/tuned")
    # every default that is shown, taken in as it stands, is the default
    taken = re.sub(r"^  # (\w+: \S)", r"  \1", text, flags=re.MULTILINE)
    file.write_text(
        taken.replace("/path/to/model", ".").replace("data/train", ".").replace("data/validation", ".")
    )
    rows = json.loads(world.tp("--site", "bench", "explain", "exp", "--json").out)
    by_key = {row["key"]: row for row in rows}
    for key in ("beta", "layers", "every", "warmup", "packing", "kind"):
        row = by_key[key]
        assert (row["source"], row["value"]) == ("config.yaml", row["lost"][0]["value"]), row


def test_names_that_are_allowed(world: World) -> None:
    for name in ["a b", "Ünïcødé 实验", "$(x)", "it's", "x" * 100, "é" * 50, "a;b", "a\\b", "~", "#"]:
        said = world.tp("new", "--method", "custom/custom", "--", name)
        assert (said.code, said.err) == (0, ""), said
        assert world.tp("validate", "--", name).code == 0 or world.tp("validate", f"./{name}").code == 0
    assert len(os.listdir(world.folder)) == 10


def test_what_is_to_be_typed_next_is_quoted(world: World) -> None:
    expected(world.tp("new", "it's $(x)", "--method", "custom/custom"), "made with a strange name", world)


BAD_NAMES = {
    "empty": "",
    "the folder itself": ".",
    "a path": "a/b",
    "an option": "-x",
    "hidden": ".x",
    "a line break": "a\nb",
    "an escape": "a\x1b[31m",
    "a right-to-left mark": "a\u202eb",
    "101 bytes": "é" * 50 + "x",
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_bad_names(world: World, case: str) -> None:
    before = world.tree()
    said = world.tp("new", "--method", "custom/custom", "--", BAD_NAMES[case])
    expected(said, f"bad name: {case}", world)
    assert world.tree() == before


REFUSED = {
    "unknown method": ["new", "x", "--method", "custom/kustom"],
    "unknown version": ["new", "x", "--method", "custom/custom", "--framework-version", "1"],
    "fork of nothing": ["new", "x", "--from", "exq"],
    "fork with an unknown version": ["new", "x", "--from", "exp", "--framework-version", "1"],
    "a folder is there": ["new", "exp", "--method", "custom/custom"],
    "a file is there": ["new", "file", "--method", "custom/custom"],
    "a dangling link is there": ["new", "link", "--method", "custom/custom"],
    "a fork over itself": ["new", "exp", "--from", "exp"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_is_written(world: World, case: str) -> None:
    world.made()
    (world.folder / "file").write_text("mine\n")
    (world.folder / "link").symlink_to("nowhere")
    before = world.tree()
    expected(world.tp(*REFUSED[case]), case, world)
    assert world.tree() == before


def test_a_fork_takes_what_would_be_frozen(world: World) -> None:
    folder = world.made()
    (folder / "config.yaml").write_text("args: [a]\n")
    (folder / "train.sh").write_text("#!/bin/bash\n")
    (folder / "train.sh").chmod(0o755)
    (folder / "sub").mkdir()
    (folder / "sub/more.py").write_text("pass\n")
    (folder / "link").symlink_to("sub/more.py")
    for path in ("output/x", ".env", "__pycache__/x.pyc", "notes.txt"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("no\n")
    (folder / ".tpignore").write_text("notes.txt\n")
    expected(world.tp("new", "fork", "--from", "exp"), "forked", world)
    fork = world.folder / "fork"
    left = {".env", "output/x", "__pycache__/x.pyc", "notes.txt"}
    assert files(fork) == {name: text for name, text in files(folder).items() if name not in left}
    assert os.readlink(fork / "link") == "sub/more.py" and os.access(fork / "train.sh", os.X_OK)
    assert (fork / "recipe.lock.json").read_text() == (folder / "recipe.lock.json").read_text()


def test_a_fork_of_a_stale_experiment_is_current(world: World) -> None:
    lock = world.made() / "recipe.lock.json"
    lock.write_text(lock.read_text().replace('"version": "1.0.0"', '"version": "0.9.0"'))
    assert world.tp("validate", "exp").code == 4
    assert world.tp("new", "exp-2", "--from", "exp").code == 0
    assert world.tp("validate", "exp-2").code == 0


def test_an_experiment_is_found_by_folder_and_in_experiments(world: World) -> None:
    world.made()
    (world.folder / "experiments").mkdir()
    (world.folder / "exp").rename(world.folder / "experiments/exp")
    names = ["exp", "experiments/exp", "./experiments/exp/", str(world.folder / "experiments/exp")]
    texts = {world.tp("compile", name).out for name in names}
    assert len(texts) == 1 and texts.pop().startswith("#!/bin/bash -p\n")


def test_in_a_folder_that_cannot_be_written(world: World) -> None:
    """Also root is stopped: the folder has been removed under the command."""
    import tuneplane.experiment.scaffold as scaffolding

    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaffolding.tempfile, "mkdtemp", refuse)
        expected(world.tp("new", "exp", "--method", "custom/custom"), "no permission", world)


def test_a_write_that_fails_leaves_nothing(world: World) -> None:
    def full(self: object, folder: Path) -> None:
        folder.mkdir()
        raise OSError(28, "No space left on device")

    before = world.tree()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuneplane.experiment.snapshot.Snapshot.write", full)
        expected(world.tp("new", "exp", "--method", "custom/custom"), "no space", world)
    assert {name: size for name, (size, _) in world.tree().items()} == {
        name: size for name, (size, _) in before.items()
    }


# --- to another method ---

CROSSING = REPOSITORY / "tests/cli/crossing"
OLD = lines(
    """
    # mine
    model: /models/m
    data: {train: [data/a.parquet, ../b.jsonl], validation: data/v.jsonl}
    params:
      learning_rate: 1e-2   # too high
      batch: 64
      rollouts_per_prompt: 0x10
      policy_loss: geo_mean
      kl: 0
      reward: ./reward.py
      only_here: 3
      temperature: 0.7
      no_such: [1, a]
    overrides:
      algorithm:
        note: hello
        api_key: canary
      extra.kwargs: {a: [1, "2"], b: {}}
    env: {NCCL_DEBUG: "1", TOY_TOKEN_PATH: x}
    secrets: [HF_TOKEN]
    tracking: [console, wandb]
    args: [a, "b c"]
    resources:
      time: 2h
      pools: {"actor,rollout": "cpu:1", judge: "cpu:1"}
    """
)


@pytest.fixture
def old(world: World) -> Path:
    """An experiment of `alpha/align` at a site that has methods of two frameworks."""
    world.site("two", "local", recipes=[str(CROSSING)])
    world.environment["TUNEPLANE_SITE"] = "two"
    folder = world.made("old", "alpha/align")
    (folder / "config.yaml").write_text(OLD)
    (folder / "data").mkdir()
    for path in (folder / "data/a.parquet", folder / "data/v.jsonl", world.folder / "b.jsonl"):
        path.write_text("{}\n")
    return folder


def test_to_a_method_of_another_framework(world: World, old: Path) -> None:
    before = files(old)
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/align"), "to beta/align", world)
    there = files(world.folder / "there")
    assert there.pop("config.yaml") == expected.section("config.yaml of old as beta/align")
    assert json.loads(there.pop("recipe.lock.json"))["recipe"]["name"] == "beta/align"
    assert there == files(CROSSING / "beta/align/starter")
    assert files(old) == before


def test_to_a_method_of_another_framework_as_json(world: World, old: Path) -> None:
    said = world.tp("new", "there", "--from", "old", "--method", "beta/align", "--json")
    expected(said, "to beta/align as JSON", world)


def test_to_a_method_of_the_same_framework(world: World, old: Path) -> None:
    expected(world.tp("new", "there", "--from", "old", "--method", "alpha/critic"), "to alpha/critic", world)
    text = (world.folder / "there/config.yaml").read_text()
    assert text == expected.section("config.yaml of old as alpha/critic")


def test_to_a_method_without_model_and_parameters(world: World, old: Path) -> None:
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/learn"), "to beta/learn", world)
    text = (world.folder / "there/config.yaml").read_text()
    assert text == expected.section("config.yaml of old as beta/learn")


def test_and_back(world: World, old: Path) -> None:
    (old / "config.yaml").write_text("model: .\ndata: {train: data/v.jsonl}\nparams: {lr: 1e-5, kl: 0.5}\n")
    assert world.tp("new", "there", "--from", "old", "--method", "beta/align").code == 0
    expected(world.tp("new", "back", "--from", "there", "--method", "alpha/align"), "and back", world)
    text = (world.folder / "back/config.yaml").read_text()
    assert "\n  lr: 1e-5 " in text and "\n  kl: 0.5 " in text
    assert "model: ../old " in text and "{train: ../old/data/v.jsonl}" in text
    made = files(world.folder / "back").keys()
    assert made == {"config.yaml", "recipe.lock.json", "data/a.parquet", "README.md", "reward.py"}


def test_the_users_own_files_come_along(world: World, old: Path) -> None:
    """A file that was edited stays, with the new starter's beside it; a reward that the method would miss is told."""
    (old / "reward.py").write_text("def judge(source, answer, truth):\n    return 1.0\n")
    (old / "config.yaml").write_text("params: {reward: reward.py:judge, chat_template: chat.j2}\n")
    (old / "chat.j2").write_text("{{ messages }}\n")
    (old / "lib").write_text("a file where the starter has a folder\n")
    (old / "run.sh").write_text("#!/bin/sh\n")
    (old / "run.sh").chmod(0o755)
    (old / ".env").write_text("HF_TOKEN=canary\n")
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/align"), "own files", world)
    there = world.folder / "there"
    assert (there / "reward.py").read_text() == (old / "reward.py").read_text()
    assert (there / "reward.py.new").read_text() == (CROSSING / "beta/align/starter/reward.py").read_text()
    assert os.access(there / "run.sh", os.X_OK) and not (there / ".env").exists()
    assert "\n  reward: reward.py " in (there / "config.yaml").read_text()
    expected(world.tp("new", "in-the-way", "--from", "old", "--method", "beta/learn"), "in the way", world)


def test_a_reward_that_is_called_otherwise(world: World, old: Path) -> None:
    (old / "reward.py").write_text("def compute_score(*_): ...\ndef reward_func(*_): ...\n")
    (old / "config.yaml").write_text("params: {reward: reward.py, reward_url: http://x}\n")
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/align"), "reward", world)
    (old / "config.yaml").write_text("params: {reward: gone.py}\n")
    expected(
        world.tp("new", "gone", "--from", "old", "--method", "alpha/critic"), "reward that is gone", world
    )


def test_a_reward_that_a_default_names(world: World, old: Path) -> None:
    """Nobody sets it, so it is called all the same; an edited file may lack what the other method calls."""
    (old / "config.yaml").write_text("model: .\n")
    (old / "reward.py").write_text("def compute_score(*_): ...  # edited\n")
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/align"), "default reward", world)


def test_in_chinese_to_another_method(world: World, old: Path) -> None:
    words = ("new", "there", "--from", "old", "--method", "alpha/align", "--framework-version", "1.1.0")
    assert world.tp(*words).code == 0
    assert (world.folder / "there/config.yaml").read_text() == OLD
    assert world.tp("new", "zh", "--from", "old", "--method", "alpha/critic", "--lang", "zh").code == 0
    text = (world.folder / "zh/config.yaml").read_text()
    assert text == expected.section("config.yaml of old as alpha/critic in Chinese")


def test_from_a_method_that_is_gone(world: World, old: Path) -> None:
    lock = old / "recipe.lock.json"
    lock.write_text(lock.read_text().replace("alpha/align", "alpha/gone"))
    expected(world.tp("new", "there", "--from", "old", "--method", "beta/align"), "from a gone method", world)


REFUSED_CROSSINGS = {
    "to no method": ["--method", "beta/alig"],
    "to no version": ["--method", "beta/align", "--framework-version", "1"],
    "to another method, over itself": ["--method", "beta/align"],
}


@pytest.mark.parametrize("case", REFUSED_CROSSINGS)
def test_refused_crossings(world: World, old: Path, case: str) -> None:
    name = "old" if "itself" in case else "there"
    before = world.tree()
    expected(world.tp("new", name, "--from", "old", *REFUSED_CROSSINGS[case]), case, world)
    assert world.tree() == before


def test_a_configuration_that_cannot_be_read(world: World, old: Path) -> None:
    (old / "config.yaml").write_text("params: [1]\nmodle: x\n")
    before = world.tree()
    expected(world.tp("new", "x", "--from", "old", "--method", "beta/align"), "unreadable", world)
    assert world.tree() == before
