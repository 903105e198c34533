"""`scancel`, of a job that is certainly the run's."""

from __future__ import annotations

import os
import time

from tuneplane.errors import SchedulerError
from tuneplane.files import write_json
from tuneplane.runs.folder import CANCEL_FILE, Run, read_run
from tuneplane.schedulers.slurm.commands import ask, cluster_option
from tuneplane.schedulers.slurm.query import jobs
from tuneplane.sites.model import Site


def cancel(run: Run, site: Site) -> None:
    """Cancel the run's job. Raises SchedulerError when Slurm does not show it as this run's, or does not obey."""
    found = jobs([run], site)[run.id]
    run = read_run(run.folder) or run
    if run.job is None or found.state not in ("queued", "running"):
        raise SchedulerError.of(f"Slurm shows no live job of {run.id}", hint=f"tp job status {run.id}")
    write_json(run.folder / CANCEL_FILE, {"at": int(time.time()), "by": os.getuid()})
    answer = ask(site, ["scancel", *cluster_option(run.job.get("cluster", "")), run.job["id"]])
    if not answer.good:
        raise SchedulerError.of(f"scancel: {answer.last_words}", str(run.folder))
