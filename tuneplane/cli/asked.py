"""Runs that a command line names, and how they stand."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.errors import RunEndedBadly

if TYPE_CHECKING:
    from tuneplane.runs.folder import Run
    from tuneplane.runs.status import Status
    from tuneplane.sites.model import Site

F = TypeVar("F", bound=Callable[..., Any])

POLL_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


def pauses() -> Iterator[float]:
    """Seconds between questions to the scheduler: short at first, for short runs, then sparing a controller that
    answers a whole cluster.
    """
    pause = POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.2, LONGEST_PAUSE_SECONDS)


def run_argument(function: F) -> F:
    """RUN: a run's id, the beginning of one, or its folder."""
    return click.argument("run_word", metavar="RUN", shell_complete=complete.runs)(function)


def find(chosen: Chosen, word: str) -> tuple[Site, Run]:
    """The site and the run that the word names there. Raises InputError."""
    from tuneplane.runs.folder import find_run

    site = chosen.load().site
    return site, find_run(site, word)


def judged(site: Site, runs: list[Run]) -> list[tuple[Run, Status]]:
    """Each run with how it stands, with one question to the scheduler for all."""
    from tuneplane.runs.folder import with_job
    from tuneplane.runs.status import judge
    from tuneplane.schedulers import scheduler

    jobs = scheduler(site).jobs(runs, site) if runs else {}
    # the question may have found the job of a run that had none, or one that follows it
    known = [with_job(run) if run.job is None or jobs[run.id].state != "unknown" else run for run in runs]
    return [(run, judge(run, jobs[run.id], bound_of(site))) for run in known]


def bound_of(site: Site) -> int:
    """Seconds of silence that are death at the site."""
    from tuneplane.durations import parse_duration

    return parse_duration(site.network.heartbeat)


def status_of(site: Site, run: Run) -> Status:
    """How the run stands."""
    return judged(site, [run])[0][1]


def ended(site: Site, run: Run, told: Callable[[Status], str]) -> Status:
    """How the run stands when waiting for it is over; told: what is said meanwhile, each time that it changes."""
    from tuneplane.cli.output import note
    from tuneplane.runs.folder import read_run

    pause, said = pauses(), ""
    while True:
        status = status_of(site, read_run(run.folder) or run)
        if (now := told(status)) != said:
            said = now
            note(f"{run.id}: {said}")
        if over(status):
            return status
        time.sleep(next(pause))


def wait_for(site: Site, run: Run) -> None:
    """Return when the run has completed. Raises RunEndedBadly when it ended otherwise."""
    status = ended(site, run, lambda status: status.state)
    if status.state != "completed":
        raise RunEndedBadly.of(f"{run.id} {sentence(status)}", hint=shlex.join(["tp", "job", "why", run.id]))


def over(status: Status) -> bool:
    """Whether waiting is in vain: a scheduler that did not answer may do so later."""
    return status.final or status.state == "new" or (status.state == "unknown" and status.asked)


def sentence(status: Status) -> str:
    """How a run stands, to be read after its id: `failed with 7: …`, `cancelled while it ran`."""
    if status.why.startswith(status.state):
        return status.why
    code = f" with {status.code}" if status.state == "failed" and status.code is not None else ""
    return f"{status.state}{code}" + (f": {status.why}" if status.why else "")
