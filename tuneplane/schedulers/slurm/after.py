"""A run that is to come after another one."""

from __future__ import annotations

from tuneplane.errors import InputError
from tuneplane.runs.folder import Run, read_run
from tuneplane.runs.status import judge
from tuneplane.schedulers.slurm.query import jobs
from tuneplane.sites.model import Site


def dependency(parent: Run, site: Site) -> str | None:
    """What sbatch is told to wait for; None when the parent has completed and there is nothing to wait for.

    Slurm is never asked about a job that it may have forgotten: 22.05 takes a dependency on a job it does not know,
    24.11 and 26.05 refuse it. Raises InputError when the parent will not complete any more.
    """
    found = jobs([parent], site)[parent.id]
    # the question may have found the job of an uncertain run
    parent = parent if parent.job else read_run(parent.folder) or parent
    status = judge(parent, found)
    if status.state == "completed":
        return None
    if status.state in ("queued", "running") and parent.job is not None:
        return f"afterok:{parent.job['id']}"
    why = f": {status.why}" if status.why else ""
    raise InputError.of(
        f"nothing can come after {parent.id}, which is {status.state}{why}",
        "--after",
        "a run that is queued, running or completed",
        f"tp job status {parent.id}",
    )
