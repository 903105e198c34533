"""How a run stands, judged from what the scheduler says and from the run's own records."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneplane.durations import spoken
from tuneplane.runs import attempt as left
from tuneplane.runs.attempt import exit_record, read_verdict, verdict_sentence
from tuneplane.runs.folder import CANCEL_FILE, Run
from tuneplane.runs.waiting import waits_again

JobState = Literal["queued", "running", "ended", "unknown"]

RunState = Literal[
    "new", "uncertain", "queued", "running", "completed", "failed", "cancelled", "timed-out", "unknown"
]

_FINAL = ("completed", "failed", "cancelled", "timed-out")

HEARTBEAT_SECONDS = 60
"""Silence that is death, where the site does not say."""
BEATS = 3
"""A run that was silent for so many bounds is said to be: one beat may be late on a slow filesystem."""


@dataclass(frozen=True)
class Job:
    """What a scheduler says of a run's job.

    state: `unknown` when the scheduler does not know the job or cannot be asked; end: how it ended where the
    scheduler tells it apart; note: the scheduler's own words; asked: whether the scheduler answered; word, reason:
    its words for the state and for why, `PENDING` and `Priority`; begins: when it is expected to start, as the
    scheduler writes it; after: what it depends on; by: the uid of who cancelled it.
    """

    state: JobState
    end: Literal["", "cancelled", "timed-out", "failed"] = ""
    note: str = ""
    asked: bool = True
    word: str = ""
    reason: str = ""
    begins: str = ""
    after: str = ""
    by: str = ""


@dataclass(frozen=True)
class Status:
    """code: the exit code, None while there is none; why: one sentence; attempt: 0 before the first; asked: False
    when it is unknown only because the scheduler did not answer; silent: seconds since the last heartbeat of a run
    that should live, 0 when it is not late."""

    state: RunState
    code: int | None = None
    why: str = ""
    attempt: int = 0
    started: int | None = None
    ended: int | None = None
    node: int | None = None
    asked: bool = True
    silent: int = 0

    @property
    def final(self) -> bool:
        return self.state in _FINAL


def judge(run: Run, job: Job, bound: int = HEARTBEAT_SECONDS) -> Status:
    """The run's status.

    A live job outranks any record, a record belongs to one attempt, and a job that nobody knows any more is never
    completed unless its own record says so. bound: the site's heartbeat in seconds.
    """
    attempts = run.attempts()
    attempt = int(attempts[-1].name) if attempts else 0
    if job.state == "queued":
        return Status("queued", why=waits_again(run, attempts, job.note) or job.note, attempt=attempt)
    if job.state == "running":
        silent = _silent(attempts, bound)
        why = (
            f"Slurm says RUNNING, and nothing was heard from it for {spoken(silent)}" if silent else job.note
        )
        return Status("running", why=why, attempt=attempt, started=_started(attempts), silent=silent)
    record = exit_record(attempts[-1]) if attempts else {}
    if record:
        return _ended(run, attempts[-1], record, attempt, job)
    verdict = read_verdict(attempts[-1]) if attempts else {}
    return _no_record(run, job, attempts, attempt, verdict)


def _no_record(run: Run, job: Job, attempts: list[Path], attempt: int, verdict: dict[str, Any]) -> Status:
    """The status of a run whose last attempt left no record of its end."""
    started = _started(attempts)
    failed = bool(verdict.get("code")) and isinstance(verdict["code"], int)
    node = verdict.get("node") if isinstance(verdict.get("node"), int) else None
    if failed and job.end in ("", "failed") and job.asked and not (run.folder / CANCEL_FILE).exists():
        # the script was killed before it could write, the supervisors were not
        return Status("failed", verdict["code"], verdict_sentence(verdict), attempt, started, node=node)
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


def _silent(attempts: list[Path], bound: int) -> int:
    """Seconds since the last heartbeat of an attempt that has not ended, 0 when that is not long."""
    last = left.heard(attempts[-1]) if attempts and not exit_record(attempts[-1]) else None
    age = int(time.time()) - last if last is not None else 0
    return age if age > BEATS * bound else 0


def _started(attempts: list[Path]) -> int | None:
    return left.started(attempts[-1]) if attempts else None


def _ended(run: Run, attempt: Path, record: dict[str, Any], number: int, job: Job) -> Status:
    code: int = record["code"]
    verdict = read_verdict(attempt)
    state: RunState = "completed" if code == 0 else "failed"
    why = _why(attempt, record, verdict)
    cause = record.get("cause")
    late = record.get("decided_by") == "time limit" or cause == "time limit" or job.end == "timed-out"
    gave_up = record.get("decided_by") in ("no progress", "attempts")
    cancelled = cause == "cancelled" or (run.folder / CANCEL_FILE).exists() or job.end == "cancelled"
    if code == 0 or gave_up:
        pass
    elif cause == "preemption" and not (run.folder / CANCEL_FILE).exists():
        why = "preempted by another job" + _nothing_next(record)
    elif late and cause in (None, "", "time limit"):
        state, why = "timed-out", "the time limit was reached"
    elif cancelled:
        state, why = "cancelled", "cancelled while it ran"
    node = verdict.get("node")
    started, ended = record.get("started") or left.started(attempt), record.get("ended")
    return Status(state, code, why, number, started, ended, node if isinstance(node, int) else None)


def _nothing_next(record: dict[str, Any]) -> str:
    """Why no attempt follows, where the record says."""
    return f", and no attempt follows: {record['why_next']}" if record.get("why_next") else ""


def _why(attempt: Path, record: dict[str, Any], verdict: dict[str, Any]) -> str:
    decided = record.get("decided_by")
    failure = verdict_sentence(verdict) if verdict.get("code") else ""
    if decided == "no progress":
        return "two attempts in a row made no new checkpoint" + (f": {failure}" if failure else "")
    if decided == "attempts":
        why = record.get("why_next") or "no attempt is left"
        return f"{why}: {failure}" if failure else str(why)
    if decided == "check":
        return left.refusal(attempt) or "a check failed before the launch"
    if decided == "verdict" and record["code"] != 0:
        return verdict_sentence(verdict)
    if decided == "killed":
        return f"the job script was killed by {record.get('signal')}"
    if decided == "script" and record["code"] != 0:
        return f"the job script ended with {record['code']} and left no record"
    if decided == "step" and record["code"] != 0:
        return f"the launcher ended with {record['code']} before a supervisor could say why"
    return ""
