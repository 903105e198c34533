"""Experiments taken to another release or another method, and given to the real upstream there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import catalog, site
from contract.bench import CATALOG, ROOT, Bench, tiny_model
from contract.cases import Case
from contract.frameworks.runs import Program
from contract.frameworks.table import FRAMEWORKS, RELEASES
from contract.suite import differences, request

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.recipe import resolve
from tuneplane.errors import InputError
from tuneplane.experiment.locate import find_experiment
from tuneplane.experiment.scaffold import scaffold
from tuneplane.experiment.starter import Move
from tuneplane.standing import lock_of
from tuneplane.take_over import take_over
from tuneplane.upgrade import carry_out, plan_upgrade


@dataclass(frozen=True)
class Made(Bench):
    """An experiment as it lies in its folder."""

    def text(self, case: Case) -> str:
        return (self.folder / "config.yaml").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a model and data."""
    tiny_model(tmp_path / "it's a model")
    for name in ("train.jsonl", "test.jsonl", "train.parquet", "test.parquet"):
        (tmp_path / name).write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def new(name: str, method: str, version: str, params: str, suffix: str = "jsonl") -> Path:
    """A fresh experiment whose `params` are those, each with its comment."""
    folder, here = scaffold(name, CATALOG, method, version, "en"), os.getcwd()
    text = f"""\
# my run
model: "{here}/it's a model"   # tiny
data: {{train: {here}/train.{suffix}, validation: {here}/test.{suffix}}}
params:
{params}resources: {{profile: "h200:8"}}
"""
    (folder / "config.yaml").write_text(text)
    return folder


def upgraded(name: str, version: str, known: Catalog = CATALOG) -> list[Move]:
    """Bring the experiment to a release; what was done to `config.yaml`."""
    done = plan_upgrade(find_experiment(name), known, site(), version)
    carry_out(done)
    assert not plan_upgrade(find_experiment(name), known, site(), version).writes
    return [move for move in done.moves if move.file == "config.yaml"]


def taken_over(name: str, old: str, method: str, version: str) -> tuple[dict[str, str], set[str]]:
    """Take the experiment to another method; the parameters that are set then, and what of `config.yaml` was left."""
    found = find_experiment(old)
    recipe = resolve(CATALOG.manifest(method), version)
    _, made = take_over(name, found, lock_of(found), CATALOG, recipe, "en")
    assert made.carried.model == f"{os.getcwd()}/it's a model" and list(made.carried.data) == [
        "train",
        "validation",
    ]
    return made.carried.params, {item.what for item in made.left if item.line}


def bench(name: str, known: Catalog = CATALOG) -> Made:
    """What the experiment's lock says, ready to be compiled."""
    found = find_experiment(name)
    lock = lock_of(found)
    recipe = resolve(known.manifest(lock.method), lock.framework_version)
    places = {place: os.path.join(os.getcwd(), place) for place in ("run", "output", "home")}
    return Made(recipe, found.folder, "", ("", ""), {"files": str(found.folder), **places})


# --- releases ---

OPENRLHF = """\
  learning_rate: 5e-7           # small
  # ratios of vLLM's probabilities to the trainer's
  is_correction_type: {}    # which of them count
  is_correction: true           # always
  rollouts_per_prompt: 8        # answers
"""
CORRECTIONS = {
    "tis": ["is_correction_level: token", "is_correction_mode: clip"],
    "icepop": ["is_correction_level: token", "is_correction_mode: mask"],
    "seq-mask-tis": ["is_correction_level: seq", "is_correction_mode: mask", "is_correction_gating: ratio"],
}


@pytest.mark.parametrize("kind", CORRECTIONS)
def test_openrlhf_0_11_0_to_0_11_2(here: Path, kind: str) -> None:
    folder = new("exp", "openrlhf/grpo", "0.11.0", OPENRLHF.format(kind))
    before = (folder / "config.yaml").read_text()
    moves = upgraded("exp", "0.11.2")
    level, mode, *more = CORRECTIONS[kind]
    assert (folder / "config.yaml").read_text() == before.replace(
        f"is_correction_type: {kind}", level
    ).replace(
        "  is_correction: true           # always\n",
        f"  {mode}           # always\n" + "".join(f"  {line}\n" for line in more),
    )
    after = ", ".join(CORRECTIONS[kind])
    assert [(move.line, move.how, move.what) for move in moves] == [
        (7, "migrated", f"is_correction: true, is_correction_type: {kind} → {after}"),
        (8, "migrated", "is_correction goes with is_correction_type"),
    ]


