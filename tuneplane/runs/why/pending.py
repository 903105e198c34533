"""Why a job waits: Slurm's reasons in words, and what would let it start."""

from __future__ import annotations

import re

from tuneplane.durations import spoken
from tuneplane.runs.waiting import between
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.reason import Reason
from tuneplane.runs.why.rules import RULES


def pending(facts: Facts) -> Reason:
    """Why the run's job waits."""
    found = _begins(facts) or _ruled(facts)
    again = between(facts.record, facts.last, facts.most)
    if not again:
        return found
    return Reason(found.kind, f"{again}; {found.sentence}", found.action, found.evidence)


def _begins(facts: Facts) -> Reason | None:
    if facts.job.reason != "BeginTime":
        return None
    at = facts.job.begins.replace("T", " ")
    when = f" before {at}" if at not in ("", "N/A", "Unknown") else " yet"
    if facts.last:
        return Reason(
            "requeued", f"Slurm starts a job that was requeued not{when}", "nothing; it starts by itself"
        )
    return Reason("begin time", f"it is not to begin{when}", "nothing; it starts by itself")


def _ruled(facts: Facts) -> Reason:
    reason = facts.job.reason.replace("_", " ")
    words = _words(facts)
    for rule in RULES:
        if re.fullmatch(rule.pattern, reason):
            return Reason(rule.kind, _fill(rule.sentence, words), _fill(rule.action, words))
    action = f"`scontrol show job {facts.job_id}` shows all that Slurm says of it"
    return Reason("waiting", f"Slurm says that it waits for: {facts.job.reason}", action)


def _fill(text: str, words: dict[str, str]) -> str:
    # in one pass: a value that looks like a field stays what it is
    return re.sub(r"\{(\w+)\}", lambda field: words[field[1]], text)


def _words(facts: Facts) -> dict[str, str]:
    directives = facts.directives

    def named(key: str) -> str:
        return directives.get(key) or "by default"

    begins, after = facts.job.begins.replace("T", " "), facts.job.after
    return {
        "reason": facts.job.reason,
        "job": facts.job_id,
        "asked": _asked(facts),
        "nodes": f"{directives.get('nodes', '1')} nodes",
        "time": spoken(int(facts.plan.get("seconds", 0))),
        "partition": named("partition"),
        "account": named("account"),
        "qos": named("qos"),
        "expected": f"; Slurm expects it to start at {begins}"
        if begins not in ("", "N/A", "Unknown")
        else "",
        "after": f" ({after})" if after not in ("", "(null)") else "",
        "cancel": f"`{facts.tp('job', 'cancel', facts.run)}`",
        "ls": facts.tp("job", "ls"),
    }


def _asked(facts: Facts) -> str:
    """What the job asks for: `2 nodes with 8 GPUs each in the partition gpu`."""
    made = facts.plan.get("topology", {})
    nodes = int(facts.directives.get("nodes") or made.get("nodes", 1))
    each = " each" if nodes > 1 else ""
    what = (
        f"{made['gpus_per_node']} GPUs"
        if made.get("gpus_per_node")
        else f"{made.get('cpus_per_node', 1)} CPUs"
    )
    partition = facts.directives.get("partition")
    return f"{nodes} node{'s' * (nodes > 1)} with {what}{each}" + (
        f" in the partition {partition}" if partition else ""
    )
