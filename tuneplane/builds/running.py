"""Running a build script in its work folder: on this machine, or as a job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tuneplane.builds.workshop import LOG_FILE, outcome
from tuneplane.errors import SchedulerError, TuneplaneError
from tuneplane.files import read_json
from tuneplane.runs.folder import JOB_FILE, SCRIPT_FILE, SUBMISSION_FILE, Run
from tuneplane.runs.status import Job
from tuneplane.schedulers import Wishes, scheduler
from tuneplane.schedulers.environment import clean_environment
from tuneplane.sites.model import Site

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""What a build on this machine takes over beside the allowlist; a job has those of the site's `environment`."""
POLL_SECONDS, ASK_SECONDS, END_SECONDS = 1.0, 15.0, 30.0
GONE_TIMES = 2
"""Times that Slurm must say that the job is over while nothing is heard of it: shared filesystems lag."""

Tell = Callable[[str], None]


def run_here(work: Path, tell: Tell) -> int:
    """Run the script on this machine. Returns its exit code; an interruption ends it and all it has started."""
    tell(f"building here, log: {work / LOG_FILE}")
    process = subprocess.Popen(
        ["/bin/bash", "-p", SCRIPT_FILE],
        cwd=work,
        env=clean_environment(PROXIES),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait()
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    for name, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def run_as_job(work: Path, site: Site, tell: Tell) -> int:
    """Submit the script and wait for its end. Returns its exit code; an interruption cancels the job.

    Raises SchedulerError when Slurm does not take it, or has ended it.
    """
    run = _submitted(work, site)
    job = (run.job or {}).get("id", "")
    tell(f"job {job} builds it, log: {work / LOG_FILE}")
    try:
        return _followed(run, site, tell)
    except KeyboardInterrupt:
        try:
            scheduler(site).cancel(run, site)
            tell(f"job {job} is cancelled")
        except TuneplaneError as error:
            tell(f"job {job} could not be cancelled: {error}")
        raise


def _submitted(work: Path, site: Site) -> Run:
    try:
        scheduler(site).submit(Run(work, {}), site, Wishes())
    except SchedulerError as error:
        submission = read_json(work / SUBMISSION_FILE) or {}
        if submission.get("state") == "refused":
            shutil.rmtree(work, ignore_errors=True)
            raise SchedulerError.of(error.problems[0].what) from None
        what = f"it is not known whether Slurm took the job: {submission.get('why', error)}"
        raise SchedulerError.of(what, str(work), hint="squeue --me, before the same again") from None
    return Run(work, {}, read_json(work / JOB_FILE))


def _followed(run: Run, site: Site, tell: Tell) -> int:
    """Wait for the outcome that the script writes; Slurm is asked now and then whether there is still a job."""
    asked, gone, said = time.monotonic(), 0, None
    while (code := outcome(run.folder)) is None:
        time.sleep(POLL_SECONDS)
        # the listing of a network filesystem is as old as its last look
        with suppress(OSError):
            os.listdir(run.folder)
        if time.monotonic() - asked < ASK_SECONDS:
            continue
        asked = time.monotonic()
        job = scheduler(site).jobs([run], site)[run.id]
        gone = gone + 1 if _over(job) else 0
        if gone >= GONE_TIMES and outcome(run.folder) is None:
            raise _vanished(run, job)
        if job.state == "queued" and job.note != said:
            said = job.note
            tell(f"job {(run.job or {}).get('id')} is queued" + (f", {said}" if said else ""))
    return code


def _over(job: Job) -> bool:
    return job.state == "ended" or (job.state == "unknown" and job.asked)


def _vanished(run: Run, job: Job) -> SchedulerError:
    why = job.note or "Slurm knows it no more"
    what = f"job {run.job['id'] if run.job else ''} ended before the build did: {why}"
    hint = "--time DURATION" if job.end == "timed-out" else ""
    error = SchedulerError.of(what, str(run.folder / LOG_FILE), hint=hint)
    assert isinstance(error, SchedulerError)
    return error
