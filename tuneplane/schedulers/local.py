"""The `local` scheduler: the job script runs on this machine, kept by submitit's local executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tuneplane
from tuneplane.errors import InputError, SchedulerError, SiteError, shown
from tuneplane.files import read_json, write_json
from tuneplane.runs.folder import CANCEL_FILE, JOB_FILE, Run, before
from tuneplane.runs.status import Job
from tuneplane.schedulers import Kept, Queued, Wishes
from tuneplane.schedulers.environment import clean_environment
from tuneplane.schedulers.local_job import PROCESS_FILE
from tuneplane.schedulers.processes import alive
from tuneplane.sites.model import Site

START_SECONDS = 60


def check(site: Site, script: str, wishes: Wishes) -> list[str]:
    """There is no queue here: nothing can come after another run, or be held."""
    for option, wished in (("--after", wishes.after is not None), ("--hold", wishes.hold)):
        if wished:
            raise SiteError.of(f"this site has no queue for {shown(option)}", option, "a site with Slurm")
    return []


def everyone(site: Site) -> list[Queued]:
    """There is no queue here that others could be in."""
    return []


def submit(run: Run, site: Site, wishes: Wishes) -> None:
    """Start the job's keeper in a session of its own, so that it outlives this terminal."""
    command = [sys.executable, "-m", "tuneplane.schedulers.local_job", str(run.folder)]
    # the keeper finds this very package; what the job inherits is the site's word alone
    environment = {**clean_environment(site.inherit), "PYTHONPATH": str(Path(tuneplane.__file__).parents[1])}
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=run.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            timeout=START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SchedulerError.of(f"the job's keeper did not start within {START_SECONDS} s") from None
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise SchedulerError.of(f"the job's keeper did not start: {last[0]}")
    keeper = json.loads(done.stdout)
    data = {"scheduler": "local", "id": str(keeper["pid"]), "keeper": keeper, "submitted": int(time.time())}
    write_json(run.folder / JOB_FILE, data | before(run.job))


def jobs(runs: list[Run], site: Site) -> dict[str, Job]:
    """Running while the keeper lives; what another host keeps cannot be told from here."""
    found = {}
    for run in runs:
        keeper = run.job.get("keeper") if run.job else None
        life = alive(keeper) if isinstance(keeper, dict) else None if run.job else False
        found[run.id] = Job("unknown" if life is None else "running" if life else "ended")
    return found


def cancel(run: Run, site: Site) -> None:
    """Ask the job script to end; it hands the request on and leaves its record."""
    import signal

    write_json(run.folder / CANCEL_FILE, {"at": int(time.time()), "by": os.getuid()})
    process = read_json(run.folder / PROCESS_FILE)
    if isinstance(process, dict) and alive(process):
        try:
            os.kill(process["pid"], signal.SIGTERM)
        except OSError as error:
            raise SchedulerError.of(f"cannot signal the job: {error.strerror}") from None


def explained(run: Run, site: Site) -> Job:
    """All that is known of the run's process."""
    return jobs([run], site)[run.id]


def requeue(run: Run, site: Site) -> None:
    """There is no queue here to put a running job back to."""
    raise InputError.of(
        f"{run.id} runs, and this site has no queue to put it back to", hint=f"tp job cancel {run.id}"
    )


def again(run: Run, site: Site) -> None:
    """Start the same script again; the attempt that it makes is a new one."""
    (run.folder / CANCEL_FILE).unlink(missing_ok=True)
    submit(run, site, Wishes())


def kept(folder: Path, job: dict[str, Any], site: Site) -> Kept:
    """This scheduler keeps no script: it runs the one in the run folder."""
    return Kept()
