"""Ranks that waited for each other in vain, and networks that broke."""

from __future__ import annotations

from tuneplane.durations import spoken
from tuneplane.runs.why import symptoms
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.reason import Reason
from tuneplane.runs.why.symptoms import every, search, where

MOST_NAMED = 8
_NETWORK = "a network error, or a rank that died: `tp doctor --job` tries the nodes' network"


def broken(facts: Facts) -> Reason | None:
    """What went wrong between ranks, None when nothing did."""
    return _late(facts) or _network(facts)


def _late(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.COLLECTIVE)
    if found is None:
        return None
    waiting = {f.rank for f in every(facts, symptoms.COLLECTIVE) if f.rank is not None}
    name = f" ({found.match[1]})" if found.match[1] else ""
    bound = f" within {spoken(int(found.match[2]) // 1000)}" if found.match[2] else ""
    missing = set(range(world_size(facts))) - waiting
    if waiting and missing and len(missing) <= len(waiting):
        who = f"{_ranks(missing)} never came, {_ranks(waiting)} waited"
        look = f"find what {_ranks(missing)} did last: "
    else:
        who = f"{_ranks(waiting)} waited" if waiting else "nobody says which rank was late"
        look = "find the rank that did something else or died: "
    return Reason(
        "collective timeout",
        f"a collective operation{name} did not end{bound}: {who}",
        f"{look}`{facts.tp('job', 'logs', facts.run)}`",
        found.evidence,
    )


def _network(facts: Facts) -> Reason | None:
    if found := search(facts, symptoms.NETWORK):
        kind = found.match[0] if found.match[0].lower().startswith("nccl") else "NCCL error"
        return Reason(
            "network", f"the ranks lost each other ({kind}){where(facts, found)}", _NETWORK, found.evidence
        )
    if found := search(facts, symptoms.PEERS):
        return Reason("network", f"the ranks lost each other{where(facts, found)}", _NETWORK, found.evidence)
    return None


def world_size(facts: Facts) -> int:
    """How many ranks the launch has."""
    made = facts.plan.get("topology", {})
    return int(made.get("nodes", 0)) * int(made.get("processes_per_node", 0))


def _ranks(ranks: set[int]) -> str:
    named = [str(rank) for rank in sorted(ranks)]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return ("rank " if len(named) == 1 else "ranks ") + ", ".join(named[:MOST_NAMED]) + more
