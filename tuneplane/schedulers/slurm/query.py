"""What Slurm says of jobs: one squeue for all of a user's, then sacct for those squeue has forgotten."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Literal

from tuneplane.runs.folder import Run, read_run
from tuneplane.runs.status import Job
from tuneplane.schedulers.slurm.record import accept, claimed, handed_on
from tuneplane.schedulers.slurm.rows import CannotAsk, Row, accounted, queue, stored
from tuneplane.sites.model import Site

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
        if run.job is not None and (job := _successor(run, rows)):
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


def _successor(run: Run, rows: list[Row]) -> str:
    """A later job of the run than the one written down: it was submitted by the last one, has started as the run,
    or was misprinted by sbatch or a wrapper of it. Empty when there is none.
    """
    job = run.job or {}
    known = {str(job.get("id")), *(str(old.get("id")) for old in job.get("earlier", []))}
    shown = {row.job for row in rows if row.folder == str(run.folder)}
    for later in (handed_on(run), claimed(run)):
        # a job that Slurm has forgotten counts when nothing is known of the other either
        if later and later not in known and (later in shown or not known & shown):
            return later
    return ""


def _newest(rows: list[Row], run: Run, folder: str) -> Row | None:
    """The last row of the run's job in `folder`; a requeued job has a row for each start in the accounting."""
    if run.job is None:
        return None
    job = str(run.job["id"])
    matching = [row for row in rows if job in (row.job, row.name) and row.folder == folder]
    return matching[-1] if matching else None


def _job(row: Row) -> Job:
    if row.state in QUEUED:
        note = f"waiting: {row.reason}" if row.reason not in ("", "None") else ""
        found = Job("queued", note=note)
    elif row.state in RUNNING:
        found = Job("running")
    elif row.state not in _ENDS:
        found = Job("unknown", note=f"Slurm says {row.state}")
    else:
        end = _ENDS[row.state]
        note = f"Slurm says {row.state}" if end else ""
        if row.reason == "DependencyNeverSatisfied":
            note = "the run it was to come after did not complete"
        found = Job("ended", end, note)
    return replace(found, word=row.state, reason=row.reason, begins=row.begins, after=row.after, by=row.by)


def explained(run: Run, site: Site) -> Job:
    """The run's job with what only the accounting knows: who cancelled it, the reason of its end."""
    job = jobs([run], site)[run.id]
    run = read_run(run.folder) or run
    if job.state != "ended" or job.by or run.job is None or not str(run.job["id"]).isdigit():
        return job
    try:
        row = _newest(accounted(site, [run.job["id"]], run.job.get("cluster", "")), run, stored(run.folder))
    except CannotAsk:
        return job
    return replace(job, by=row.by) if row else job