def test_what_openrlhf_0_11_0_cannot_say_is_refused(here: Path) -> None:
    folder = new("exp", "openrlhf/grpo", "0.11.0", "  is_correction: true\n")
    upgraded("exp", "0.11.2")
    before = (folder / "config.yaml").read_text()
    with pytest.raises(InputError) as caught:
        upgraded("exp", "0.11.0")
    assert "`is_correction_level` has no successor in openrlhf/grpo on openrlhf 0.11.0" in str(caught.value)
    assert (folder / "config.yaml").read_text() == before


VERL = "  learning_rate: 1e-6  # small\n  rollouts_per_prompt: 4\n  train_batch_size: 64\n"
SFT = "  learning_rate: 1e-5  # small\n"


@pytest.mark.parametrize(
    ("method", "old", "now", "params"),
    [
        ("openrlhf/sft", "0.11.0", "0.11.2", SFT),
        ("openrlhf/dpo", "0.11.0", "0.11.2", SFT),
        ("verl/dapo", "0.9.0", "0.9.1", VERL),
        ("verl/sft", "0.9.0", "0.9.1", SFT),
    ],
)
def test_where_nothing_is_renamed_the_lock_alone_is_another(
    here: Path, method: str, old: str, now: str, params: str
) -> None:
    folder = new("exp", method, old, params, "parquet" if method == "verl/sft" else "jsonl")
    before = (folder / "config.yaml").read_text()
    assert upgraded("exp", now) == [] and upgraded("exp", old) == []
    assert (folder / "config.yaml").read_text() == before


# --- a release that does not exist yet: one edit of a manifest, no line of Python ---

NEXT = """\
extends: verl/grpo
framework:
  versions:
    0.9.2:
      runtime_id: verl-0.9.2
      requires: [verl==0.9.2]
      keys: 0.9.1
      launch:
        kind: ray
        entry: {module: verl.trainer.main_rl}
        roles: [actor, reference, rollout]
      rename: {learning_rate: actor_learning_rate, grad_clip: max_norm}
      paths: {actor_learning_rate: actor_rollout_ref.actor.optim.peak, max_norm: actor_rollout_ref.actor.optim.max_norm}
      remove: [entropy_coeff]
      migrate:
        - {before: {entropy_coeff: 0}, after: {}}
"""


@pytest.fixture
def later(here: Path) -> Catalog:
    """The catalog with a site's recipe that knows verl 0.9.2."""
    (here / "site/verl/grpo").mkdir(parents=True)
    (here / "site/verl/grpo/recipe.yaml").write_text(NEXT)
    return catalog(ROOT / "recipes", here / "site")


def test_a_release_that_renames_drops_and_moves_its_entry(here: Path, later: Catalog) -> None:
    params = """\
  learning_rate: 2e-6   # of the actor
  # clipping
  grad_clip: 0.5        # hard
  entropy_coeff: 0      # none
  temperature: 0.9
"""
    folder = new("exp", "verl/grpo", "0.9.1", params)
    before = (folder / "config.yaml").read_text()
    moves = upgraded("exp", "0.9.2", later)
    after = before.replace("learning_rate: 2e-6", "actor_learning_rate: 2e-6")
    after = after.replace("grad_clip: 0.5", "max_norm: 0.5").replace("entropy_coeff: 0      #", "#")
    assert (folder / "config.yaml").read_text() == after
    assert [(move.how, move.what) for move in moves] == [
        ("renamed", "learning_rate is actor_learning_rate now"),
        ("renamed", "grad_clip is max_norm now"),
        ("migrated", "entropy_coeff: 0 → not needed any more"),
    ]
    made = bench("exp", later)
    words = made.compiled(Case("next", {})).words
    assert made.recipe.launch.entry.module == "verl.trainer.main_rl"
    assert "actor_rollout_ref.actor.optim.peak=2e-06" in words
    assert "actor_rollout_ref.actor.optim.max_norm=0.5" in words


