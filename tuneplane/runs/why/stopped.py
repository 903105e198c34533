"""Runs that were told to end: at their time limit, for another job, by a person, or because going on is in vain."""

from __future__ import annotations

import os
import pwd

from tuneplane.durations import spoken
from tuneplane.runs.why import symptoms
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.reason import Evidence, Reason
from tuneplane.runs.why.symptoms import every


def told_to_end(facts: Facts) -> Reason | None:
    """Who or what ended the run, None when it ended by itself."""
    cause, word = facts.record.get("cause"), facts.job.word
    if facts.job.reason == "DependencyNeverSatisfied":
        return Reason(
            "dependency impossible",
            "the run that it was to come after did not complete",
            f"see how that one ended (`{facts.tp('job', 'ls')}`), then submit again",
        )
    if cause == "preemption" or (word == "PREEMPTED" and not facts.cancelled):
        return _preempted(facts)
    if facts.status.state == "timed-out":
        return _late(facts)
    if facts.status.state == "cancelled":
        return _cancelled(facts)
    return None


def _late(facts: Facts) -> Reason:
    limit = spoken(int(facts.plan.get("seconds", 0)))
    sentence = f"the time limit of {limit} was reached{_nothing_next(facts)}"
    again = f"submit it again with a longer --time than {limit}"
    if facts.plan.get("resume"):
        again = f"{_again(facts)}: it goes on from its newest checkpoint"
    return Reason("time limit", sentence, again, _slurms_line(facts, "TIME LIMIT"))


def _preempted(facts: Facts) -> Reason:
    return Reason(
        "preemption",
        f"a job of higher priority took its nodes{_nothing_next(facts)}",
        f"{_again(facts)}, or use a partition or QOS that is not preempted",
        _slurms_line(facts, "PREEMPTION"),
    )


def _cancelled(facts: Facts) -> Reason:
    by = facts.cancelled.get("by")
    uid = str(by) if isinstance(by, int) else facts.job.by
    who = f" by {_name(uid)}" if uid else ""
    when = " while it ran" if facts.last else " before it started"
    return Reason("cancelled", f"it was cancelled{who}{when}", _again(facts), _slurms_line(facts, ""))


def _name(uid: str) -> str:
    """`you`, or who else: a name where the password database has one."""
    if not uid.isdigit():
        return uid
    if int(uid) == os.getuid():
        return "you"
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return f"uid {uid}"


def _nothing_next(facts: Facts) -> str:
    why = facts.record.get("why_next") or facts.plan.get("why_not")
    return f", and no attempt follows: {why}" if why else ""


def _again(facts: Facts) -> str:
    return f"`{facts.tp('job', 'requeue', facts.run)}` starts it again"


def _slurms_line(facts: Facts, due: str) -> Evidence | None:
    """Slurm's own line that it ended the job, for that reason."""
    lines = every(facts, symptoms.CANCELLED, script_only=True)
    found = next((f for f in lines if (f.match[3] or "").strip().startswith(due)), None)
    return found.evidence if found else None
