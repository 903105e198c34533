"""From all that is known of a run to why it stands as it does."""

from __future__ import annotations

from dataclasses import replace

from tuneplane.durations import spoken
from tuneplane.runs.why.ended import ended, lost
from tuneplane.runs.why.facts import Facts, clock
from tuneplane.runs.why.memory import exhausted
from tuneplane.runs.why.pending import pending
from tuneplane.runs.why.reason import Reason


def why(facts: Facts) -> Reason:
    """The reason, whatever the run's state."""
    state = facts.status.state
    if state == "queued":
        return pending(facts)
    if state == "running":
        return _silent(facts) if facts.status.silent else _running(facts)
    if state == "completed":
        return Reason("completed", "it completed")
    if state in ("new", "uncertain"):
        return _not_there(facts)
    if state == "unknown":
        return _vanished(facts)
    return ended(facts)


def _running(facts: Facts) -> Reason:
    since = f" since {clock(facts.status.started)}" if facts.status.started else ""
    phase = f", phase {facts.phase}" if facts.phase else ""
    return Reason(
        "running", f"it runs{since}{phase}", f"`{facts.tp('job', 'logs', facts.run, '-f')}` follows it"
    )


def _silent(facts: Facts) -> Reason:
    since = clock(facts.beat) if facts.beat else "long ago"
    sentence = (
        f"Slurm says RUNNING, and the head was heard last at {since}, {spoken(facts.status.silent)} ago"
    )
    action = (
        f"`scontrol show job {facts.job_id}` names its nodes; when one of them does not answer, "
        f"`{facts.tp('job', 'cancel', facts.run)}` and `{facts.tp('job', 'requeue', facts.run)}`"
    )
    return Reason("silent", sentence, action)


def _not_there(facts: Facts) -> Reason:
    if facts.status.state == "uncertain":
        action = "`squeue --me` shows whether there is a job; do not submit again before that is known"
        return Reason("uncertain", f"it is not known whether Slurm took it: {facts.status.why}", action)
    return Reason("not submitted", f"no job was made of it: {facts.status.why}", "mend that and submit again")


def _vanished(facts: Facts) -> Reason:
    """A run that scheduler and records both know nothing of."""
    if not facts.status.asked:
        return Reason("no answer", f"the scheduler did not answer: {facts.status.why}", "try again later")
    last = f"; it was heard last at {clock(facts.beat)}" if facts.beat else ""
    started = "" if facts.last else ", and no attempt of it has started"
    sentence = f"the scheduler does not know the job, and it left no record of its end{started}{last}"
    seen = exhausted(facts) or lost(facts)
    if seen:
        return replace(seen, kind="vanished", sentence=f"{sentence}; its log says that {seen.sentence}")
    return Reason("vanished", sentence, f"`{facts.tp('job', 'requeue', facts.run)}` starts it again")
