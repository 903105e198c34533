"""Rewards of answers: 1 for the right result, 0 for a wrong one. This file is yours: change what you like.

OpenRLHF calls `reward_func` for each answer, on the nodes that sample, with lists of one item. By hand:
`python -c "import reward; print(reward.score('it is 42', '42'))"`.
"""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
SPECIAL = re.compile(r"<\|[^<>|]*\|>|</?s>")


def reward_func(queries: list[str], prompts: list[str], labels: list[Any]) -> dict[str, Any]:
    """queries: prompts with their answers, special tokens and all; labels: what the column `label_key` holds.

    rewards: what training maximizes; scores: from 0 to 1, for dynamic_filtering; extra_logs: further curves. Each
    is a tensor with one number for each query. An error raised here only shows in the log, and the run ends because
    an answer has no reward.
    """
    import torch

    found = [
        score(answer(query, prompt), label)
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]
    rewards = torch.tensor(found, dtype=torch.float32)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"right": rewards}}


def answer(query: str, prompt: str) -> str:
    """What the model wrote. A prompt that was cut to its room is no beginning of the query."""
    written = query[len(prompt) :] if query.startswith(prompt) else query
    return SPECIAL.sub(" ", written)


def score(text: str, label: Any) -> float:
    """1.0 where the result in `text` is the label's, else 0.0."""
    wanted = label.get("ground_truth") if isinstance(label, dict) else label
    return float(plain(result(text)) == plain(str(wanted)) != "")


def result(text: str) -> str:
    """What the last `\\boxed{…}` holds, and without one the last number."""
    _, found, rest = text.rpartition("\\boxed{")
    if found:
        return inside(rest)
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else ""


def inside(text: str) -> str:
    """The text before the brace that closes the one before it."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return text[:place]
    return ""


def plain(text: str) -> str:
    """The same spelling for the same result: `1,000.0` and ` 1000 `."""
    text = text.strip().rstrip(".").replace(",", "").replace("$", "").replace(" ", "")
    try:
        return repr(float(text))
    except ValueError:
        return text
