"""Schedulers behind one small protocol, listed in one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from tuneplane.runs.folder import Run
from tuneplane.runs.status import Job
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Wishes:
    """What a submission asks of the scheduler beside the script. after: the run that must complete first."""

    after: Run | None = None
    hold: bool = False


@dataclass(frozen=True)
class Kept:
    """The scripts that the scheduler keeps for one run folder, by job. note: why there may be more, or none."""

    scripts: dict[str, bytes] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Queued:
    """A job of somebody that waits or runs, and the folder it works in."""

    id: str
    user: str
    folder: str


class Scheduler(Protocol):
    """What `tp` asks of a scheduler."""

    def check(self, site: Site, script: str, wishes: Wishes) -> list[str]:
        """Raises SiteError for what the scheduler would not take; returns what it says otherwise, as notes."""

    def submit(self, run: Run, site: Site, wishes: Wishes) -> None:
        """Hand the run over and write its `job.json`. Raises SchedulerError; then no job is known to exist."""

    def jobs(self, runs: list[Run], site: Site) -> dict[str, Job]:
        """Run id → its job, with one query for any number of runs."""

    def cancel(self, run: Run, site: Site) -> None:
        """Ask the job to end. Raises SchedulerError."""

    def explained(self, run: Run, site: Site) -> Job:
        """The run's job with all that the scheduler can tell of it; it may take more than one question."""

    def requeue(self, run: Run, site: Site) -> None:
        """End the running attempt and put the same job back into the queue. Raises SchedulerError, InputError."""

    def again(self, run: Run, site: Site) -> None:
        """Start a run that has ended once more, as a new attempt. Raises SchedulerError; then nothing has changed."""

    def everyone(self, site: Site) -> list[Queued]:
        """All users' jobs that wait or run. Raises SchedulerError."""

    def kept(self, folder: Path, job: dict[str, Any], site: Site) -> Kept:
        """What the scheduler itself keeps of the job of a run folder; job: what its `job.json` says."""


_SCHEDULERS = {"local": "tuneplane.schedulers.local", "slurm": "tuneplane.schedulers.slurm"}


def scheduler(site: Site) -> Scheduler:
    """The site's scheduler."""
    return cast(Scheduler, import_module(_SCHEDULERS[site.scheduler]))