def test_a_value_that_the_next_release_drops_is_refused(here: Path, later: Catalog) -> None:
    new("exp", "verl/grpo", "0.9.1", "  entropy_coeff: 0.01\n")
    with pytest.raises(InputError) as caught:
        upgraded("exp", "0.9.2", later)
    (problem,) = caught.value.problems
    assert problem.what == "`entropy_coeff` has no successor in verl/grpo on verl 0.9.2 with this value"
    assert problem.expected == "one of `entropy_coeff: 0`"


# --- methods ---

FROM_VERL = """\
  learning_rate: 2e-6
  train_batch_size: 64
  ppo_mini_batch_size: 32
  rollouts_per_prompt: 4
  max_prompt_length: 512
  max_response_length: 1024
  clip_ratio: 0.3
  temperature: 0.9
  seed: 7
"""


@pytest.mark.parametrize("version", FRAMEWORKS["openrlhf"].versions)
def test_from_verl_to_openrlhf_and_back(here: Path, version: str) -> None:
    new("old", "verl/grpo", "0.9.0", FROM_VERL)
    there, left = taken_over("there", "old", "openrlhf/reinforce-baseline", version)
    assert left == {"params.ppo_mini_batch_size"}
    assert there == {
        "learning_rate": "2e-6",
        "rollout_batch_size": "64",
        "n_samples_per_prompt": "4",
        "max_prompt_length": "512",
        "max_new_tokens": "1024",
        "eps_clip": "0.3",
        "temperature": "0.9",
        "seed": "7",
    }
    back, left = taken_over("back", "there", "verl/grpo", "0.9.1")
    assert left == set()
    assert back == {
        "learning_rate": "2e-6",
        "train_batch_size": "64",
        "rollouts_per_prompt": "4",
        "max_prompt_length": "512",
        "max_response_length": "1024",
        "clip_ratio": "0.3",
        "temperature": "0.9",
        "seed": "7",
    }


# --- what upstream says of all of them ---


def moved_to(framework: str, version: str) -> list[str]:
    """Make the experiments that end on a release; their names."""
    if framework == "openrlhf":
        new("from verl", "verl/grpo", "0.9.0", FROM_VERL)
        taken_over("taken over", "from verl", "openrlhf/reinforce-baseline", version)
        if version == "0.11.0":
            return ["taken over"]
        for kind in CORRECTIONS:
            new(kind, "openrlhf/grpo", "0.11.0", OPENRLHF.format(kind))
        new("sft", "openrlhf/sft", "0.11.0", SFT)
        names = [*CORRECTIONS, "sft"]
    else:
        new(
            "from openrlhf",
            "openrlhf/reinforce-baseline",
            "0.11.0",
            "  learning_rate: 2e-6\n  eps_clip: 0.3\n",
        )
        taken_over("taken over", "from openrlhf", "verl/grpo", version)
        if version == "0.9.0":
            return ["taken over"]
        for method in ("grpo", "dapo"):
            new(method, f"verl/{method}", "0.9.0", VERL)
        new("sft", "verl/sft", "0.9.0", SFT, "parquet")
        names = ["grpo", "dapo", "sft"]
    for name in names:
        upgraded(name, version)
    return ["taken over", *names]


@pytest.mark.torch
@pytest.mark.parametrize(("framework", "version"), RELEASES)
def test_upstream_takes_what_was_moved(
    here: Path, framework: str, version: str, program: Callable[[str, str], Program]
) -> None:
    names = moved_to(framework, version)
    benches = [bench(name) for name in names]
    compiled = [made.compiled(Case(made.folder.name, {})) for made in benches]
    asked = [request(made, done, True) for made, done in zip(benches, compiled, strict=True)]
    answers = program(framework, version).answers(asked)
    found = {
        name: (answer.error, list(differences(done.expected, answer, FRAMEWORKS[framework].changes)))
        for name, done, answer in zip(names, compiled, answers, strict=True)
    }
    assert found == dict.fromkeys(names, ("", []))
