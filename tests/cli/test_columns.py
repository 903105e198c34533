"""Data files that do not suit a method: refused before the queue, warned of by `compile`, looked at again in the job."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli.world import REPOSITORY, Expected, Said, World

expected = Expected("columns")
TABLES = REPOSITORY / "tests/job/tables"
RECIPE = """\
schema: 1
name: toy/pairs
version: 1.0.0
title: {en: Pairs}
summary: {en: Reads pairs}
category: preference
requires: {core: ">=0.1,<0.2"}
framework: {kind: toy, default: "1", versions: {"1": {}}}
launch: {kind: process, entry: {experiment: main.sh}, interpreter: [bash]}
config: {style: flags}
data:
  kind: preference-pairs
  train: required
  validation: optional
  formats: [jsonl, json, parquet, csv]
  separators: ",@"
  layouts:
    - {columns: [messages, id], when: conversations}
    - {columns: ["{prompt_key}", "{chosen_key}", "{rejected_key}"], when: not conversations}
    - {columns: ["{prompt_key}", reward_model.ground_truth], when: not conversations and scored}
parameters:
  conversations: {type: bool, default: false, path: conversations, doc: {en: Whole conversations}}
  scored: {type: bool, default: false, path: scored, doc: {en: Tasks with an answer are taken too}}
  prompt_key: {type: str, path: prompt-key, doc: {en: Column of the prompt}}
  chosen_key: {type: str, default: chosen, path: chosen-key, doc: {en: Column of the better response}}
  rejected_key: {type: str, default: rejected, path: rejected-key, doc: {en: Column of the worse response}}
