"""What Slurm says of jobs: one squeue for all of a user's, then sacct for those squeue has forgotten."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuneplane.errors import SchedulerError
from tuneplane.runs.folder import Run, read_run
from tuneplane.runs.status import Job
from tuneplane.schedulers import Queued
from tuneplane.schedulers.slurm.commands import ask, cluster_option
from tuneplane.schedulers.slurm.record import accept, claimed
from tuneplane.sites.model import Site

_SEPARATOR = "\x1f"

QUEUED = frozenset("PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT".split())
RUNNING = frozenset(
    "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED EXPEDITING UPDATE_DB".split()
)
_ENDS: dict[str, Literal["", "cancelled", "timed-out", "failed"]] = {
    "COMPLETED": "",
    "FAILED": "",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timed-out",
    "DEADLINE": "timed-out",
    "NODE_FAIL": "failed",
    "PREEMPTED": "failed",
    "BOOT_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "REVOKED": "failed",
}
"""Every base state and flag of Slurm 26.05 (src/common/slurm_protocol_defs.c); any other is `unknown`."""


@dataclass(frozen=True)
class Row:
    """One job as Slurm shows it; only fields that cannot hold a separator, the working folder last."""

    job: str
    state: str
    reason: str
    folder: str


class CannotAsk(Exception):
    """Slurm did not answer; the text says why."""


def queue(site: Site, cluster: str = "", user: int | None = None) -> list[Row]:
    """All jobs of a user (a uid, this one by default) that the controller still knows. Raises CannotAsk."""
    # fields are separated by a character that no name holds; the job's name is not asked for, it holds anything
    form = _SEPARATOR.join(("%A", "%T", "%r", "%Z"))
    answer = ask(
        site,
        [
            "squeue",
            "--noheader",
            "--states=all",
            f"--user={os.getuid() if user is None else user}",
            f"--format={form}",
            *cluster_option(cluster),
        ],
    )
    if not answer.good:
        raise CannotAsk(f"squeue: {answer.last_words}")
    return list(_rows(answer.out))


def everyone(site: Site) -> list[Queued]:
    """Jobs of all users that wait or run, as far as this user may see them. Raises SchedulerError."""
    form = _SEPARATOR.join(("%A", "%u", "%Z"))
    answer = ask(site, ["squeue", "--noheader", f"--format={form}"])
    if not answer.good:
        raise SchedulerError.of(f"squeue: {answer.last_words}")
    rows = (line.split(_SEPARATOR, 2) for line in answer.out.splitlines())
    return [Queued(*row) for row in rows if len(row) == 3]


def accounted(site: Site, ids: Iterable[str], cluster: str = "", user: int | None = None) -> list[Row]:
    """Those of `ids` that the accounting knows of a user; none where there is no accounting. Raises CannotAsk.

    Their folders are as the accounting stores them, see `stored`.
    """
    fields = "JobIDRaw,State,Reason,WorkDir"
    answer = ask(
        site,
        [
            "sacct",
            "--noheader",
            "--parsable2",
            f"--delimiter={_SEPARATOR}",
            "--allocations",
            "--duplicates",
            f"--user={os.getuid() if user is None else user}",
            f"--jobs={','.join(ids)}",
            f"--format={fields}",
            *cluster_option(cluster),
        ],
    )
    if answer.good:
        return list(_rows(answer.out))
    if "disabled" in answer.err or (answer.status is None and "cannot run" in answer.err):
        return []
    raise CannotAsk(f"sacct: {answer.last_words}")


def _rows(text: str) -> Iterable[Row]:
    for line in text.split("\n"):
        parts = line.split(_SEPARATOR)
        if len(parts) == 4 and parts[0].isdigit():
            # `CANCELLED by 1000` names who; flags follow with a comma
            yield Row(parts[0], parts[1].split(" ")[0].split(",")[0].rstrip("+"), parts[2], parts[3])


def jobs(runs: list[Run], site: Site) -> dict[str, Job]:
    """Run id → its job. A job id is believed only when its working folder is the run's."""
    found = {run.id: Job("unknown", note="it was never handed to Slurm") for run in runs}
    for cluster, members in _by_cluster(runs).items():
        try:
            found |= _of_cluster(members, site, cluster)
        except CannotAsk as error:
            found |= {run.id: Job("unknown", note=str(error), asked=False) for run in members}
    return found


def _by_cluster(runs: list[Run]) -> dict[str, list[Run]]:
    clusters: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.job is not None or run.submission.get("state") == "uncertain":
            clusters[str((run.job or {}).get("cluster", ""))].append(run)
    return clusters


def _of_cluster(runs: list[Run], site: Site, cluster: str) -> dict[str, Job]:
    rows = queue(site, cluster)
    by_folder = {row.folder: row.job for row in rows}
    found: dict[str, Job] = {}
    missing: list[Run] = []
    for run in runs:
        if run.job is None and (job := claimed(run) or by_folder.get(str(run.folder), "")):
            accept(run, job, cluster)
            run = read_run(run.folder) or run
        row = _newest(rows, run, str(run.folder))
        if row is None and run.job is not None and (job := claimed(run)) not in ("", run.job["id"]):
            # what sbatch, or a wrapper of it, printed was not the job's id
            accept(run, job, cluster)
            run = read_run(run.folder) or run
            row = _newest(rows, run, str(run.folder))
        if row is not None:
            found[run.id] = _job(row)
        elif run.job is not None:
            missing.append(run)
    known = accounted(site, [run.job["id"] for run in missing if run.job], cluster) if missing else []
    for run in missing:
        row = _newest(known, run, stored(run.folder))
        found[run.id] = _job(row) if row else Job("unknown")
    return found


def _newest(rows: list[Row], run: Run, folder: str) -> Row | None:
    """The last row of the run's job in `folder`; a requeued job has a row for each start in the accounting."""
    if run.job is None:
        return None
    matching = [row for row in rows if row.job == run.job["id"] and row.folder == folder]
    return matching[-1] if matching else None


def stored(folder: Path) -> str:
    """A folder as the accounting stores it: slurmctld writes a backtick for each double quote (seen on 24.11)."""
    return str(folder).replace('"', "`")


def _job(row: Row) -> Job:
    if row.state in QUEUED:
        return Job("queued", note=f"waiting: {row.reason}" if row.reason not in ("", "None") else "")
    if row.state in RUNNING:
        return Job("running")
    if row.state not in _ENDS:
        return Job("unknown", note=f"Slurm says {row.state}")
    end = _ENDS[row.state]
    if row.reason == "DependencyNeverSatisfied":
        return Job("ended", end, "the run it was to come after did not complete")
    return Job("ended", end, f"Slurm says {row.state}" if end else "")
