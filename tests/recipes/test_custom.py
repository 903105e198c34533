"""The custom starter, run the way a node runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "recipes" / "custom" / "custom" / "starter"


class Node:
    """One node of a job, with a frozen copy of the starter in a folder with a strange name."""

    def __init__(self, folder: Path) -> None:
        self.files, self.run_dir = folder / "it's $HOME \u4e2d", folder / "run"
        shutil.copytree(STARTER, self.files)
        self.output = self.run_dir / "output"
        self.output.mkdir(parents=True)
        (self.run_dir / "attempts" / "1").mkdir(parents=True)
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}:/usr/local/bin",
            "PYTHONPATH": str(ROOT),
            "TUNEPLANE_RUN_DIR": str(self.run_dir),
            "TUNEPLANE_OUTPUT_DIR": str(self.output),
            "TUNEPLANE_NODE_RANK": "0",
            "TUNEPLANE_NODES": "2",
        }

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", str(self.files / "train.sh"), *args],
            cwd=self.files,
            env={**self.env, **env},
            capture_output=True,
            text=True,
        )

    def metrics(self) -> list[dict[str, Any]]:
        path = self.run_dir / "attempts" / "1" / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_head_fits_reports_and_writes_the_model(node: Node) -> None:
    began = time.monotonic()
    done = node.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 5
    model = json.loads((node.output / "model.json").read_text())
    assert model["accuracy"] > 0.9 and model["steps"] == 200 and len(model["weights"]) == 3
    first, *rest = node.metrics()
    assert first["hparams"] == {"steps": 200, "learning_rate": 0.5, "seed": 1}
    assert [line["step"] for line in rest] == list(range(20, 201, 20))
    losses = [line["metrics"]["train/loss"] for line in rest]
    assert losses == sorted(losses, reverse=True)
    assert rest[-1]["metrics"]["validation/accuracy"] == model["accuracy"]
    lines = done.stdout.splitlines()
    assert lines[0] == "node 0 of 2, 0 GPUs, attempt 1"
    assert lines[-1] == f"wrote {node.output}/model.json"


def test_arguments_reach_the_program(node: Node) -> None:
    assert node.run("--steps", "3", "--learning-rate", "1e-1").returncode == 0
    assert node.metrics()[0]["hparams"] == {"steps": 3, "learning_rate": 0.1, "seed": 1}
    assert [line["step"] for line in node.metrics()[1:]] == [3]


def test_same_seed_same_model(node: Node) -> None:
    models = []
    for seed in ("1", "1", "2"):
        node.run("--seed", seed)
        models.append(json.loads((node.output / "model.json").read_text()))
    assert models[0] == models[1] != models[2]


def test_only_node_0_writes(node: Node) -> None:
    done = node.run(TUNEPLANE_NODE_RANK="1")
    assert done.returncode == 0 and "accuracy" in done.stdout
    assert list(node.output.iterdir()) == [] and node.metrics() == []


def test_current_folder_may_be_read_only(node: Node) -> None:
    before = sorted(node.files.iterdir())
    node.files.chmod(0o555)
    try:
        assert node.run().returncode == 0
    finally:
        node.files.chmod(0o755)
    assert sorted(node.files.iterdir()) == before


def test_runs_without_the_reporter_to_import(node: Node, tmp_path: Path) -> None:
    (tmp_path / "tuneplane").mkdir()
    (tmp_path / "tuneplane" / "__init__.py").touch()  # hides one that is installed
    assert node.run(PYTHONPATH=str(tmp_path)).returncode == 0
    assert (node.output / "model.json").exists() and node.metrics() == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--learning-rate", "nan"], "--learning-rate must be above 0"),
    ],
)
def test_a_bad_flag_exits_2(node: Node, args: list[str], message: str) -> None:
    done = node.run(*args)
    assert done.returncode == 2 and message in done.stderr


def test_without_an_output_folder_it_says_what_is_missing(node: Node) -> None:
    del node.env["TUNEPLANE_OUTPUT_DIR"]
    done = node.run()
    assert done.returncode != 0 and "TUNEPLANE_OUTPUT_DIR: is set by tp" in done.stderr


def test_a_large_learning_rate_does_not_overflow(node: Node) -> None:
    done = node.run("--learning-rate", "1e6", "--steps", "50")
    assert (done.returncode, done.stderr) == (0, "")
