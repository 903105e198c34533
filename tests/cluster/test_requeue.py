"""Runs that come back by themselves: after a time limit, a preemption, as a task of an array; and those that do not."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import report
from cluster.harness import Cluster
from cluster.harness.tools import until
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster

REQUEUE = {"policy": "requeue", "warning": "20s"}
PROGRAM = Path(__file__).parents[1] / "catalog_toy/toy/resume/starter/train.py"


def researcher(
    cluster: Cluster, method: str = "toy/resume", partition: str = "gpu", **requeue: Any
) -> Researcher:
    alice = player(cluster, runtime="host", requeue=REQUEUE | requeue)
    alice.experiment("exp", method=method, config={"resources": {"partition": partition, "nodelist": "n1"}})
    return alice


def uninterrupted(folder: Path, steps: int) -> bytes:
    """The result of the same training in one go."""
    env = os.environ | {"TUNEPLANE_OUTPUT_DIR": str(folder)}
    subprocess.run(
        [sys.executable, PROGRAM, str(steps), "0", "10"], env=env, check=True, stdout=subprocess.PIPE
    )
    return (folder / "result.json").read_bytes()


def ends(alice: Researcher, run: str) -> list[dict[str, Any]]:
    """The records of all attempts, each of which has its own log."""
    found = [alice.exit(run, attempt) for attempt in alice.attempts(run)]
    assert [one["attempt"] for one in found] == list(range(1, len(found) + 1))
    for one in found:
        seconds = float(one["ended"] - one["started"])
        keys = ("resumed_from", "step", "cause", "next", "decided_by")
        report.row("attempts", run, one["attempt"], seconds, *(one[key] for key in keys))
        assert alice.folder(f"runs/{run}/attempts/{one['attempt']}/job.log").exists()
    return found


def went_on(alice: Researcher, run: str, records: list[dict[str, Any]]) -> None:
    """Each attempt took up the newest checkpoint of the one before and got further; the last reached the end."""
    assert (records[0]["resumed_from"], records[-1]["cause"], records[-1]["next"]) == ("", "", "")
    for before, after in itertools.pairwise(records):
        assert after["resumed_from"] == f"checkpoints/step-{before['step']}"
        assert after["step"] > before["step"]
        log = alice.folder(f"runs/{run}/attempts/{after['attempt']}/node-0.log").read_text()
        assert f"from step {before['step']}\n" in log


@pytest.mark.long
def test_three_attempts_to_the_same_end(cluster: Cluster, tmp_path: Path) -> None:
    alice = researcher(cluster)
    run = alice.submit("exp", "--time", "1m", "--", "320", "0.4", "10")
    facts = alice.ended(run, 500)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    records = ends(alice, run)
    assert len(records) >= 3 and facts["attempt"] == len(records)
    went_on(alice, run, records)
    for one in records[:-1]:
        assert (one["cause"], one["next"], one["code"]) == ("time limit", "requeue", 75), one
        assert one["started"] <= one["warned"] <= one["ended"]
        assert alice.folder(f"runs/{run}/attempts/{one['attempt']}/warning").exists()
    assert alice.output(run, "result.json") == uninterrupted(tmp_path, 320)
    alice.assert_nothing_left()


@pytest.mark.long
def test_real_training_to_the_same_end(cluster: Cluster, torch_image: str) -> None:
    """Two nodes of two processes, whose program knows of no warning: it keeps a checkpoint of each epoch."""
    alice = player(cluster, images={"pytorch-2.13.0": torch_image}, requeue=REQUEUE | {"warning": "10s"})
    resources = {"profile": "cpu:2", "nodelist": "n1,n2"}
    config = {"resources": resources, "params": {"max_steps": 22 * 40, "epochs": 60}}
    alice.experiment("exp", method="pytorch/image-classification", version="2.13.0", config=config)
    whole = alice.submit("exp", "--time", "20m")
    parts = alice.submit("exp", "--time", "1m")
    for run in (whole, parts):
        facts = alice.ended(run, 900)
        assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    records = ends(alice, parts)
    assert len(records) >= 3, records
    assert [one["cause"] for one in records] == ["time limit"] * (len(records) - 1) + [""]
    assert all(after["step"] > before["step"] for before, after in itertools.pairwise(records))
    assert alice.output(parts, "result.json") == alice.output(whole, "result.json")
    assert json.loads(alice.output(whole, "result.json"))["steps"] == 22 * 40
    alice.assert_nothing_left()


def preempt(alice: Researcher) -> str:
    """Another job takes the node for some seconds."""
    words = ["--parsable", "--partition=gpu", "--nodelist=n1", "--exclusive", "--wrap", "sleep 2"]
    done = alice.cluster.run("login", ["sbatch", "--output=/dev/null", *words], user="bob", check=True)
    return str(done.stdout).strip()


def step(alice: Researcher, run: str) -> int:
    place = alice.folder(f"runs/{run}/output/checkpoints")
    return max((int(one.name.partition("-")[2]) for one in place.glob("step-*")), default=0)


def test_a_preempted_run_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm starts it again by itself: nobody else does, and no time limit is blamed."""
    alice = researcher(cluster, partition="low")
    run = alice.submit("exp", "--", "100", "0.1", "10")
    until(lambda: step(alice, run) >= 30, "it has some checkpoints", 30)
    preempt(alice)
    facts = alice.ended(run, 120)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    records = ends(alice, run)
    assert [(one["cause"], one["next"]) for one in records] == [("preemption", "slurm"), ("", "")]
    went_on(alice, run, records)
    assert alice.output(run, "result.json") == uninterrupted(tmp_path, 100)
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_preemption_and_then_a_time_limit(cluster: Cluster, tmp_path: Path) -> None:
    """What cut an attempt short is not what cut the one before."""
    alice = researcher(cluster, partition="low")
    run = alice.submit("exp", "--time", "1m", "--", "200", "0.4", "10")
    until(lambda: step(alice, run) >= 20, "it has some checkpoints", 60)
    preempt(alice)
    facts = alice.ended(run, 300)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    records = ends(alice, run)
    assert [(one["cause"], one["next"]) for one in records[:2]] == [
        ("preemption", "slurm"),
        ("time limit", "requeue"),
    ]
    went_on(alice, run, records)
    assert alice.output(run, "result.json") == uninterrupted(tmp_path, 200)


