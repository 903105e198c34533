"""Training that hangs on nothing but its steps: `train.py STEPS SECONDS EVERY`, a step takes SECONDS.

A checkpoint is kept every so many steps, whole once the file `complete` lies in it, and one when it is told to stop.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

OUTPUT = Path(os.environ["TUNEPLANE_OUTPUT_DIR"])
stop: list[int] = []


def save(state: dict[str, float]) -> None:
    folder = OUTPUT / f"checkpoints/step-{state['step']}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "complete").touch()


def load() -> dict[str, float]:
    given = os.environ.get("TUNEPLANE_RESUME_FROM")
    state: dict[str, float] = (
        json.loads(Path(given, "state.json").read_text()) if given else {"step": 0, "loss": 1.0}
    )
    print(f"from step {state['step']}", flush=True)
    return state


def main(steps: int, pace: float, every: int) -> int:
    signal.signal(signal.SIGUSR1, lambda number, frame: stop.append(number))
    state = load()
    while state["step"] < steps:
        time.sleep(pace)
        step = int(state["step"]) + 1
        state = {"step": step, "loss": state["loss"] * 0.999 + 1 / (step + 7)}
        if stop:
            save(state)
            print(f"told to stop at step {step}", flush=True)
            return 75
        if step % every == 0:
            save(state)
    (OUTPUT / "result.json").write_text(json.dumps(state))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
