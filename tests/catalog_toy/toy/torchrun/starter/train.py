"""`train.py reduce`: every rank adds its number to the others' and the head writes who took part.
`train.py wait [RANK CODE]`: ranks that never end, but for one that ends with CODE once all are up.
`train.py touch`: ranks that only leave a file.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
OUTPUT = Path(os.environ["TUNEPLANE_OUTPUT_DIR"])


def reduce() -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([1.0 + RANK])
    dist.all_reduce(total)
    me = {"rank": RANK, "local": int(os.environ["LOCAL_RANK"]), "host": socket.gethostname()}
    me |= {"node": int(os.environ["TUNEPLANE_NODE_RANK"]), "total": total.item()}
    everybody: list[dict[str, object]] = [{} for _ in range(WORLD)]
    dist.all_gather_object(everybody, me)
    if RANK == 0:
        (OUTPUT / "world.json").write_text(json.dumps(everybody))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo can abort an ordinary end


def touch() -> None:
    (OUTPUT / f"up-{RANK}").touch()


def wait(rank: int = -1, code: int = 0) -> None:
    touch()
    while len(list(OUTPUT.glob("up-*"))) < WORLD:
        time.sleep(0.05)
    if rank == RANK:
        print(f"rank {RANK} gives up", flush=True)
        sys.exit(code)
    time.sleep(600)


if __name__ == "__main__":
    {"reduce": reduce, "touch": touch, "wait": wait}[sys.argv[1]](*map(int, sys.argv[2:]))