@pytest.mark.long
@pytest.mark.parametrize("method", ["toy/resume", "toy/stuck"])
def test_a_run_that_gets_no_further(cluster: Cluster, method: str) -> None:
    """Two attempts without a new checkpoint are the end, also where Slurm itself would start it once more."""
    alice = researcher(cluster, method, partition="low")
    run = alice.submit("exp", "--", "100", "600", "10")
    for attempt in (1, 2):
        until(lambda n=attempt: alice.folder(f"runs/{run}/attempts/{n}/node-0.log").exists(), "it runs", 60)  # type: ignore[misc]
        until(lambda n=attempt: '"running"' in alice.folder(f"runs/{run}/attempts/{n}/phases.jsonl").read_text(), "it runs", 30)  # type: ignore[misc]  # fmt: skip
        preempt(alice)
    facts = alice.ended(run, 120)
    assert facts["state"] == "failed" and "two attempts" in facts["why"], facts
    records = ends(alice, run)
    assert records[-1]["decided_by"] == "no progress" and len(records) <= 3, records
    assert records[-1]["why_next"] == "two attempts without progress"
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_run_that_gets_no_further_at_its_time_limit(cluster: Cluster) -> None:
    alice = researcher(cluster, "toy/stuck")
    run = alice.submit("exp", "--time", "1m")
    facts = alice.ended(run, 300)
    assert facts["state"] in ("failed", "timed-out") and "two attempts" in facts["why"], facts
    records = ends(alice, run)
    assert [(one["cause"], one["next"]) for one in records] == [("time limit", "requeue"), ("time limit", "")]
    assert records[-1]["decided_by"] == "no progress"


@pytest.mark.long
def test_the_cap_of_attempts(cluster: Cluster) -> None:
    alice = researcher(cluster, partition="low", attempts=2)
    run = alice.submit("exp", "--", "400", "0.1", "10")
    for goal in (20, 60):
        until(lambda g=goal: step(alice, run) >= g, "it gets on", 60)  # type: ignore[misc]
        preempt(alice)
    facts = alice.ended(run, 120)
    assert facts["state"] == "failed" and "attempts" in facts["why"], facts
    assert ends(alice, run)[-1]["decided_by"] == "attempts"


@pytest.mark.long
def test_a_successor(cluster: Cluster, tmp_path: Path) -> None:
    """Where nodes may submit, the next job takes the run over; a cancellation reaches it, too."""
    alice = researcher(cluster, policy="successor")
    run = alice.submit("exp", "--time", "1m", "--", "200", "0.4", "10")
    first = alice.record(run, "job.json")["id"]
    facts = alice.ended(run, 300)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    records = ends(alice, run)
    assert len(records) >= 2
    went_on(alice, run, records)
    heirs = [one["next"].partition("successor:")[2] for one in records[:-1]]
    assert all(heir.isdigit() and heir != first for heir in heirs) and facts["job"] == heirs[-1]
    assert alice.output(run, "result.json") == uninterrupted(tmp_path, 200)


NOT_AGAIN = {
    "the recipe does not resume": ("custom/custom", {}, "--no-requeue"),
    "the site does not requeue": ("toy/resume", {"policy": "none"}, "--no-requeue"),
    "both do": ("toy/resume", {}, "--requeue"),
}


