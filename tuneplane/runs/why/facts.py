"""Everything that a reason is judged from, read once."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane.files import read_json
from tuneplane.runs import attempt as left
from tuneplane.runs.folder import CANCEL_FILE, Run
from tuneplane.runs.logs import Log, logs_of
from tuneplane.runs.status import Job, Status
from tuneplane.runs.waiting import cap, last_record

FIRST_BYTES, OTHER_BYTES = 1 << 20, 1 << 17
"""How much of the end of a log is read: of the node that failed first and of the script, and of each other."""
MOST_LOGS = 64


@dataclass(frozen=True)
class Text:
    """The end of a log. file: its path in the run folder; node: the rank of its node, None for the script's own."""

    file: str
    node: int | None
    lines: tuple[str, ...]


def plain(*words: str) -> str:
    """A command line of `tp`."""
    return shlex.join(["tp", *words])


@dataclass(frozen=True)
class Facts:
    """A run, how it stands and what it left. record: the last attempt's `exit.json`; last: that attempt's number, 0 for
    none; most: the last one that the run may begin, 0 for any; beat: when it was heard last, in
    unix seconds; texts: ends of logs, the one that counts most first;
    hosts: names of the nodes by rank; tp: how a
    command line of `tp` is spelled for this site.
    """

    run: str
    plan: dict[str, Any]
    status: Status
    job: Job
    record: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    beat: int | None = None
    phase: str = ""
    cancelled: dict[str, Any] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()
    hosts: dict[int, str] = field(default_factory=dict)
    last: int = 0
    most: int = 0
    scheduler: str = "slurm"
    job_id: str = ""
    tp: Callable[..., str] = plain

    @property
    def directives(self) -> dict[str, str]:
        """The script's own directives that matter to a queue."""
        return {d["name"]: d["value"] or "" for d in self.plan.get("directives", [])}

    @property
    def place(self) -> str:
        """Where it failed, ` on rank 3 of node 1 (n2)`; empty when nobody knows."""
        return left.verdict_sentence({**self.verdict, "message": ""}) if self.verdict.get("code") else ""

    @property
    def logs(self) -> str:
        """The command that shows the log of the node that failed first."""
        node = self.verdict.get("node")
        many = isinstance(node, int) and self.plan.get("topology", {}).get("nodes", 1) > 1
        return self.tp("job", "logs", self.run, *(["--node", str(node)] if many else []))


def gather(run: Run, status: Status, job: Job, tp: Callable[..., str] = plain) -> Facts:
    """Read what the run left."""
    attempts = run.attempts()
    last = attempts[-1] if attempts else None
    verdict = left.read_verdict(last) if last else {}
    cancelled = read_json(run.folder / CANCEL_FILE)
    return Facts(
        run=run.id,
        plan=run.plan,
        status=status,
        job=job,
        record=last_record(run, attempts),
        verdict=verdict,
        refusal=left.refusal(last) if last else "",
        beat=left.heard(last) if last else None,
        phase=left.phase(last) if last else "",
        cancelled=cancelled if isinstance(cancelled, dict) else {},
        texts=_texts(run, last, verdict),
        hosts=left.hosts(last) if last else {},
        last=int(last.name) if last else 0,
        most=cap(run),
        scheduler=str((run.job or {}).get("scheduler", run.plan.get("scheduler", "slurm"))),
        job_id=str((run.job or {}).get("id", "")),
        tp=tp,
    )


def _texts(run: Run, attempt: Path | None, verdict: dict[str, Any]) -> tuple[Text, ...]:
    """The ends of the logs: of the node that failed first, of the script, of the others, then what Slurm wrote."""
    first = verdict.get("node")
    logs = logs_of(attempt) if attempt else []
    logs.sort(key=lambda log: (log.label != str(first), log.label != "job"))
    found = []
    for number, log in enumerate(logs[:MOST_LOGS]):
        size = FIRST_BYTES if number < 2 or log.label == "job" else OTHER_BYTES
        text = _text(run, log, size)
        if text.node == first and not text.lines and isinstance(verdict.get("tail"), list):
            # its log is on a disk that is gone, or was removed
            text = Text(
                f"attempts/{log.path.parent.name}/verdict", text.node, tuple(map(str, verdict["tail"]))
            )
        found.append(text)
    if attempt and not any(text.node == first for text in found) and isinstance(verdict.get("tail"), list):
        file = f"attempts/{attempt.name}/verdict"
        found.insert(0, Text(file, first, tuple(str(line) for line in verdict["tail"])))
    job = (run.job or {}).get("id")
    if job is not None and (run.folder / f"slurm-{job}.out").exists():
        found.append(_text(run, Log("job", run.folder / f"slurm-{job}.out"), OTHER_BYTES))
    return tuple(found)


def _text(run: Run, log: Log, size: int) -> Text:
    node = int(log.label) if log.label.isdigit() else None
    return Text(str(log.path.relative_to(run.folder)), node, tuple(_end(log.path, size)))


def _end(path: Path, size: int) -> list[str]:
    """The last lines of a file, of at most `size` bytes; a progress bar's carriage returns part lines here."""
    try:
        with path.open("rb") as file:
            whole = file.seek(0, 2)
            file.seek(max(0, whole - size))
            data = file.read(size)
    except OSError:
        return []
    lines = data.decode(errors="replace").replace("\r", "\n").split("\n")
    return [line.rstrip() for line in (lines[1:] if whole > size else lines) if line.strip()]


def clock(seconds: float) -> str:
    """A time of day with its date, as the user's clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
