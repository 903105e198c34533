"""`sbatch`, once: a run never becomes two jobs, whatever the command, a wrapper around it or the controller does.

The run folder is the job's working folder, which squeue (`%Z`) shows: by it a submission whose end is not plain is
looked up. What cannot be looked up stays `uncertain` and is never tried again.
"""

from __future__ import annotations

import re
import time

from tuneplane.errors import SchedulerError
from tuneplane.runs.folder import SCRIPT_FILE, Run
from tuneplane.schedulers import Wishes
from tuneplane.schedulers.slurm.after import dependency
from tuneplane.schedulers.slurm.commands import Answer, ask
from tuneplane.schedulers.slurm.record import accept, claimed, note
from tuneplane.schedulers.slurm.rows import CannotAsk, Row, queue
from tuneplane.sites.model import Site

_PARSABLE = re.compile(r"([1-9][0-9]*)(?:;([A-Za-z0-9_.-]+))?", re.ASCII)
_MAYBE_SENT = re.compile(
    r"timed out|contact|connect|communicat|zero bytes|(receive|send) failure", re.IGNORECASE
)
"""sbatch ends with 1 and `Socket timed out` while a slow controller goes on to take the job (22.05 to 26.05)."""
LOOKUPS, PAUSE_SECONDS = 3, 1.0


def submit(run: Run, site: Site, wishes: Wishes) -> None:
    """Hand the run to sbatch. Raises SchedulerError when Slurm refused it, or when that cannot be known."""
    command = _command(run, site, wishes)
    # written first: a `tp` that dies from here on leaves a run that is looked up, never one that is sent again
    note(run, "uncertain", "tp ended before Slurm had answered")
    answer = ask(site, command, seconds=site.slurm.submit_timeout, cwd=str(run.folder))
    if plain := plain_answer(answer):
        accept(run, *plain)
        return
    named = named_jobs(answer.out)
    found = _lookup(run, site, named)
    if found:
        accept(run, *found)
        return
    if found is not None and refused(answer):
        note(run, "refused", f"sbatch: {answer.last_words}")
        raise SchedulerError.of(f"Slurm did not take the job: {answer.last_words}", str(run.folder))
    note(run, "uncertain", doubt(answer))
    raise SchedulerError.of(
        f"it is not known whether Slurm took {run.id}: {doubt(answer)}",
        str(run.folder),
        hint=f"tp job status {run.id}    (do not submit again before it says)",
    )


def _command(run: Run, site: Site, wishes: Wishes) -> list[str]:
    options = ["--hold"] if wishes.hold else []
    if wishes.after is not None and (condition := dependency(wishes.after, site)):
        options += [f"--dependency={condition}", "--kill-on-invalid-dep=yes"]
    return ["sbatch", "--parsable", f"--chdir={run.folder}", *options, SCRIPT_FILE]


def plain_answer(answer: Answer) -> tuple[str, str] | None:
    """Id and cluster of the job where sbatch took it and said nothing else."""
    match = _PARSABLE.fullmatch(answer.out.strip())
    return (match[1], match[2] or "") if answer.good and match else None


def named_jobs(text: str) -> dict[str, str]:
    """Job id → cluster of every line that looks like one: a site's wrapper may print more around it."""
    lines = filter(None, (_PARSABLE.fullmatch(line.strip()) for line in text.splitlines()))
    return {match[1]: match[2] or "" for match in lines}


def _lookup(run: Run, site: Site, named: dict[str, str]) -> tuple[str, str] | tuple[()] | None:
    """Id and cluster of the job whose working folder is the run's, empty without one; None when Slurm cannot be asked.

    named: what sbatch printed, which may say on which cluster to look.
    """
    for attempt in range(LOOKUPS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        try:
            for cluster in sorted({"", *named.values()}):
                ids = [row.job for row in of_folder(run, site, cluster)]
                if ids:
                    return min(ids, key=lambda job: (job not in named, int(job))), cluster
        except CannotAsk:
            return None
        if job := claimed(run):
            # it has run already, and Slurm has forgotten it
            return job, ""
    return ()


def of_folder(run: Run, site: Site, cluster: str) -> list[Row]:
    """The jobs that have the run's folder. Raises CannotAsk."""
    return [row for row in queue(site, cluster) if row.folder == str(run.folder)]


def refused(answer: Answer) -> bool:
    """Whether the job was certainly not taken, given that Slurm shows none."""
    return answer.status is not None and answer.status > 0 and not _MAYBE_SENT.search(answer.err)


def doubt(answer: Answer) -> str:
    """Why it is not known whether the job was taken."""
    if answer.status is None:
        return answer.last_words
    return f"sbatch ended with {answer.status} and named no job" if answer.good else answer.last_words