@pytest.mark.parametrize("case", NOT_AGAIN)
def test_who_may_come_back(cluster: Cluster, case: str) -> None:
    method, requeue, expected = NOT_AGAIN[case]
    alice = researcher(cluster, method, **requeue)
    said = alice.tp("compile", "exp", "--", "1", "0", "1")
    assert said.code == 0, said
    found = {
        line.split()[-1] for line in said.out.splitlines() if line.startswith("#SBATCH") and "requeue" in line
    }
    assert found == {expected}


@pytest.mark.long
def test_a_run_that_does_not_come_back(cluster: Cluster) -> None:
    """Its record says why nothing follows."""
    alice = researcher(cluster, "custom/custom", partition="low")
    alice.write("exp/train.sh", "exec sleep 600\n")
    run = alice.submit("exp")
    alice.running(run)
    preempt(alice)
    facts = alice.ended(run, 60)
    record = alice.exit(run)
    assert (record["cause"], record["next"]) == ("preemption", ""), record
    assert "does not resume" in record["why_next"], record
    assert facts["state"] != "completed" and "preempt" in facts["why"], facts


@pytest.mark.long
def test_requeue_by_hand(cluster: Cluster, tmp_path: Path) -> None:
    alice = researcher(cluster)
    run = alice.submit("exp", "--", "200", "0.1", "10")
    until(lambda: step(alice, run) >= 20, "it has some checkpoints", 30)
    assert alice.tp("job", "requeue", run).code == 0
    facts = alice.ended(run, 120)
    assert (facts["state"], facts["attempt"]) == ("completed", 2), f"{facts}\n{alice.log(run)}"
    went_on(alice, run, ends(alice, run))
    assert alice.output(run, "result.json") == uninterrupted(tmp_path, 200)


# ---- arrays


def task(alice: Researcher, run: str, index: int) -> Path:
    return alice.folder(f"runs/{run}/tasks/{index}")


@pytest.mark.long
def test_one_task_of_an_array_is_requeued(cluster: Cluster, tmp_path: Path) -> None:
    """An array by hand of a compiled script: each task has a folder like a run's, and an end of its own."""
    alice = researcher(cluster)
    run = alice.submit("exp", "--hold", "--", "150", "0.2", "10")
    alice.slurm("scancel", alice.record(run, "job.json")["id"])
    folder = f"{alice.root}/runs/{run}"
    array = alice.slurm(
        "sbatch", "--parsable", "--array=0-1", f"--chdir={folder}", f"{folder}/job.sbatch"
    ).strip()
    assert array.isdigit()

    def checkpoints(index: int) -> list[Path]:
        return list(task(alice, run, index).glob("output/checkpoints/step-*/complete"))

    until(lambda: all(len(checkpoints(index)) >= 2 for index in (0, 1)), "both train", 60)
    alice.slurm("scontrol", "requeue", f"{array}_1")
    done = [task(alice, run, index) / "output/result.json" for index in (0, 1)]
    until(lambda: all(place.exists() for place in done), "both are through", 180, 0.5)
    ended = [task(alice, run, index) / f"attempts/{index + 1}/exit.json" for index in (0, 1)]
    until(lambda: all(place.exists() for place in ended), "both say so", 30, 0.2)
    for index in (0, 1):
        numbers = sorted(place.name for place in (task(alice, run, index) / "attempts").iterdir())
        assert numbers == ["1", "2"][: index + 1]
        assert json.loads(ended[index].read_text())["code"] == 0
        assert done[index].read_bytes() == uninterrupted(tmp_path, 150)
    second = json.loads(ended[1].read_text())
    assert second["resumed_from"].startswith("checkpoints/step-") and second["step"] == 150
    assert not alice.folder(f"runs/{run}/attempts").exists() or not alice.attempts(run)
    alice.assert_nothing_left()


@pytest.mark.long
def test_why_a_preempted_run_waits(make_cluster: Callable[..., Cluster]) -> None:
    """Between two attempts it is queued, and not over."""
    small = make_cluster(nodes=1)
    alice = researcher(small, partition="low")
    run = alice.submit("exp", "--", "100", "0.1", "10")
    until(lambda: step(alice, run) >= 20, "it has some checkpoints", 30)
    blocker = preempt(alice)
    until(lambda: alice.exit(run)["cause"] if alice.folder(f"runs/{run}/attempts/1/exit.json").exists() else "", "it is preempted", 30)  # fmt: skip
    seen = set()
    while len(alice.attempts(run)) == 1:
        seen.add(alice.status(run)["state"])
    assert seen <= {"queued", "running"}, seen
    assert blocker and alice.ended(run)["state"] == "completed"
