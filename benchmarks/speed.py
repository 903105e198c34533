"""How fast `tp` starts, reads and compiles, against a floor measured in the same run.

    python benchmarks/speed.py [RUNS]

Prints the median of RUNS (default 15) warm starts of each command in seconds, and as a multiple of
`python -c 'import click'`; then the time to render 1,000 different scripts in one process.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {"tp --help": 0.1, "tp methods": 0.3, "tp methods METHOD": 0.3, "tp compile": 0.3, "tp explain": 0.3}
SCRIPTS = 1000


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        os.chdir(folder)
        tp = [sys.executable, "-m", "tuneplane"]
        subprocess.run(
            [*tp, "new", "demo", "--method", "pytorch/image-classification"], check=True, capture_output=True
        )
        slurm = [*tp, "--site", "slurm-apptainer"]
        commands = {
            "floor": [sys.executable, "-c", "import click"],
            "tp --help": [*tp, "--help"],
            "tp methods": [*tp, "methods"],
            "tp methods METHOD": [*tp, "methods", "pytorch/image-classification"],
            "tp compile": [*slurm, "compile", "demo", "--profile", "h200:16"],
            "tp explain": [*slurm, "explain", "demo"],
        }
        medians = measure(commands, runs)
        for name, seconds in medians.items():
            goal = f"goal {GOALS[name]:.1f} s" if name in GOALS else "python -c 'import click'"
            print(f"{name:<18} {seconds:6.3f} s {seconds / medians['floor']:6.1f} x   {goal}")
        print(f"{SCRIPTS} scripts   {render_many():6.3f} s              goal 0.5 s")


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, float]:
    """Median seconds of each command; they take turns, so that a slow moment of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def render_many() -> float:
    """Seconds to render SCRIPTS plans that differ in name, placement and arguments."""
    from tuneplane.plan.inputs import Request
    from tuneplane.prepare import prepare
    from tuneplane.render.script import render
    from tuneplane.sites.load import load_site

    prepared = prepare("demo", load_site("slurm-apptainer"), Request(profile="h200:16"))
    plan, site = prepared.plan, prepared.named_site.site
    render(plan, site)
    plans = [
        dataclasses.replace(
            plan,
            provenance=dataclasses.replace(plan.provenance, experiment=f"demo-{i}"),
            topology=dataclasses.replace(plan.topology, nodes=1 + i % 64),
            words=(*plan.words, f"--seed={i}"),
        )
        for i in range(SCRIPTS)
    ]
    start = time.perf_counter()
    texts = {render(one, site) for one in plans}
    seconds = time.perf_counter() - start
    assert len(texts) == SCRIPTS, "the scripts are not all different"
    return seconds


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
