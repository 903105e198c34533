"""How long a run takes to start on several nodes, beside scripts that a person would write by hand. As root.

    python benchmarks/launch.py [ROUNDS]

Makes a cluster of three nodes on this machine and measures, by turns, ROUNDS (default 5) times each: seconds from the
release of a held job to the last of six ranks under torchrun, and to tasks having run on all three nodes of a Ray
cluster. By hand: the least script that starts the same container and torchrun, and `ray symmetric-run`. Printed are
medians, their ratio and their difference.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.researcher import Researcher

GOAL = 1.0
DIRECTIVES = """\
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=2 --mem=4G --output=slurm-%j.out
export OUT="$PWD/output"
mkdir -p "$OUT"
start() { srun --mpi=none --kill-on-bad-exit=1 bash -c "$1"; }
"""
TORCHRUN = """
start 'exec apptainer -s exec --cleanenv --pid --bind /shared --env TUNEPLANE_OUTPUT_DIR="$OUT" IMAGE \\
    torchrun --nnodes 3 --nproc-per-node 2 --node-rank "$SLURM_PROCID" --rdzv-backend static \\
    --rdzv-endpoint HEAD:29500 --rdzv-id "$SLURM_JOB_ID" train.py touch'
"""
RAY = """
start 'exec apptainer -s exec --cleanenv --pid --bind /shared --env TUNEPLANE_OUTPUT_DIR="$OUT" \\
    --env RAY_ADDRESS=HEAD:6379 --env RAY_AUTH_MODE=disabled IMAGE \\
    ray symmetric-run --address HEAD:6379 --min-nodes 3 --num-cpus 2 -- python3 driver.py spread'
"""


def by_hand(alice: Researcher, script: str, image: str, program: Path) -> tuple[str, Path]:
    """A held job of a script that a person would write, in a folder with a plain name, and its output folder."""
    folder = f"/shared/by-hand-{time.monotonic_ns()}"
    head = alice.cluster.spec.address("n1", alice.cluster.subnet)
    alice.write(f"{folder}/{program.name}", program.read_bytes())
    text = DIRECTIVES + script.replace("IMAGE", image).replace("HEAD", head)
    words = ["sbatch", "--parsable", "--hold", alice.write(f"{folder}/job.sh", text)]
    done = alice.cluster.run("login", words, user="alice", cwd=folder, check=True)
    return str(done.stdout).strip(), alice.folder(f"{folder}/output")


def ours(alice: Researcher, name: str, image: str, *words: str) -> tuple[str, Path]:
    """A held run of an experiment, and its output folder."""
    run = alice.submit(name, "--profile", "cpu:3", "--image", image, "--hold", "--", *words)
    return alice.record(run, "job.json")["id"], alice.folder(f"runs/{run}/output")


def started(alice: Researcher, job: str, output: Path, names: list[str]) -> float:
    """Seconds from the job's release to the last of these files; comes back when the nodes are free again."""
    from tests.cluster.harness.tools import until

    begun = time.time()
    alice.slurm("scontrol", "release", job)
    until(lambda: all((output / name).exists() for name in names), f"job {job} is up", 120)
    last = max((output / name).stat().st_mtime for name in names)
    until(lambda: not alice.slurm("squeue", "-h", "-j", job, "-t", "R,PD,CG").strip(), "it is over", 120, 0.2)
    alice.cluster.wait_idle()
    return last - begun


def compare(what: str, rounds: int, act: Callable[[bool], float]) -> None:
    """Print the medians of both ways, taken by turns, the first turn of each left out."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds + 1):
        for own in (True, False):
            times[own].append(act(own))
    mine, theirs = (statistics.median(times[own][1:]) for own in (True, False))
    print(
        f"{what}: {mine:.2f} s, by hand {theirs:.2f} s: ratio {mine / theirs:.2f}, {mine - theirs:+.2f} s"
        f"   goal {GOAL:+.0f} s"
    )
    print(f"    each: {_each(times[True])}; by hand {_each(times[False])}", flush=True)


def _each(times: list[float]) -> str:
    return " ".join(f"{one:.2f}" for one in times)


def main() -> None:
    """Print both comparisons."""
    from tests.cluster.harness import Cluster
    from tests.cluster.harness.images import RAYS, in_host, ray_sif, torch_sif
    from tests.cluster.researcher import player

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    toys = Path(__file__).resolve().parents[1] / "tests/catalog_toy/toy"
    torch, ray = in_host(torch_sif()), in_host(ray_sif(RAYS[-1]))
    with Cluster() as cluster:
        alice = player(cluster)
        for name in ("torchrun", "ray"):
            alice.experiment(name, method=f"toy/{name}")
        ranks = [f"up-{rank}" for rank in range(6)]

        def torchrun(own: bool) -> float:
            program = toys / "torchrun/starter/train.py"
            made = (
                ours(alice, "torchrun", torch, "touch") if own else by_hand(alice, TORCHRUN, torch, program)
            )
            return started(alice, *made, ranks)

        def cluster_of_ray(own: bool) -> float:
            program = toys / "ray/starter/driver.py"
            made = ours(alice, "ray", ray, "spread") if own else by_hand(alice, RAY, ray, program)
            return started(alice, *made, ["world.json"])

        compare("six ranks of torchrun on three nodes", rounds, torchrun)
        compare(f"tasks on three nodes of Ray {RAYS[-1]}", rounds, cluster_of_ray)


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root), str(root / "tests")]
    main()
