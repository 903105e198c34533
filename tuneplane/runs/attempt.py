"""What an attempt left in its folder: its exit record, the verdict of its supervisors, its last heartbeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuneplane.files import read_json


def exit_record(attempt: Path) -> dict[str, Any]:
    """`exit.json` with a code, empty when there is none: what a killed script left is no record."""
    record = read_json(attempt / "exit.json")
    return record if isinstance(record, dict) and isinstance(record.get("code"), int) else {}


def read_verdict(attempt: Path) -> dict[str, Any]:
    """The second line of the attempt's verdict, empty when there is none."""
    try:
        lines = (attempt / "verdict").read_text(encoding="utf-8", errors="replace").splitlines()
        data = json.loads(lines[1])
    except (OSError, IndexError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def verdict_sentence(verdict: dict[str, Any]) -> str:
    """What failed and where: `the command was killed by SIGKILL on rank 3 of node 1 (n2)`."""
    node, rank = verdict.get("node"), verdict.get("rank")
    place = "" if node is None else f" on node {node} ({verdict.get('host')})"
    if rank is not None and node is not None:
        place = f" on rank {rank} of node {node} ({verdict.get('host')})"
    return f"{verdict.get('message', 'the command failed')}{place}"


def refusal(attempt: Path) -> str:
    """The sentence of a check that failed before the launch, empty when there is none."""
    try:
        return (attempt / "refusal").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def heard(attempt: Path) -> int | None:
    """When the head last said that it lives, in unix seconds; None when it never did.

    Its own clock and the file server's may differ from ours: the later of the two counts.
    """
    file = attempt / "alive.json"
    data = read_json(file)
    if not isinstance(data, dict) or not isinstance(data.get("t"), (int, float)):
        return None
    try:
        return int(max(data["t"], file.stat().st_mtime))
    except (OSError, ValueError, OverflowError):
        return None


def phase(attempt: Path) -> str:
    """The phase that the head named last, empty when it named none."""
    data = read_json(attempt / "alive.json")
    return str(data.get("phase", "")) if isinstance(data, dict) else ""


def hosts(attempt: Path) -> dict[int, str]:
    """The nodes' names by rank, as far as the head wrote them down or the verdict says."""
    data = read_json(attempt / "nodes.json")
    rows = data.get("nodes") if isinstance(data, dict) else None
    found = {
        row["rank"]: str(row["host"])
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and isinstance(row.get("rank"), int) and row.get("host")
    }
    verdict = read_verdict(attempt)
    if isinstance(verdict.get("node"), int) and verdict.get("host"):
        found.setdefault(verdict["node"], str(verdict["host"]))
    return found


def started(attempt: Path) -> int | None:
    """When the first milestone of the attempt was reached, in unix seconds."""
    try:
        with open(attempt / "phases.jsonl", encoding="utf-8") as file:
            return int(json.loads(file.readline())["t"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
