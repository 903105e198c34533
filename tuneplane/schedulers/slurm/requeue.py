"""A run once more: its living job put back into the queue, or a new job for one that has ended.

A job may own a run folder when its id stands in `job.id`, or in `job.next` (`slurm-claim.j2`). The new one is held
until its id is written there: it could start before sbatch has answered, and would take itself for a double.
"""

from __future__ import annotations

import os
import time

from tuneplane.errors import SchedulerError
from tuneplane.files import write_json, write_whole
from tuneplane.runs.folder import CANCEL_FILE, NEXT_FILE, REQUEUE_FILE, SCRIPT_FILE, Run, read_run
from tuneplane.schedulers.slurm.commands import Answer, ask, cluster_option
from tuneplane.schedulers.slurm.query import jobs
from tuneplane.schedulers.slurm.record import accept
from tuneplane.schedulers.slurm.rows import CannotAsk, queue
from tuneplane.schedulers.slurm.submit import doubt, named_jobs, of_folder, plain_answer, refused
from tuneplane.sites.model import Site


def requeue(run: Run, site: Site) -> None:
    """Put the run's job back into the queue. Raises SchedulerError with Slurm's words when it does not do so."""
    found = jobs([run], site)[run.id]
    run = read_run(run.folder) or run
    attempts = run.attempts()
    if run.job is None or found.state != "running":
        raise SchedulerError.of(f"Slurm shows no running job of {run.id}", hint=f"tp job status {run.id}")
    wish = run.folder / REQUEUE_FILE
    # first: the script is told to end at once, and looks whether that was wished
    write_json(wish, {"attempt": len(attempts), "at": int(time.time()), "by": os.getuid()})
    cluster = str(run.job.get("cluster", ""))
    answer = ask(site, ["scontrol", *cluster_option(cluster), "requeue", _name(run, site, cluster)])
    if not answer.good:
        wish.unlink(missing_ok=True)
        raise SchedulerError.of(f"scontrol requeue: {answer.last_words}", str(run.folder))


def _name(run: Run, site: Site, cluster: str) -> str:
    """What scontrol takes for the run's job: `A_a` for a task of an array, whose number names all of it."""
    job = str((run.job or {}).get("id"))
    try:
        names = [row.name for row in queue(site, cluster) if job in (row.job, row.name)]
    except CannotAsk:
        names = []
    return next((name for name in names if name), job)


def again(run: Run, site: Site) -> None:
    """Submit the run's script again; the new job is the run's from then on.

    Raises SchedulerError when Slurm refuses it or that cannot be known; the run is what it was then.
    """
    cluster = str((run.job or {}).get("cluster", ""))
    try:
        past = {row.job for row in of_folder(run, site, cluster)}
    except CannotAsk as error:
        raise SchedulerError.of(str(error)) from None
    command = ["sbatch", "--parsable", "--hold", *cluster_option(cluster)]
    answer = ask(
        site,
        [*command, f"--chdir={run.folder}", SCRIPT_FILE],
        seconds=site.slurm.submit_timeout,
        cwd=str(run.folder),
    )
    plain = plain_answer(answer)
    job = plain[0] if plain else _looked_up(run, site, cluster, answer, past)
    write_whole(run.folder / NEXT_FILE, f"{job}\n".encode())
    accept(run, job, cluster)
    for name in (CANCEL_FILE, REQUEUE_FILE):
        (run.folder / name).unlink(missing_ok=True)
    release = ["scontrol", *cluster_option(cluster), "release", job]
    said = ask(site, release)
    if not said.good:
        raise SchedulerError.of(
            f"job {job} of {run.id} waits, but is held: {said.last_words}", hint=" ".join(release)
        )


def _looked_up(run: Run, site: Site, cluster: str, answer: Answer, past: set[str]) -> str:
    """The job that sbatch made without saying so plainly. Raises SchedulerError when there is none to be seen."""
    try:
        new = [row.job for row in of_folder(run, site, cluster) if row.job not in past]
    except CannotAsk:
        new = []
    if new:
        return min(new, key=lambda job: (job not in named_jobs(answer.out), int(job)))
    if refused(answer):
        raise SchedulerError.of(f"Slurm did not take the job: {answer.last_words}", str(run.folder))
    # were there one after all, it is held and would end at once: its id stands nowhere
    raise SchedulerError.of(
        f"it is not known whether Slurm took a new job for {run.id}: {doubt(answer)}",
        str(run.folder),
        hint="squeue --me, and scancel a held job of this run",
    )
