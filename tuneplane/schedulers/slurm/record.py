"""What is written down of a submission: that it is under way, that it is in doubt, or the job it became."""

from __future__ import annotations

import time

from tuneplane.files import write_json
from tuneplane.runs.folder import JOB_FILE, SUBMISSION_FILE, Run

CLAIM_FILE = "job.id"


def claimed(run: Run) -> str:
    """The id of the job that has started as this run, by the job's own word (`slurm-claim.j2`); empty before."""
    try:
        text = (run.folder / CLAIM_FILE).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
    return text if text.isascii() and text.isdigit() else ""


def note(run: Run, state: str, why: str) -> None:
    """Record how handing the run over stands: `uncertain` or `refused`, and why."""
    write_json(run.folder / SUBMISSION_FILE, {"state": state, "why": why, "at": int(time.time())})


def accept(run: Run, job: str, cluster: str) -> None:
    """Record the job that the run has become; cluster is empty where only one is known."""
    write_json(
        run.folder / JOB_FILE,
        {"scheduler": "slurm", "id": job, "cluster": cluster, "submitted": int(time.time())},
    )
    (run.folder / SUBMISSION_FILE).unlink(missing_ok=True)
