"""The attempts of a run, one by one."""

from __future__ import annotations

from typing import Any

from tuneplane.runs.attempt import exit_record, started
from tuneplane.runs.folder import Run

_KEYS = ("code", "decided_by", "cause", "next", "why_next", "resumed_from", "step", "ended")


def history(run: Run) -> list[dict[str, Any]]:
    """What each attempt left, the first first; keys that it left nothing for are None."""
    rows = []
    for attempt in run.attempts():
        record = exit_record(attempt)
        row = {key: record.get(key) for key in _KEYS}
        rows.append(
            {"attempt": int(attempt.name), "started": record.get("started") or started(attempt), **row}
        )
    return rows


def in_words(rows: list[dict[str, Any]]) -> str:
    """`1: time limit at step 40; 2: no record`, for several attempts; empty for one or none."""
    return "; ".join(f"{row['attempt']}: {_end(row)}" for row in rows) if len(rows) > 1 else ""


def _end(row: dict[str, Any]) -> str:
    if row["code"] is None:
        return "no record"
    end = row["cause"] or ("completed" if row["code"] == 0 else f"exit code {row['code']}")
    return f"{end} at step {row['step']}" if row["step"] is not None else str(end)
