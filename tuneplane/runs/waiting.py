"""A run between two attempts: what ended the last one, and what the next one waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneplane.files import read_json
from tuneplane.runs.attempt import exit_record
from tuneplane.runs.folder import REQUEUE_FILE, Run

_AFTER = {
    "time limit": "requeued at the time limit",
    "preemption": "requeued after a preemption",
    "lost": "requeued after the loss of a node",
    "cancelled": "requeued after a cancellation",
    "wish": "requeued by its owner",
}


def wished(run: Run, attempt: int) -> bool:
    """Whether its owner asked that this attempt end and the next one begin."""
    wish = read_json(run.folder / REQUEUE_FILE)
    return isinstance(wish, dict) and wish.get("attempt") == attempt


def last_record(run: Run, attempts: list[Path]) -> dict[str, Any]:
    """The exit record of the last attempt, with the owner's wish as its cause where there was one."""
    record = exit_record(attempts[-1]) if attempts else {}
    return {**record, "cause": "wish"} if attempts and wished(run, int(attempts[-1].name)) else record


def cap(run: Run) -> int:
    """The number of the last attempt that the run may begin, 0 where it does not come back: the site's, counted from
    the first attempt of a job that was asked for by hand (`slurm-claim.j2` writes which that is).
    """
    resume = run.record.get("plan", {}).get("resume") or {}
    try:
        first = int((run.folder / "first").read_text(encoding="ascii"))
    except (OSError, ValueError):
        first = 1
    return int(resume["attempts"]) + first - 1 if resume.get("attempts") else 0


def between(record: dict[str, Any], last: int, most: int) -> str:
    """`attempt 2 of 20 waits: requeued at the time limit`; empty for a run that waits for its first.

    record: what the last attempt left, see `last_record`; last: its number; most: see `cap`.
    """
    if not last:
        return ""
    after = _AFTER.get(str(record.get("cause")), "")
    if not after and str(record.get("next", "")).startswith("successor"):
        after = "a job of its own follows the last attempt"
    of = f" of {most}" if most else ""
    return f"attempt {last + 1}{of} waits" + (f": {after}" if after else "")


def waits_again(run: Run, attempts: list[Path], note: str) -> str:
    """The same with what the scheduler says that it waits for; empty for a run that waits for its first."""
    number = int(attempts[-1].name) if attempts else 0
    told = between(last_record(run, attempts), number, cap(run))
    return f"{told} ({note.removeprefix('waiting: ')})" if told and note else told
