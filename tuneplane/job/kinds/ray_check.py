"""Run beside Ray's head by the interpreter that has Ray: waits until the cluster is what the job has.

Its argument is JSON: the nodes, the CPUs and GPUs of all of them together, for how many seconds to look, and the
file for the answer, one sentence when the cluster falls short.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any, Dict, List

LOOK_SECONDS = 0.1


def main() -> int:
    """0 when the cluster is whole, 1 when it was not in time."""
    ray = importlib.import_module("ray")
    question = json.loads(sys.argv[1])
    until = time.monotonic() + float(question["seconds"])
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR", configure_logging=False)
    while True:
        problem = shortfall([node for node in ray.nodes() if node["Alive"]], question)
        if not problem or time.monotonic() > until:
            break
        time.sleep(LOOK_SECONDS)
    ray.shutdown()
    if problem:
        with open(question["answer"], "w", encoding="utf-8") as file:
            file.write(problem)
    return 1 if problem else 0


def shortfall(alive: List[Dict[str, Any]], question: Dict[str, Any]) -> str:
    """What the living nodes lack against what the job has, or what they have too much; empty when nothing."""
    # Ray says another address for loopback; the port of the node manager is the node's own in any case.
    seen = {(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in alive}
    ports = {port for _, port in seen}
    missing = [
        node
        for node in question["nodes"]
        if (node["address"], node["port"]) not in seen
        and not (node["address"].startswith("127.") and node["port"] in ports)
    ]
    bound = f"within {question['seconds']:.0f} s"
    if missing:
        names = ", ".join(f"{node['rank']} ({node['host']})" for node in missing)
        return f"node{'s' * (len(missing) > 1)} {names} did not join the Ray cluster {bound}"
    if len(alive) != len(question["nodes"]):
        return f"the Ray cluster has {len(alive)} nodes, but the job has {len(question['nodes'])}"
    for name, key in (("CPU", "cpus"), ("GPU", "gpus")):
        found = sum(int(node["Resources"].get(name, 0)) for node in alive)
        if found != question[key]:
            return f"the Ray cluster has {found} {name}s, but the job has {question[key]}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
