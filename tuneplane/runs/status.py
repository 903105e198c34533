"""How a run stands, judged from what the scheduler says and from the run's own records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneplane.files import read_json
from tuneplane.runs.folder import CANCEL_FILE, Run

JobState = Literal["queued", "running", "ended", "unknown"]
"""What a scheduler says of a job; `unknown` when it does not know it or cannot be asked."""

RunState = Literal["new", "queued", "running", "completed", "failed", "cancelled", "timed-out", "unknown"]


@dataclass(frozen=True)
class Status:
    """code: the exit code, None while there is none; why: one sentence; attempt: 0 before the first."""

    state: RunState
    code: int | None = None
    why: str = ""
    attempt: int = 0
    started: int | None = None
    ended: int | None = None
    node: int | None = None

    @property
    def final(self) -> bool:
        return self.state in ("completed", "failed", "cancelled", "timed-out")


def judge(run: Run, job_state: JobState) -> Status:
    """The run's status. A live job outranks any record; a job that nobody knows any more is never completed
    unless its own record says so."""
    attempts = run.attempts()
    attempt = int(attempts[-1].name) if attempts else 0
    if job_state in ("queued", "running"):
        return Status(
            "running" if attempts or job_state == "running" else "queued",
            attempt=attempt,
            started=_started(attempts),
        )
    record = read_json(attempts[-1] / "exit.json") if attempts else None
    if isinstance(record, dict) and isinstance(record.get("code"), int):
        return _ended(run, attempts[-1], record, attempt)
    if run.job is None:
        return Status("new", why="never handed to the scheduler")
    if (run.folder / CANCEL_FILE).exists():
        return Status(
            "cancelled", why="cancelled before it started" if not attempts else "cancelled", attempt=attempt
        )
    if job_state == "ended":
        return Status(
            "failed",
            why="the job ended without a record of its end: it was killed",
            attempt=attempt,
            started=_started(attempts),
        )
    return Status(
        "unknown",
        why="the scheduler does not know the job, and it left no record of its end",
        attempt=attempt,
    )


def _started(attempts: list[Path]) -> int | None:
    try:
        with open(attempts[-1] / "phases.jsonl", encoding="utf-8") as file:
            return int(json.loads(file.readline())["t"])
    except (IndexError, OSError, ValueError, KeyError, TypeError):
        return None


def _ended(run: Run, attempt: Path, record: dict[str, Any], number: int) -> Status:
    code: int = record["code"]
    verdict = read_verdict(attempt)
    state: RunState = "completed" if code == 0 else "failed"
    why = _why(attempt, record, verdict)
    if record.get("decided_by") == "time limit":
        state, why = "timed-out", "the time limit was reached"
    elif code != 0 and (run.folder / CANCEL_FILE).exists():
        state, why = "cancelled", "cancelled while it ran"
    node = verdict.get("node")
    return Status(
        state,
        code,
        why,
        number,
        record.get("started"),
        record.get("ended"),
        node if isinstance(node, int) else None,
    )


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
