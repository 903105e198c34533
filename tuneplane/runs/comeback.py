"""Whether a run can be started once more."""

from __future__ import annotations

from tuneplane.runs.folder import Run
from tuneplane.runs.status import Status

_NOT = {
    "completed": "has completed: `tp submit` makes a new run",
    "queued": "waits already",
    "new": "was never handed to the scheduler: `tp submit` makes a new run",
    "uncertain": "may or may not have a job: nothing is submitted before that is known",
}


def refusal(run: Run, status: Status) -> str:
    """Why the run cannot be started again as it stands, to be read after its id; empty when it can."""
    if status.state in _NOT:
        return _NOT[status.state]
    if status.state == "unknown":
        # a job that nobody knows may be there all the same when the scheduler did not answer
        return f"may have a job: {status.why}" if not status.asked else ""
    if status.state == "running" and run.plan.get("scheduler") == "slurm":
        return _stays(run)
    return ""


def _stays(run: Run) -> str:
    """Why a running job cannot go back into the queue: it would begin anew, or Slurm would not take it."""
    if not run.plan.get("resume"):
        return f"runs, and would begin from nothing: {run.plan.get('why_not') or 'it does not resume'}"
    names = {line["name"] for line in run.plan["directives"]}
    if "requeue" not in names:
        return "runs, and its script says --no-requeue: the site does not put jobs back into the queue"
    return ""
