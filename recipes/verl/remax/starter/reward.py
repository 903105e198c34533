"""Score an answer by its last number or boxed expression. This file is yours: change what you like.

verl calls `compute_score` once for each answer, in processes of its own beside the engines. `tp` freezes this file
with each submission. To take the scorers that verl brings for public data sets, picked by `data_source`, replace
everything here by `from verl.utils.reward_score import default_compute_score as compute_score`.
"""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, float]:
    """1 for the right answer, else 0.

    data_source, ground_truth and extra_info stand in the row of the data (`data_source`, `reward_model.ground_truth`,
    `extra_info`); solution_str is what the model wrote. `score` is the reward; what else is returned is tracked, and
    `acc` is what validation reports.
    """
    given = final_answer(solution_str)
    right = float(given is not None and same(given, str(ground_truth)))
    return {"score": right, "acc": right}


def final_answer(text: str) -> str | None:
    r"""What stands in the last \boxed{}, behind the last `####`, or the last number; None where there is nothing."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed
    marked = text.rpartition("####")
    if marked[1]:
        return marked[2].strip().partition("\n")[0]
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else None


def last_boxed(text: str) -> str | None:
    r"""The content of the last \boxed{…}, whose braces may hold braces."""
    start = text.rfind(r"\boxed{")
    if start < 0:
        return None
    begin, depth = start + len(r"\boxed{"), 1
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return None


def same(given: str, truth: str) -> bool:
    """Whether two answers are the same number, or the same text but for spaces, case and a final full stop."""
    left, right = as_number(given), as_number(truth)
    if left is not None and right is not None:
        return abs(left - right) <= 1e-6 * max(1.0, abs(right))
    return normalized(given) == normalized(truth)


def as_number(text: str) -> float | None:
    text = text.strip().strip("$").rstrip(".%").replace(",", "").replace(" ", "")
    upper, slash, lower = text.partition("/")
    try:
        return float(upper) / float(lower) if slash else float(upper)
    except (ValueError, ZeroDivisionError):
        return None


def normalized(text: str) -> str:
    return "".join(text.strip().strip("$").rstrip(".").lower().split())
