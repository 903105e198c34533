"""`sbatch`, once: a run never becomes two jobs, whatever the command, a wrapper around it or the controller does.

The run folder is the job's working folder, which squeue (`%Z`) shows: by it a submission whose end is not plain is
looked up. What cannot be looked up stays `uncertain` and is never tried again.
"""

from __future__ import annotations

import re
import time

from tuneplane.errors import SchedulerError, UsageError
from tuneplane.files import write_json
from tuneplane.runs.folder import JOB_FILE, SCRIPT_FILE, SUBMISSION_FILE, Run
from tuneplane.schedulers import Wishes
from tuneplane.schedulers.slurm.commands import SUBMIT_SECONDS, Answer, ask
from tuneplane.schedulers.slurm.query import CannotAsk, queue
from tuneplane.sites.model import Site

_PARSABLE = re.compile(r"([1-9][0-9]*)(?:;([A-Za-z0-9_.-]+))?\Z", re.ASCII)
LOOKUPS, PAUSE_SECONDS = 3, 1.0


def submit(run: Run, site: Site, wishes: Wishes) -> None:
    """Hand the run to sbatch. Raises SchedulerError when Slurm refused it, or when that cannot be known."""
    # written first: a `tp` that dies from here on leaves a run that is looked up, never one that is sent again
    _note(run, "uncertain", "tp ended before Slurm had answered")
    answer = ask(site, _command(run, wishes), seconds=SUBMIT_SECONDS, cwd=str(run.folder))
    parsed = _parsed(answer.out) if answer.good else None
    if parsed:
        _accept(run, *parsed)
        return
    found = _lookup(run, site)
    if found is not None and found:
        _accept(run, found[0], "")
        return
    if found is not None and answer.status is not None and not answer.good:
        _note(run, "refused", f"sbatch: {answer.last_words}")
        raise SchedulerError.of(f"Slurm did not take the job: {answer.last_words}", str(run.folder))
    _note(run, "uncertain", _doubt(answer))
    raise SchedulerError.of(
        f"it is not known whether Slurm took {run.id}: {_doubt(answer)}",
        str(run.folder),
        hint=f"tp job status {run.id}    (do not submit again before it says)",
    )


def _command(run: Run, wishes: Wishes) -> list[str]:
    options = []
    if wishes.hold:
        options.append("--hold")
    if wishes.after is not None:
        if wishes.after.job is None:
            raise UsageError.of(f"{wishes.after.id} has no job to wait for")
        options += [f"--dependency=afterok:{wishes.after.job['id']}", "--kill-on-invalid-dep=yes"]
    return ["sbatch", "--parsable", f"--chdir={run.folder}", *options, SCRIPT_FILE]


def _parsed(text: str) -> tuple[str, str] | None:
    """Job id and cluster from `--parsable`; a site's wrapper may print a banner before."""
    for line in reversed(text.splitlines()):
        if match := _PARSABLE.match(line.strip()):
            return match.group(1), match.group(2) or ""
    return None


def _lookup(run: Run, site: Site) -> list[str] | None:
    """Ids of the jobs whose working folder is the run's; None when Slurm cannot be asked."""
    found: list[str] = []
    for attempt in range(LOOKUPS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        try:
            found = [row.job for row in queue(site) if row.folder == str(run.folder)]
        except CannotAsk:
            return None
        if found:
            break
    return sorted(found, key=int)


def _doubt(answer: Answer) -> str:
    if answer.status is None:
        return answer.last_words
    return f"sbatch ended with {answer.status} and named no job" if answer.good else answer.last_words


def _note(run: Run, state: str, why: str) -> None:
    write_json(run.folder / SUBMISSION_FILE, {"state": state, "why": why, "at": int(time.time())})


def _accept(run: Run, job: str, cluster: str) -> None:
    write_json(
        run.folder / JOB_FILE,
        {"scheduler": "slurm", "id": job, "cluster": cluster, "submitted": int(time.time())},
    )
    (run.folder / SUBMISSION_FILE).unlink(missing_ok=True)


def adopt(run: Run, job: str, cluster: str) -> None:
    """Record the job that was found for an uncertain run."""
    _accept(run, job, cluster)
