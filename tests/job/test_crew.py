"""What the supervisor does for every kind: checks first, warnings, signs of life, who takes part."""

from __future__ import annotations

import json
import time

import pytest

from tuneplane.job import options

TRAP = "trap 'echo got >got' USR1; echo up >up; while ! [ -e got ]; do sleep 0.02; done; exit 0"


@pytest.mark.parametrize(
    ("warning", "reaches"), [("signal:USR1", True), ("signal:SIGUSR1", True), ("none", False)]
)
def test_a_warning_is_said_once_and_does_what_was_agreed(any_run, warning, reaches):
    script = TRAP if reaches else "echo up >up; while ! [ -e got ]; do sleep 0.02; done"
    process = any_run.start("sh", "-c", script, options=("--warning", warning))
    any_run.wait_for("up")
    (any_run.attempt / "warning").touch()
    any_run.until(lambda: "warned" in any_run.phases())
    if not reaches:
        (any_run.experiment / "got").touch()
    assert any_run.end(process) == 0
    assert any_run.phases().count("warned") == 1
    assert any_run.log().count("tuneplane: warned: ") == 1


def test_when_the_script_says_so_every_node_ends_in_good_order(run):
    """By a file, since a srun that is told to end kills whatever is still clearing away."""
    script = "trap 'echo saved >saved-$TUNEPLANE_NODE_RANK; exit 0' TERM; echo up >up-$TUNEPLANE_NODE_RANK; while :; do sleep 0.02; done"
    processes = [run.start("sh", "-c", script, rank=rank, nodes=2) for rank in (0, 1)]
    for rank in (0, 1):
        run.wait_for(f"up-{rank}")
    (run.attempt / "stop").touch()
    assert [run.end(process) for process in processes] == [143, 143]
    assert (run.experiment / "saved-0").exists() and (run.experiment / "saved-1").exists()
    verdict = run.verdict()
    assert (verdict["code"], verdict["reason"]) == (143, "stopped")
    assert "the job's script says that its time has come" in verdict["message"]


def test_the_warning_file_is_named(any_run):
    assert any_run.go("sh", "-c", 'printf "<%s>" "$TUNEPLANE_WARNING_FILE"') == 0
    assert f"<{any_run.attempt}/warning>" in any_run.log()


def test_a_node_that_does_not_pass_its_checks_ends_all_at_once(run):
    processes = [run.start("sleep", "60", rank=rank, nodes=3) for rank in (0, 1)]
    run.until(lambda: "rendezvous" in run.phases(1))
    options = ("--free", json.dumps({"scratch": 2**60}))
    began = time.monotonic()
    processes.append(run.start("sleep", "60", rank=2, nodes=3, options=options))
    assert [run.end(process) for process in processes] == [125, 125, 125]
    assert time.monotonic() - began < 4
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"], verdict["phase"]) == (
        2,
        "n2",
        "preflight",
        "preflight",
    )
    assert "are needed" in verdict["message"] and verdict["message"] in verdict["tail"][-1]


def test_the_head_leaves_a_sign_of_life_and_who_takes_part(run):
    script = "echo up >up-$TUNEPLANE_NODE_RANK; while ! [ -e go ]; do sleep 0.05; done"
    processes = [
        run.start("sh", "-c", script, rank=r, nodes=2, options=("--heartbeat-bound", "2")) for r in (0, 1)
    ]
    run.wait_for("up-1")
    alive = run.attempt / "alive.json"
    run.until(lambda: json.loads(alive.read_text())["phase"] == "running", 5)
    first = json.loads(alive.read_text())
    run.until(lambda: json.loads(alive.read_text())["t"] > first["t"] + 0.8, 5)
    nodes = json.loads((run.attempt / "nodes.json").read_text())["nodes"]
    ranges = [range(node.pop("first"), node.pop("last") + 1) for node in nodes]
    assert not set(ranges[0]) & set(ranges[1]) and min(map(len, ranges)) > 60
    assert nodes == [
        {"rank": r, "host": f"n{r}", "address": "127.0.0.1", "pool": "all", "ranks": [r]} for r in (0, 1)
    ]
    (run.experiment / "go").touch()
    assert [run.end(process) for process in processes] == [0, 0]


def test_the_verdict_ends_with_the_log_of_the_node_that_failed(run):
    script = "[ $TUNEPLANE_NODE_RANK = 1 ] || exec sleep 60; echo the cause; exit 5"
    processes = [run.start("sh", "-c", script, rank=r, nodes=2) for r in (0, 1)]
    assert [run.end(process) for process in processes] == [5, 5]
    verdict = run.verdict()
    assert (verdict["node"], verdict["rank"], verdict["phase"]) == (1, None, "running")
    assert verdict["tail"][-1] == "the cause"


def test_others_hear_of_a_failure_before_what_it_left_has_ended(run):
    """A process that ignores TERM keeps its own node for the grace, but not the others."""
    script = (
        "[ $TUNEPLANE_NODE_RANK = 1 ] || exec sleep 60; "
        "setsid sh -c 'trap \"\" TERM; echo up >up; sleep 60; sleep 60' & while ! [ -e up ]; do sleep 0.02; done; exit 5"
    )
    began = time.monotonic()
    processes = [run.start("sh", "-c", script, rank=r, nodes=2) for r in (0, 1)]
    run.until(lambda: (run.attempt / "node-0.json").exists())
    assert time.monotonic() - began < 2.9 and not (run.attempt / "node-1.json").exists()
    assert [run.end(process) for process in processes] == [5, 5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--warning", "signal:NOPE"], "neither `none` nor `signal:NAME`"),
        (["--warning", "signal:_DFL"], "neither `none` nor `signal:NAME`"),
        (["--rendezvous", "etcd"], "`--rendezvous etcd` is none of static, c10d"),
        (["--launcher-words", "{}"], "`--launcher-words` is not a list of words"),
        (["--launcher-words", "x"], "`--launcher-words` cannot be read"),
        (["--free", "[1]"], "`--free` cannot be read"),
        (["--gpus", "-1"], "`--gpus -1` is not a whole number from 0"),
        (["--memlock", "much"], "`--memlock much` is not a whole number from 0"),
    ],
)
def test_wrong_options(given, message):
    with pytest.raises(options.Refusal, match=message):
        options.read_options(["--kind", "process", "--nodes", "1", *given, "--", "x"])


@pytest.mark.parametrize(
    ("vendor", "given", "left"),
    [
        ("nvidia", ["CUDA", "ROCR", "HIP"], ["CUDA"]),
        ("none", ["CUDA", "ROCR"], ["CUDA"]),
        ("amd", ["CUDA", "ROCR", "HIP"], ["HIP"]),
        ("amd", ["CUDA", "ROCR"], ["ROCR"]),
        ("nvidia", ["ROCR"], ["ROCR"]),
        ("nvidia", [], []),
    ],
)
def test_one_variable_of_visible_gpus_reaches_the_command(run, vendor, given, left):
    """Slurm sets those of every vendor at once."""
    names = {f"{name}_VISIBLE_DEVICES": "0" for name in given}
    script = (
        "echo ${CUDA_VISIBLE_DEVICES:+CUDA} ${ROCR_VISIBLE_DEVICES:+ROCR} ${HIP_VISIBLE_DEVICES:+HIP} >seen"
    )
    code = run.go("sh", "-c", script, options=("--gpu-vendor", vendor), **names)
    assert code == 0, run.log() + str(run.verdict())
    assert (run.experiment / "seen").read_text().split() == left
