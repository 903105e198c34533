"""Which runs can be started once more, and what their attempts were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuneplane.runs.comeback import refusal
from tuneplane.runs.folder import Run, before, nodes_of
from tuneplane.runs.history import history, in_words
from tuneplane.runs.status import Status

GOES_BACK = [{"name": "requeue", "value": None, "source": "site"}]
STAYS = [{"name": "no-requeue", "value": None, "source": "platform"}]


def run(**plan: Any) -> Run:
    return Run(Path("/none"), {"plan": {"scheduler": "slurm", "directives": GOES_BACK, **plan}}, {"id": "5"})


@pytest.mark.parametrize(
    ("status", "plan", "why"),
    [
        (Status("failed"), {}, ""),
        (Status("timed-out"), {}, ""),
        (Status("cancelled"), {}, ""),
        (Status("unknown"), {}, ""),
        (Status("unknown", why="squeue: timed out", asked=False), {}, "may have a job: squeue: timed out"),
        (Status("completed"), {}, "has completed"),
        (Status("queued"), {}, "waits already"),
        (Status("new"), {}, "was never handed"),
        (Status("uncertain"), {}, "may or may not have a job"),
        (Status("running"), {"resume": {"attempts": 2}}, ""),
        (Status("running"), {"why_not": "custom/custom does not resume"}, "from nothing: custom/custom does not resume"),
        (Status("running"), {"resume": {"attempts": 2}, "directives": STAYS}, "--no-requeue"),
        (Status("running"), {"scheduler": "local"}, ""),
    ],
)  # fmt: skip
def test_a_refusal_names_why_not(status: Status, plan: dict[str, Any], why: str) -> None:
    found = refusal(run(**plan), status)
    assert why in found if why else found == ""


def test_the_attempts(tmp_path: Path) -> None:
    records: list[dict[str, Any] | None] = [
        {"code": 143, "cause": "time limit", "step": 40, "next": "requeue", "started": 5, "ended": 9},
        {"code": 7, "cause": "", "step": None},
        None,
        {"code": 0},
    ]
    for number, record in enumerate(records, 1):
        (tmp_path / f"attempts/{number}").mkdir(parents=True)
        if record:
            (tmp_path / f"attempts/{number}/exit.json").write_text(json.dumps(record))
    rows = history(Run(tmp_path, {}))
    assert [row["attempt"] for row in rows] == [1, 2, 3, 4]
    assert (rows[0]["next"], rows[0]["started"], rows[2]["code"]) == ("requeue", 5, None)
    assert in_words(rows) == "1: time limit at step 40; 2: exit code 7; 3: no record; 4: completed"
    assert in_words(rows[:1]) == ""


def test_jobs_that_a_run_was() -> None:
    assert before(None) == {}
    first = {"id": "5", "submitted": 1}
    second = {"id": "6", **before(first)}
    assert before(second) == {"earlier": [first, {"id": "6"}]}


def test_the_nodes_of_pools_are_nodes_of_the_run() -> None:
    assert nodes_of({"topology": {"nodes": 2}}) == nodes_of({"topology": {"nodes": 2}, "pools": []}) == 2
    assert nodes_of({"topology": {"nodes": 2}, "pools": [{"topology": {"nodes": n}} for n in (2, 1)]}) == 3
