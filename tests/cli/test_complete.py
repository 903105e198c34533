"""Shell completion, asked as bash asks it; a completion that fails says nothing."""

from __future__ import annotations

import pytest
from cli.world import REPOSITORY, World

CASES = {
    "tp ": "audit catalog compile doctor explain job methods new recipe runtime site submit validate",
    "tp catalog ": "gc ls refresh rollback status",
    "tp val": "validate",
    "tp --site ": "bench local slurm-apptainer slurm-enroot slurm-modules slurm-pyxis",
    "tp --site slurm-": "slurm-apptainer slurm-enroot slurm-modules slurm-pyxis",
    "tp site show l": "local",
    "tp site ": "ls show",
    "tp job s": "status",
    "tp methods custom": "custom/custom",
    "tp methods pyt": "pytorch/image-classification",
    "tp --site bench methods t": "toy/tuned",
    "tp new exp --method cu": "custom/custom",
    "tp new exp --from ": "exp images tuned",
    "tp validate ": "exp images tuned",
    "tp validate t": "tuned",
    "tp explain im": "images",
    "tp compile nothing": "",
    "tp submit exp --profile ": "cpu cpu2 gpu",
    "tp submit exp --profile cp": "cpu cpu2",
    "tp --site slurm-apptainer submit exp --profile ": "cpu h200",
    "tp submit images --set batch": "batch_size=",
    "tp submit images --set e": "epochs= eval_interval_epochs=",
    "tp --site bench submit tuned --set k": "kind=",
    "tp submit exp --set ": "",
    "tp submit nothing --set ": "",
    "tp --site nowhere submit exp --profile ": "",
    "tp --site nowhere methods ": "",
    "tp job status ": "exp-23456789 exp-abcdefgh images-ijkmnpqr",
    "tp job logs exp-a": "exp-abcdefgh",
    "tp job cancel im": "images-ijkmnpqr",
    "tp job wait zzz": "",
    "tp methods --lang ": "en zh",
    "tp methods --data v": "verifiable-tasks",
    "tp methods --data x": "",
}


@pytest.fixture
def full(world: World) -> World:
    recipes = [str(REPOSITORY / "tests/cli/recipes")]
    world.site("bench", "local", recipes=recipes)
    world.made("exp")
    world.made("images", "pytorch/image-classification")
    world.made("tuned", "toy/tuned", "--site", "bench")
    (world.folder / "experiments").mkdir()
    (world.folder / "tuned").rename(world.folder / "experiments/tuned")
    for run in ("exp-abcdefgh", "exp-23456789", "images-ijkmnpqr"):
        (world.runs / run).mkdir(parents=True)
    return world


def completed(world: World, line: str) -> str:
    """What bash would offer, by the protocol of click's own script for it."""
    from unittest.mock import patch

    from click.shell_completion import BashComplete

    from tuneplane.cli.main import tp

    words = line.split(" ")
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    with world._inside(asked), patch.dict("os.environ", asked):
        answer = BashComplete(tp, {}, "tp", "_TP_COMPLETE").complete()
    offered = [item.split(",", 1) for item in answer.splitlines()]
    assert all(kind == "plain" for kind, _ in offered), offered
    return " ".join(sorted(value for _, value in offered))


@pytest.mark.parametrize("line", CASES)
def test_completion(full: World, line: str) -> None:
    assert completed(full, line) == CASES[line]


def test_options_complete(full: World) -> None:
    assert completed(full, "tp submit exp --tr") == "--train-data"


def test_as_bash_asks(full: World) -> None:
    asked = {"_TP_COMPLETE": "bash_complete", "COMP_WORDS": "tp methods cust", "COMP_CWORD": "2"}
    said = full.real(**asked)
    assert (said.code, said.err) == (0, "")
    assert said.out == "plain,custom/custom\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_own_part(world: World, shell: str) -> None:
    said = world.real(_TP_COMPLETE=f"{shell}_source")
    assert (said.code, said.err) == (0, "") and "_TP_COMPLETE" in said.out


def test_a_broken_experiment_completes_nothing_and_says_nothing(full: World) -> None:
    (full.folder / "images/recipe.lock.json").write_text("{")
    asked = {"_TP_COMPLETE": "bash_complete", "COMP_WORDS": "tp submit images --set ", "COMP_CWORD": "4"}
    said = full.real(**asked)
    assert (said.code, said.out.strip(), said.err) == (0, "", "")
