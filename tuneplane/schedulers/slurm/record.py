"""What is written down of a submission: that it is under way, that it is in doubt, or the job it became."""

from __future__ import annotations

import re
import time

from tuneplane.files import write_json
from tuneplane.runs.attempt import exit_record
from tuneplane.runs.folder import JOB_FILE, SUBMISSION_FILE, Run, before

CLAIM_FILE = "job.id"


def claimed(run: Run) -> str:
    """The id of the job that has started as this run, by the job's own word (`slurm-claim.j2`); empty before."""
    try:
        text = (run.folder / CLAIM_FILE).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
    return text if re.fullmatch(r"[0-9]+(_[0-9]+)?", text) else ""


def note(run: Run, state: str, why: str) -> None:
    """Record how handing the run over stands: `uncertain` or `refused`, and why."""
    write_json(run.folder / SUBMISSION_FILE, {"state": state, "why": why, "at": int(time.time())})


def accept(run: Run, job: str, cluster: str) -> None:
    """Record the job that the run has become; cluster is empty where only one is known. Jobs that it was before stay
    under `earlier`, the first first.
    """
    data = {"scheduler": "slurm", "id": job, "cluster": cluster, "submitted": int(time.time())}
    write_json(run.folder / JOB_FILE, data | before(run.job))
    (run.folder / SUBMISSION_FILE).unlink(missing_ok=True)


def handed_on(run: Run) -> str:
    """The id of the job that the last attempt submitted as its successor, empty without one."""
    attempts = run.attempts()
    word, _, job = str(exit_record(attempts[-1]).get("next", "") if attempts else "").partition(":")
    return job if word == "successor" and job.isascii() and job.isdigit() else ""
