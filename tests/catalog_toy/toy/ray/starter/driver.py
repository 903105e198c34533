"""Drivers of a Ray cluster, by their first word.

spread      one task on every node, and the head writes where each ran
wait        an actor on every node, and a driver that never ends
exit CODE   the driver ends with CODE once tasks have run
actor CODE  the process of an actor on the last node ends with CODE, and the driver with it
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

OUTPUT = Path(os.environ["TUNEPLANE_OUTPUT_DIR"])
SEEN = ("TUNEPLANE_NODE_RANK", "TUNEPLANE_NODES", "RAY_AUTH_MODE")


@ray.remote(num_cpus=1)
def about() -> dict[str, object]:
    foreign = sorted(name for name in os.environ if name.startswith(("SLURM_", "PMI", "PMIX_")))
    return {"host": socket.gethostname(), "foreign": foreign} | {n: os.environ.get(n) for n in SEEN}


@ray.remote(num_cpus=1)
class Worker:
    def ready(self) -> str:
        return socket.gethostname()

    def end(self, code: int) -> None:
        os._exit(code)


def nodes() -> list[dict[str, object]]:
    return [node for node in ray.nodes() if node["Alive"]]


def on(node: dict[str, object]) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id=str(node["NodeID"]), soft=False)


def write(name: str, facts: object) -> None:
    part = OUTPUT / f".{name}"
    part.write_text(json.dumps(facts))
    part.rename(OUTPUT / name)


def main(what: str, code: int = 0) -> int:
    ray.init()
    alive = nodes()
    facts = ray.get([about.options(scheduling_strategy=on(node)).remote() for node in alive])
    resources = [{k: v for k, v in node["Resources"].items() if k in ("CPU", "GPU")} for node in alive]  # type: ignore[attr-defined]
    world = {"alive": len(alive), "tasks": facts, "resources": resources, "version": ray.__version__}
    write("world.json", world | {"address": os.environ["RAY_ADDRESS"]})
    if what in ("spread", "exit"):
        return code
    workers = [Worker.options(scheduling_strategy=on(node)).remote() for node in alive]
    hosts = ray.get([worker.ready.remote() for worker in workers])
    write("up", hosts)
    if what == "actor":
        last = workers[hosts.index(max(hosts))]
        try:
            ray.get(last.end.remote(code))
        except ray.exceptions.RayActorError:
            return code
    time.sleep(600)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
