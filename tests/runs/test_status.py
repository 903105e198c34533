"""How a run is judged from what the scheduler says and from its own records."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tuneplane.runs.attempt import read_verdict
from tuneplane.runs.folder import CANCEL_FILE, Run
from tuneplane.runs.status import Job, judge

JOB = {"scheduler": "local", "id": "7"}
ENDED = {"started": 100, "ended": 200}


def run(folder: Path, *attempts: Any, job: Any = JOB, cancelled: bool = False, submission: Any = None) -> Run:
    """A run whose attempts left these exit records: None for none, bytes for a damaged one."""
    (folder / "attempts").mkdir()
    for number, record in enumerate(attempts, 1):
        attempt = folder / "attempts" / str(number)
        attempt.mkdir()
        if record is not None:
            (attempt / "exit.json").write_bytes(
                record if isinstance(record, bytes) else json.dumps(record).encode()
            )
    if cancelled:
        (folder / CANCEL_FILE).write_text("{}")
    return Run(folder, {"plan": {}}, job, submission or {})


def ok(code: int, decided: str = "verdict", **more: Any) -> dict[str, Any]:
    return {"code": code, "decided_by": decided, **ENDED, **more}


KILLED = "the job ended without a record of its end: it was killed"
NOBODY = "the scheduler does not know the job, and it left no record of its end"
UNKNOWN, RUNNING, QUEUED, OVER = Job("unknown"), Job("running"), Job("queued"), Job("ended")
TABLE: list[tuple[str, list[Any], dict[str, Any], Job, str, Any, str]] = [
    # what, attempts, the run, the scheduler's word → state, code, why
    ("waits", [], {}, Job("queued", note="(Priority)"), "queued", None, "(Priority)"),
    ("waits again after a requeue", [None], {}, QUEUED, "queued", None, "attempt 2 waits"),
    ("runs before its first line", [], {}, RUNNING, "running", None, ""),
    ("runs", [None], {}, RUNNING, "running", None, ""),
    ("is alive though the last attempt has ended", [ok(1)], {}, RUNNING, "running", None, ""),
    ("is being cancelled", [None], {"cancelled": True}, RUNNING, "running", None, ""),
    ("completed", [ok(0)], {}, OVER, "completed", 0, ""),
    ("completed, and the scheduler has forgotten it", [ok(0)], {}, UNKNOWN, "completed", 0, ""),
    ("completed though it was to be cancelled", [ok(0)], {"cancelled": True}, OVER, "completed", 0, ""),
    ("completed in spite of the scheduler", [ok(0)], {}, Job("ended", "failed", "NODE_FAIL"), "completed", 0, ""),
    ("failed", [ok(7)], {}, OVER, "failed", 7, "the command failed"),
    ("failed, forgotten", [ok(7)], {}, UNKNOWN, "failed", 7, "the command failed"),
    ("failed at last", [ok(0), ok(9)], {}, OVER, "failed", 9, "the command failed"),
    ("completed at last", [ok(9), ok(0)], {}, OVER, "completed", 0, ""),
    ("failed in the launcher", [ok(3, "step")], {}, OVER, "failed", 3, "the launcher ended with 3 before a supervisor could say why"),
    ("failed in a check", [ok(5, "check")], {}, OVER, "failed", 5, "a check failed before the launch"),
    ("was killed", [ok(137, "killed", signal="SIGKILL")], {}, OVER, "failed", 137, "the job script was killed by SIGKILL"),
    ("left only its status", [ok(7, "script")], {}, OVER, "failed", 7, "the job script ended with 7 and left no record"),
    ("timed out", [ok(143, "time limit")], {}, OVER, "timed-out", 143, "the time limit was reached"),
    ("timed out, says the scheduler", [ok(143, "killed", signal="SIGTERM")], {}, Job("ended", "timed-out"), "timed-out", 143, "the time limit was reached"),
    ("timed out, says its own record", [ok(143, cause="time limit")], {}, OVER, "timed-out", 143, "the time limit was reached"),
    ("was preempted", [ok(143, cause="preemption", why_next="the site does not requeue")], {}, Job("ended", "timed-out"), "failed", 143, "preempted by another job, and no attempt follows: the site does not requeue"),
    ("was preempted, then cancelled", [ok(143, cause="preemption")], {"cancelled": True}, OVER, "cancelled", 143, "cancelled while it ran"),
    ("was cancelled, says its own record", [ok(143, cause="cancelled")], {}, UNKNOWN, "cancelled", 143, "cancelled while it ran"),
    ("lost a node", [ok(125, cause="lost")], {}, OVER, "failed", 125, "the command failed"),
    ("ends well after a warning", [ok(0, cause="time limit")], {}, OVER, "completed", 0, ""),
    ("makes no progress", [ok(1), ok(1, "no progress", cause="time limit")], {}, OVER, "failed", 1, "two attempts in a row made no new checkpoint"),
    ("has no attempt left", [ok(1, "attempts", why_next="the cap of 20 attempts is reached")], {}, Job("ended", "timed-out"), "failed", 1, "the cap of 20 attempts is reached"),
    ("waits after its time limit", [ok(143, cause="time limit", next="requeue")], {}, Job("queued", note="waiting: BeginTime"), "queued", None, "attempt 2 waits: requeued at the time limit (BeginTime)"),
    ("waits after a preemption", [ok(1), ok(143, cause="preemption", next="slurm")], {}, QUEUED, "queued", None, "attempt 3 waits: requeued after a preemption"),
    ("timed out first, cancelled then", [ok(143, "time limit")], {"cancelled": True}, OVER, "timed-out", 143, "the time limit was reached"),
    ("ended in time after all", [ok(0, "time limit")], {}, OVER, "completed", 0, ""),
    ("was cancelled", [ok(143)], {"cancelled": True}, OVER, "cancelled", 143, "cancelled while it ran"),
    ("was cancelled by another hand", [ok(143)], {}, Job("ended", "cancelled"), "cancelled", 143, "cancelled while it ran"),
    ("was cancelled in the queue", [], {"cancelled": True}, OVER, "cancelled", None, "cancelled before it started"),
    ("was cancelled and left nothing", [None], {"cancelled": True}, OVER, "cancelled", None, "cancelled"),
    ("was cancelled and is forgotten", [None], {"cancelled": True}, UNKNOWN, "cancelled", None, "cancelled"),
    ("vanished", [None], {}, OVER, "failed", None, KILLED),
    ("vanished before it began", [], {}, OVER, "failed", None, KILLED),
    ("vanished with its node", [None], {}, Job("ended", "failed", "NODE_FAIL"), "failed", None, "NODE_FAIL"),
    ("vanished at its limit", [None], {}, Job("ended", "timed-out", "TIMEOUT"), "timed-out", None, "TIMEOUT"),
    ("is unknown", [None], {}, UNKNOWN, "unknown", None, NOBODY),
    ("is unknown from here", [], {}, Job("unknown", note="squeue does not answer"), "unknown", None, "squeue does not answer"),
    ("restarted and vanished: the first attempt's end is not the second's", [ok(0), None], {}, OVER, "failed", None, KILLED),
    ("restarted and is forgotten", [ok(0), None], {}, UNKNOWN, "unknown", None, NOBODY),
    ("left a damaged record", [b'{"code": 0'], {}, OVER, "failed", None, KILLED),
    ("left an empty record", [b""], {}, OVER, "failed", None, KILLED),
    ("left a record without a code", [{"decided_by": "verdict"}], {}, OVER, "failed", None, KILLED),
    ("left a record of another kind", [[0]], {}, UNKNOWN, "unknown", None, NOBODY),
    ("left a code that is none", [{"code": "0"}], {}, OVER, "failed", None, KILLED),
    ("was never handed over", [], {"job": None}, OVER, "new", None, "never handed to the scheduler"),
    ("was refused", [], {"job": None, "submission": {"state": "refused", "why": "no such account"}}, UNKNOWN, "new", None, "no such account"),
    ("is uncertain", [], {"job": None, "submission": {"state": "uncertain", "why": "sbatch did not answer"}}, UNKNOWN, "uncertain", None, "sbatch did not answer"),
    ("ran though nobody wrote down its job", [ok(0)], {"job": None}, OVER, "completed", 0, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "attempts", "made", "job", "state", "code", "why"), TABLE, ids=[row[0] for row in TABLE]
)
def test_a_run(
    tmp_path: Path,
    what: str,
    attempts: list[Any],
    made: dict[str, Any],
    job: Job,
    state: str,
    code: Any,
    why: str,
) -> None:
    status = judge(run(tmp_path, *attempts, **made), job)
    assert (status.state, status.code, status.why, status.attempt) == (state, code, why, len(attempts))
    assert status.final == (state in ("completed", "failed", "cancelled", "timed-out"))


def test_no_run_is_completed_without_its_own_record() -> None:
    assert {
        row[4] for row in TABLE if not any(isinstance(a, dict) and a.get("code") == 0 for a in row[1][-1:])
    } & {"completed"} == set()


def test_the_newest_attempt_counts_by_number(tmp_path: Path) -> None:
    found = run(tmp_path, *[ok(1)] * 11)
    (tmp_path / "attempts/11/exit.json").write_text(json.dumps(ok(0)))
    (tmp_path / "attempts/notes").mkdir()
    assert [path.name for path in found.attempts()] == [str(number) for number in range(1, 12)]
    assert (judge(found, OVER).state, judge(found, OVER).attempt) == ("completed", 11)


def left(folder: Path, attempt: int, code: int = 9, **more: Any) -> None:
    verdict = {
        "code": code,
        "message": "the command was killed by SIGKILL",
        "node": 1,
        "host": "gpu7",
        **more,
    }
    (folder / f"attempts/{attempt}/verdict").write_text(f"{code}\n{json.dumps(verdict)}\n")


@pytest.mark.parametrize("job", [OVER, UNKNOWN, Job("ended", "failed", "Slurm says NODE_FAIL")])
def test_a_verdict_outlives_its_script(tmp_path: Path, job: Job) -> None:
    found = run(tmp_path, None)
    left(tmp_path, 1, rank=3)
    status = judge(found, job)
    assert (status.state, status.code, status.node) == ("failed", 9, 1)
    assert status.why == "the command was killed by SIGKILL on rank 3 of node 1 (gpu7)"


@pytest.mark.parametrize(
    ("job", "state"),
    [(Job("unknown", asked=False), "unknown"), (Job("ended", "timed-out", "TIMEOUT"), "timed-out"), (Job("ended", "cancelled"), "cancelled")],
)  # fmt: skip
def test_what_the_scheduler_knows_better_than_a_verdict(tmp_path: Path, job: Job, state: str) -> None:
    found = run(tmp_path, None)
    left(tmp_path, 1)
    assert judge(found, job).state == state


def test_a_verdict_of_success_without_a_record_is_none(tmp_path: Path) -> None:
    found = run(tmp_path, None)
    left(tmp_path, 1, code=0)
    assert (judge(found, OVER).state, judge(found, OVER).why) == ("failed", KILLED)


def test_the_cap_and_the_wish_of_a_run_that_waits(tmp_path: Path) -> None:
    found = run(tmp_path, ok(143))
    found.plan["resume"] = {"attempts": 20}
    (tmp_path / "requeue.json").write_text('{"attempt": 1}')
    assert judge(found, QUEUED).why == "attempt 2 of 20 waits: requeued by its owner"
    # a job asked for by hand begins to count anew
    (tmp_path / "first").write_text("5\n")
    assert judge(found, QUEUED).why.startswith("attempt 2 of 24 waits")


@pytest.mark.parametrize(("ago", "late"), [(5, False), (170, False), (190, True)])
def test_a_running_job_that_is_silent(tmp_path: Path, ago: int, late: bool) -> None:
    found = run(tmp_path, None)
    file = tmp_path / "attempts/1/alive.json"
    file.write_text(json.dumps({"t": time.time() - ago, "phase": "running"}))
    os.utime(file, (time.time() - ago,) * 2)
    status = judge(found, RUNNING, bound=60)
    assert (status.state, bool(status.silent)) == ("running", late)
    assert status.why.startswith("Slurm says RUNNING, and nothing was heard from it for 3m1") == late
    # an attempt that has ended is not silent, its job is about to be
    (tmp_path / "attempts/1/exit.json").write_text(json.dumps(ok(1)))
    assert judge(found, RUNNING, bound=60).silent == 0


# --- who failed, when ---


def test_the_verdict_names_the_node(tmp_path: Path) -> None:
    found = run(tmp_path, ok(9))
    verdict = {"code": 9, "message": "rank 3 was killed by SIGKILL", "node": 1, "host": "gpu7"}
    (tmp_path / "attempts/1/verdict").write_text(f"9\n{json.dumps(verdict)}\n")
    status = judge(found, OVER)
    assert (status.why, status.node) == ("rank 3 was killed by SIGKILL on node 1 (gpu7)", 1)


@pytest.mark.parametrize("text", ["", "9", "9\n", "9\n{", "9\n[1]\n", "9\n\0", '9\n{"node": "x"'])
def test_a_damaged_verdict_is_none(tmp_path: Path, text: str) -> None:
    found = run(tmp_path, ok(9))
    (tmp_path / "attempts/1/verdict").write_text(text)
    assert read_verdict(tmp_path / "attempts/1") == {}
    assert (judge(found, OVER).why, judge(found, OVER).node) == ("the command failed", None)


def test_a_refusal_says_why(tmp_path: Path) -> None:
    found = run(tmp_path, ok(5, "check"))
    (tmp_path / "attempts/1/refusal").write_text("the image is not the one that was compiled\n")
    assert judge(found, OVER).why == "the image is not the one that was compiled"


@pytest.mark.parametrize(
    ("record", "phases", "started", "ended"),
    [(ok(0), None, 100, 200), (None, '{"t": 50, "phase": "start"}\n{"t": 60}\n', 50, None), ({"code": 137, "ended": 9}, '{"t": 5.5}\n', 5, 9),
     (None, "", None, None), (None, "{", None, None), (None, '{"t": "x"}\n', None, None), (None, "[]\n", None, None)],
)  # fmt: skip
def test_times(
    tmp_path: Path, record: Any, phases: str | None, started: int | None, ended: int | None
) -> None:
    found = run(tmp_path, record)
    if phases is not None:
        (tmp_path / "attempts/1/phases.jsonl").write_text(phases)
    assert (judge(found, OVER).started, judge(found, OVER).ended) == (started, ended)
    if record is None:
        assert judge(found, RUNNING).started == started
