"""How a run stands, judged from what the scheduler says and from the run's own records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneplane.files import read_json
from tuneplane.runs.folder import CANCEL_FILE, Run

JobState = Literal["queued", "running", "ended", "unknown"]

RunState = Literal[
    "new", "uncertain", "queued", "running", "completed", "failed", "cancelled", "timed-out", "unknown"
]

_FINAL = ("completed", "failed", "cancelled", "timed-out")


@dataclass(frozen=True)
class Job:
    """What a scheduler says of a run's job.

    state: `unknown` when the scheduler does not know the job or cannot be asked; end: how it ended where the
    scheduler tells it apart; note: the scheduler's own words; asked: whether the scheduler answered.
    """

    state: JobState
    end: Literal["", "cancelled", "timed-out", "failed"] = ""
    note: str = ""
    asked: bool = True


@dataclass(frozen=True)
class Status:
    """code: the exit code, None while there is none; why: one sentence; attempt: 0 before the first; asked: False
    when it is unknown only because the scheduler did not answer."""

    state: RunState
    code: int | None = None
    why: str = ""
    attempt: int = 0
    started: int | None = None
    ended: int | None = None
    node: int | None = None
    asked: bool = True

    @property
    def final(self) -> bool:
        return self.state in _FINAL


def judge(run: Run, job: Job) -> Status:
    """The run's status.

    A live job outranks any record, a record belongs to one attempt, and a job that nobody knows any more is never
    completed unless its own record says so.
    """
    attempts = run.attempts()
    attempt = int(attempts[-1].name) if attempts else 0
    if job.state == "queued":
        return Status("queued", why=job.note, attempt=attempt)
    if job.state == "running":
        return Status("running", why=job.note, attempt=attempt, started=_started(attempts))
    record = read_json(attempts[-1] / "exit.json") if attempts else None
    if isinstance(record, dict) and isinstance(record.get("code"), int):
        return _ended(run, attempts[-1], record, attempt, job)
    started = _started(attempts)
    if job.end:
        why = job.note or f"the scheduler says that it {job.end}"
        return Status(job.end, why=why, attempt=attempt, started=started)
    if run.job is None:
        if run.submission.get("state") == "uncertain":
            return Status("uncertain", why=str(run.submission.get("why", "")))
        return Status("new", why=str(run.submission.get("why", "") or "never handed to the scheduler"))
    if not job.asked:
        return Status("unknown", why=job.note, attempt=attempt, started=started, asked=False)
    if (run.folder / CANCEL_FILE).exists():
        why = "cancelled" if attempts else "cancelled before it started"
        return Status("cancelled", why=why, attempt=attempt, started=started)
    if job.state == "ended":
        why = "the job ended without a record of its end: it was killed"
        return Status("failed", why=why, attempt=attempt, started=started)
    why = job.note or "the scheduler does not know the job, and it left no record of its end"
    return Status("unknown", why=why, attempt=attempt, started=started)


def _started(attempts: list[Path]) -> int | None:
    try:
        with open(attempts[-1] / "phases.jsonl", encoding="utf-8") as file:
            return int(json.loads(file.readline())["t"])
    except (IndexError, OSError, ValueError, KeyError, TypeError):
        return None


def _ended(run: Run, attempt: Path, record: dict[str, Any], number: int, job: Job) -> Status:
    code: int = record["code"]
    verdict = read_verdict(attempt)
    state: RunState = "completed" if code == 0 else "failed"
    why = _why(attempt, record, verdict)
    if code != 0 and (record.get("decided_by") == "time limit" or job.end == "timed-out"):
        state, why = "timed-out", "the time limit was reached"
    elif code != 0 and ((run.folder / CANCEL_FILE).exists() or job.end == "cancelled"):
        state, why = "cancelled", "cancelled while it ran"
    node = verdict.get("node")
    started, ended = record.get("started") or _started([attempt]), record.get("ended")
    return Status(state, code, why, number, started, ended, node if isinstance(node, int) else None)


def _why(attempt: Path, record: dict[str, Any], verdict: dict[str, Any]) -> str:
    decided = record.get("decided_by")
    if decided == "check":
        try:
            return (attempt / "refusal").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return "a check failed before the launch"
    if decided == "verdict" and record["code"] != 0:
        node = verdict.get("node")
        place = f" on node {node} ({verdict.get('host')})" if node is not None else ""
        return f"{verdict.get('message', 'the command failed')}{place}"
    if decided == "killed":
        return f"the job script was killed by {record.get('signal')}"
    if decided == "script" and record["code"] != 0:
        return f"the job script ended with {record['code']} and left no record"
    if decided == "step" and record["code"] != 0:
        return f"the launcher ended with {record['code']} before a supervisor could say why"
    return ""


def read_verdict(attempt: Path) -> dict[str, Any]:
    """The second line of the attempt's verdict, empty when there is none."""
    try:
        lines = (attempt / "verdict").read_text(encoding="utf-8", errors="replace").splitlines()
        data = json.loads(lines[1])
    except (OSError, IndexError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
