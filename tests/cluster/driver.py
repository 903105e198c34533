"""What is asked of a run whose driver ends where it wants a GPU that is there in name only."""

from __future__ import annotations

import re
from typing import Any

from cluster.researcher import Researcher

GPU = {"gpus_per_node": 1, "gpu_type": "h200", "memory_per_gpu": "8G", "exclusive": "never"}
"""A profile of one pretend GPU for each node."""


def ends_at(alice: Researcher, experiment: str, *milestones: str, timeout: float = 400) -> dict[str, Any]:
    """Run on two nodes; the driver fails with code 1, and its log has these patterns in this order.

    `HEAD` in a pattern is the address of the first node. Nothing is left of the cluster. Gives the run's status.
    """
    run = alice.submit(experiment, "--profile", "gpu:2")
    facts = alice.ended(run, timeout)
    log = alice.folder(f"runs/{run}/attempts/1/node-0.log").read_text(errors="replace")
    assert (facts["state"], facts["code"]) == ("failed", 1), f"{facts}\n{log}"
    hosts = [node["host"] for node in alice.record(run, "attempts/1/nodes.json")["nodes"]]
    assert hosts == ["n1", "n2"]
    verdict = alice.exit(run)["verdict"]
    assert (verdict["host"], verdict["reason"], verdict["phase"]) == ("n1", "exited", "running"), verdict
    head = re.escape(alice.cluster.spec.address("n1", alice.cluster.subnet))
    place = 0
    for pattern in milestones:
        found = re.compile(pattern.replace("HEAD", head)).search(log, place)
        assert found, f"no `{pattern}` after what stands before it:\n{log}"
        place = found.start()
    alice.assert_nothing_left()
    return facts
