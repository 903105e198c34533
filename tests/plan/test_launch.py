"""What the supervisors are told, and how a run comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import catalog, replaced, site, write_recipe
from plan.cases import RECIPE, plan

from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.plan.model import Directive, Plan

LINE = "launch: {kind: torchrun, entry: {experiment: main.py}, words: true}\n"
REQUEUE = {"policy": "requeue", "warning": "3m", "attempts": 7}


@pytest.fixture
def made(tmp_path: Any) -> Any:
    def make(launch: str = "", checkpoints: str = "", **more: Any) -> Plan:
        text = replaced(RECIPE, (LINE, launch or LINE)) + (
            f"checkpoints: {checkpoints}\n" if checkpoints else ""
        )
        write_recipe(tmp_path, text)
        recipe: Recipe = resolve(catalog(tmp_path).manifest("toy/tuned"))
        return plan(recipe, "resources: {time: 2h}", site=site(**more))

    return make


def directive(found: Plan, name: str) -> list[Directive]:
    return [line for line in found.directives if line.name == name]


def test_every_option_of_a_torchrun_launch(made: Any) -> None:
    need = {
        "scratch": "1G",
        "shared_memory": "2M",
        "run_folder": "3K",
        "inodes": 5,
        "memlock": "64G",
        "gpus": "tool",
    }
    network = {"interface": "ib0", "heartbeat": "10s"}
    found = made("launch: {kind: torchrun, entry: {module: m}, rendezvous: c10d}\n", preflight=need, network=network,
                 default_profile="h200:16")  # fmt: skip
    assert found.launch == (
        ("--kind", "torchrun"), ("--nodes", "2"), ("--processes-per-node", "8"), ("--cpus", "96"), ("--gpus", "8"),
        ("--rendezvous", "c10d"), ("--interface", "ib0"), ("--heartbeat-bound", "10"),
        ("--free", '{"scratch":1073741824,"shared_memory":2097152,"run":3072,"inodes":5}'),
        ("--memlock", "68719476736"), ("--gpu-count", "tool"), ("--gpu-vendor", "nvidia"),
    )  # fmt: skip


def test_the_other_kinds(made: Any) -> None:
    entry = "entry: {module: m}"
    process = dict(made(f"launch: {{kind: process, {entry}}}\n").launch)
    assert process["--kind"] == "process" and "--processes-per-node" not in process
    options = "options: {use_fsdp: 'true', fsdp_version: '2', mixed_precision: bf16}"
    accelerate = dict(made(f"launch: {{kind: accelerate, {entry}, {options}}}\n").launch)
    assert json.loads(accelerate["--launcher-words"]) == ["--use_fsdp", "--fsdp_version=2", "--mixed_precision=bf16"]  # fmt: skip
    ray = f"launch: {{kind: ray, {entry}}}\n"
    assert "--old-ray" not in dict(made(ray).launch)
    assert dict(made(ray, runtime={"kind": "apptainer", "old_ray": True}).launch)["--old-ray"] == "allowed"


SIGNAL = "{format: f, pattern: 'c/step-{step}', resume: automatic, complete: {file: done}, warning: {tell: signal, signal: TERM, stopped: 3}}"  # fmt: skip


def test_a_run_that_comes_back(made: Any) -> None:
    found = made(checkpoints=SIGNAL, requeue=REQUEUE)
    resume = found.resume
    assert (resume.before, resume.after, resume.file, resume.tracker, resume.stopped) == ("c/step-", "", "done", "", 3)  # fmt: skip
    assert (resume.policy, resume.attempts, resume.on) == ("requeue", 7, ("time-limit", "preemption", "lost"))
    assert found.warning == ("USR2", 180) and dict(found.launch)["--warning"] == "signal:TERM"
    assert directive(found, "requeue") and not directive(found, "no-requeue")
    assert directive(found, "signal")[0].value == "B:USR2@180"


def test_a_short_run_is_warned_at_half_of_its_time(made: Any) -> None:
    assert made(checkpoints=SIGNAL, requeue={**REQUEUE, "warning": "5h"}).warning == ("USR2", 3600)


def test_a_successor_is_no_requeue(made: Any) -> None:
    found = made(checkpoints=SIGNAL, requeue={"policy": "successor"})
    assert (
        found.resume.policy == "successor" and directive(found, "no-requeue") and directive(found, "signal")
    )


@pytest.mark.parametrize(
    ("checkpoints", "requeue", "why"),
    [
        ("", REQUEUE, "toy/tuned does not resume"),
        ("{format: f, pattern: 's{step}'}", REQUEUE, "toy/tuned does not resume"),
        ("{format: f, pattern: 's{step}', resume: automatic}", {}, "the site does not start runs again"),
    ],
)
def test_a_run_that_does_not_come_back(
    made: Any, checkpoints: str, requeue: dict[str, Any], why: str
) -> None:
    found = made(checkpoints=checkpoints, requeue=requeue)
    assert (found.resume, found.why_not, found.warning) == (None, why, None)
    assert directive(found, "no-requeue") and not directive(found, "signal")


def test_who_listens_is_told_also_where_nothing_comes_back(made: Any) -> None:
    found = made(checkpoints=SIGNAL)
    assert found.resume is None and found.warning == ("USR2", 300) and directive(found, "no-requeue")
