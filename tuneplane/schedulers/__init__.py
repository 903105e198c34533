"""Schedulers behind one small protocol, listed in one table."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from tuneplane.errors import SiteError
from tuneplane.runs.folder import Run
from tuneplane.runs.status import JobState
from tuneplane.sites.model import Site


class Scheduler(Protocol):
    """What `tp` asks of a scheduler."""

    def submit(self, run: Run, site: Site) -> None:
        """Hand the run over and write its `job.json`. Raises SchedulerError; then no job exists."""

    def states(self, runs: list[Run]) -> dict[str, JobState]:
        """Run id → state of its job, with one query for any number of runs."""

    def cancel(self, run: Run) -> None:
        """Ask the job to end. Raises SchedulerError."""


_SCHEDULERS = {"local": "tuneplane.schedulers.local"}


def scheduler(site: Site) -> Scheduler:
    """The site's scheduler. Raises SiteError for one that this `tp` compiles for and cannot drive."""
    if site.scheduler not in _SCHEDULERS:
        raise SiteError.of(
            f"this tp compiles scripts for {site.scheduler} and does not submit them",
            hint="tp compile EXP > job.sbatch",
        )
    return cast(Scheduler, import_module(_SCHEDULERS[site.scheduler]))