"""
FAILS_ONCE = """\
[ ! -e "$TUNEPLANE_OUTPUT_DIR/once" ] || exit 0
touch "$TUNEPLANE_OUTPUT_DIR/once"
exit 3
"""
PAIR = {"prompt": "p", "chosen": "c", "rejected": "r"}


def rows(*objects: object) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in objects)


@dataclass(frozen=True)
class Case:
    """An experiment: its `config.yaml`, its data files, more words of the command line."""

    config: str
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    refused: bool = True


TRAIN = "data: {train: train.jsonl}\n"
PROMPTS = f"{TRAIN}params: {{prompt_key: prompt}}\n"
CASES = {
    "a column is missing in one row": Case(
        PROMPTS, {"train.jsonl": rows(*[PAIR] * 6, {"prompt": "p", "chosen": "c", "score": 1})}
    ),
    "a column has another name": Case(
        TRAIN, {"train.jsonl": rows({"prompt": "p", "chosen": "c", "reject": "r"})}
    ),
    "a column has a name for the shell": Case(
        TRAIN, {"train.jsonl": rows({"chosen": "c", "rejected $(x)": "r"})}
    ),
    "several columns are missing": Case(PROMPTS, {"train.jsonl": rows({"question": "q", "answer": "a"})}),
    "a column without a parameter is missing": Case(
        "data: {train: train.jsonl}\nparams: {conversations: true}\n",
        {"train.jsonl": rows({"messages": [], "index": 1})},
    ),
    "neither of two layouts": Case(
        f"{TRAIN}params: {{prompt_key: prompt, scored: true}}\n",
        {"train.jsonl": rows({"prompt": "p", "reward_model": {"style": "rule"}})},
    ),
    "a row that is no object": Case(TRAIN, {"train.jsonl": rows(PAIR, [PAIR])}),
    "a broken row": Case(TRAIN, {"train.jsonl": rows(PAIR) + b'{"chosen": "c", \n'}),
    "a file without rows": Case(TRAIN, {"train.jsonl": b""}),
    "several files": Case(
        "data:\n  train: [a.jsonl, b.json, c.csv]\n  validation:\n    - d.parquet\n    - a.jsonl\n",
        {
            "a.jsonl": rows(PAIR),
            "b.json": b'[{"chosen": 1, "rejected": 2}, {"chosen": 1}]',
            "c.csv": b"chosen;rejected\na;b\n",
            "d.parquet": "polars",
        },
    ),
    "the command line's": Case(TRAIN, {"train.jsonl": rows(PAIR), "b.jsonl": rows({"chosen": 1})},
        ("--train-data", "b.jsonl", "--validation-data", "./b.jsonl"),
    ),
    "no Parquet": Case("data: {train: train.parquet}\n", {"train.parquet": rows(PAIR)}),
    "another format": Case("data: {train: train.txt}\n", {"train.txt": b"x"}),
    "a folder": Case("data: {train: [., data]}\n", {"data": "folder"}),
    "a path that upstream would split": Case(
        'data: {train: "a,b@c.jsonl"}\n', {"a,b@c.jsonl": rows(PAIR)}
    ),
    "no file at all": Case("data: {train: train.jsonl, validation: b.jsonl}\n", {"b.jsonl": rows({"x": 1})}),
    "fine": Case(PROMPTS, {"train.jsonl": rows(*[PAIR] * 200, {"x": 1})}, refused=False),
    "fine by another name": Case(
        TRAIN,
        {"train.jsonl": rows({"better": 1, "rejected": 2})},
        ("--set", "chosen_key=better"),
        refused=False,
    ),
    "fine, and Parquet": Case(
        "data: {train: a.parquet}\nparams: {prompt_key: prompt, scored: true}\n",
        {"a.parquet": "pyarrow"},
        refused=False,
    ),
    "fine, as far as can be told": Case(
        "data: {train: a.parquet}\n", {"a.parquet": "encrypted"}, refused=False
    ),
}  # fmt: skip
PURE = ("another format", "a folder", "a path that upstream would split")
"""Refused by `compile` too: nothing had to be read."""


def prepared(world: World, case: Case) -> Path:
    """The experiment `exp` of a case, at the site `bench`."""
    folder = world.root / "recipes/toy/pairs"
    (folder / "starter").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "starter/main.sh").write_text(FAILS_ONCE)
    world.site("bench", "local", recipes=[str(world.root / "recipes")])
    experiment = world.made("exp", "toy/pairs", "--site", "bench")
    (experiment / "config.yaml").write_text(case.config)
    for name, content in case.files.items():
        if content == "folder":
            (experiment / name).mkdir()
        elif isinstance(content, str):
            shutil.copy(TABLES / f"{content}.parquet", experiment / name)
        else:
            (experiment / name).write_bytes(content)
    return experiment


def tried(world: World, command: str, case: Case) -> Said:
    before = world.tree()
    said = world.tp("--site", "bench", command, "exp", *case.words)
    assert world.tree() == before
    return said


@pytest.mark.parametrize("name", CASES)
def test_whole_outputs(world: World, name: str) -> None:
    case = CASES[name]
    prepared(world, case)
    said = tried(world, "validate", case)
    expected(said, name, world)
    compiled = tried(world, "compile", case)
    if name in PURE:
        assert tried(world, "submit", case) == compiled == said
    elif case.refused:
        assert tried(world, "submit", case) == said
        expected(Said(compiled.code, "", compiled.err), f"compiled: {name}", world)
        assert "--columns" in compiled.out
    else:
        assert (compiled.code, compiled.err) == (0, "")


def test_the_script_does_not_follow_from_what_is_in_the_data(world: World) -> None:
    """So that an auditor who does not see them compiles the very same."""
    case = CASES["fine"]
    experiment = prepared(world, case)
    sound = tried(world, "compile", case)
    (experiment / "train.jsonl").write_bytes(rows({"x": 1}))
    wrong = tried(world, "compile", case)
    assert wrong.out == sound.out and wrong.err and not sound.err


def test_data_that_changed_since(world: World) -> None:
    """The job looks again, before anything starts."""
    experiment = prepared(world, CASES["fine"])
    said = world.tp("--site", "bench", "submit", "exp")
    assert said.code == 0, said
    run = said.out.strip()
    _ended(world, run, 1)
    (experiment / "train.jsonl").write_bytes(rows(PAIR, {"prompt": "p"}))
    assert world.tp("job", "requeue", run).code == 0
    _ended(world, run, 2)
    why = world.tp("job", "why", run)
    sentence = f"data.train cannot be used: row 2 of `{experiment}/train.jsonl` lacks `chosen` and `rejected`; it has `prompt`"
    assert why.code == 0 and sentence in why.out, why
    verdict = json.loads((world.runs / run / "attempts/2/verdict").read_text().splitlines()[1])
    assert (verdict["reason"], verdict["phase"], verdict["message"]) == ("preflight", "preflight", sentence)


def _ended(world: World, run: str, attempt: int) -> None:
    deadline = time.monotonic() + 30
    file = world.runs / run / f"attempts/{attempt}/exit.json"
    while not file.exists() or json.loads(world.tp("job", "status", run, "--json").out)["state"] != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_every_transcript_is_of_a_case() -> None:
    from cli.world import sections

    compiled = {f"compiled: {name}" for name, case in CASES.items() if case.refused and name not in PURE}
    assert set(sections("columns")) == {*CASES, *compiled}
