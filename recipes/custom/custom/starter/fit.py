"""Fit a logistic regression to points made from a seed: an example that needs no package.

Every node fits the same model here; only node 0 reports metrics and writes the model.
"""

# ruff: noqa: UP006, UP035 (an image may hold a Python as old as 3.8)
import argparse
import json
import math
import os
import random
from typing import Any, List, Tuple

try:
    from tuneplane import report
except ImportError:  # tried by hand, outside a job
    report = None  # type: ignore[assignment]

Points = List[Tuple[List[float], int]]


def make_points(count: int, seed: int) -> Points:
    """Points of a plane, labelled by the side of a line they lie on, with a little noise."""
    draw = random.Random(seed)
    points = []
    for _ in range(count):
        x = [draw.gauss(0, 1), draw.gauss(0, 1)]
        side = 2 * x[0] - x[1] + 0.5 + draw.gauss(0, 0.3)
        points.append((x, int(side > 0)))
    return points


def logit(weights: List[float], x: List[float]) -> float:
    return weights[0] + weights[1] * x[0] + weights[2] * x[1]


def descend(weights: List[float], points: Points, learning_rate: float) -> Tuple[List[float], float]:
    """The weights after one step down the whole gradient, and the mean loss before it in nats."""
    gradient, loss = [0.0, 0.0, 0.0], 0.0
    for x, label in points:
        z = max(-500.0, min(500.0, logit(weights, x)))  # exp stays finite
        error = 1 / (1 + math.exp(-z)) - label
        loss += math.log1p(math.exp(-abs(z))) + max(z, 0.0) - z * label
        for i, feature in enumerate([1.0, *x]):
            gradient[i] += error * feature
    moved = [weights[i] - learning_rate * gradient[i] / len(points) for i in range(3)]
    return moved, loss / len(points)


def accuracy(weights: List[float], points: Points) -> float:
    return sum((logit(weights, x) > 0) == bool(label) for x, label in points) / len(points)


def write_json(path: str, value: Any) -> None:
    """Written aside and renamed, so that `path` is never half a file."""
    with open(path + ".tmp", "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
    os.replace(path + ".tmp", path)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit a logistic regression", allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.steps < 1:
        parser.error("--steps must be at least 1")
    if not 0 < args.learning_rate < math.inf:
        parser.error("--learning-rate must be above 0")
    return args


def main() -> None:
    args = parse_args()
    is_head = os.environ.get("TUNEPLANE_NODE_RANK", "0") == "0"
    reporter = report if is_head else None
    train, validation = make_points(400, args.seed), make_points(200, args.seed + 1)
    if reporter:
        reporter.init(vars(args))
    weights = [0.0, 0.0, 0.0]
    for step in range(1, args.steps + 1):
        weights, loss = descend(weights, train, args.learning_rate)
        if step % 20 == 0 or step == args.steps:
            right = accuracy(weights, validation)
            print(f"step {step} loss {loss:.4f} accuracy {right:.4f}", flush=True)
            if reporter:
                reporter.log({"train/loss": loss, "validation/accuracy": right}, step)
    if is_head:
        path = os.path.join(os.environ.get("TUNEPLANE_OUTPUT_DIR", "."), "model.json")
        write_json(path, {"weights": weights, "accuracy": right, "steps": args.steps})
        print("wrote " + path, flush=True)
    if reporter:
        reporter.finish()


if __name__ == "__main__":
    main()
