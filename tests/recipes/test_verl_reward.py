"""The reward function that verl's starters bring."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPES = Path(__file__).parents[2] / "recipes/verl"
STARTERS = sorted(RECIPES.glob("*/starter/reward.py"))


@pytest.fixture(scope="module")
def reward() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reward", STARTERS[0])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_method_that_scores_answers_brings_the_same_one() -> None:
    methods = {path.parent.parent.name for path in STARTERS}
    scoring = {path.parent.name for path in RECIPES.glob("*/recipe.yaml")} - {"sft"}
    assert methods == scoring
    assert len({path.read_bytes() for path in STARTERS}) == 1


@pytest.mark.parametrize(
    ("answer", "truth", "score"),
    [
        ("It is 12.", "12", 1.0),
        ("First 3, then 1,234.50 in all", 1234.5, 1.0),
        ("so 3/4 of it", "0.75", 1.0),
        (r"Thus \boxed{\frac{1}{2}} as wanted, step 3", r"\frac{1}{2}", 1.0),
        (r"\boxed{3} no, \boxed{4}", "4", 1.0),
        (r"\boxed{3} no, \boxed{4}", "3", 0.0),
        ("a\n#### 42\nmore 7", "42", 1.0),
        ("the answer is -7", "7", 0.0),
        ("#### Paris.", "paris", 1.0),
        ("25%", "25", 1.0),
        ("7/0", "7", 0.0),
        (r"\boxed{unclosed 5", "5", 1.0),
        ("no number", "1", 0.0),
        ("", "", 0.0),
    ],
)
def test_the_last_answer_counts(reward: ModuleType, answer: str, truth: Any, score: float) -> None:
    found = reward.compute_score("source", answer, truth, extra_info={"index": 1}, num_turns=2)
    assert found == {"score": score, "acc": score}
