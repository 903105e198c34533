"""How torchrun is started on each node."""

from __future__ import annotations

from typing import List

from tuneplane.job.kinds.work import Scene

# `python -m` puts the working directory before the standard library, where a user's `json.py` would break
# torchrun itself; this does the same without. It changes nothing for the training script, which torchrun
# starts as a process of its own. Only `sys`, which is built in, may be imported before the path is clean.
LIKE_DASH_M = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import runpy; "
    "runpy.run_module('torch.distributed.run', run_name='__main__', alter_sys=True)"
)


def torchrun_words(scene: Scene) -> List[str]:
    """The command of one node; the words that were given are `train.py …` or `-m module …`.

    The static rendezvous of torch 2.13 keeps our ranks (c10d gives its own) and makes the head's address,
    which must be numeric, the MASTER_ADDR of all workers. The identity must differ between attempts. A
    failed worker ends the run: starting it again is a new attempt, not torchrun's affair.
    """
    options, place, go = scene.options, scene.place, scene.go
    pairs = [("--nnodes", str(scene.pool.nodes)), ("--nproc-per-node", str(scene.pool.processes))]
    if options.rendezvous == "static":
        pairs += [("--node-rank", str(place.rank)), ("--rdzv-backend", "static")]
    else:
        # Who is the host is said, not guessed from names; each node is reached by its address, not its name.
        host = "true" if place.rank == 0 else "false"
        pairs += [("--local-addr", scene.own), ("--rdzv-backend", "c10d"), ("--rdzv-conf", f"is_host={host}")]
    pairs += [
        ("--rdzv-endpoint", f"{go.address}:{go.launch_port}"),
        ("--rdzv-id", f"{place.run_id}-{place.attempt}"),
        ("--max-restarts", "0"),
    ]
    return [options.python, "-c", LIKE_DASH_M, *(word for pair in pairs for word in pair), *options.words]
