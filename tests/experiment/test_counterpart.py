"""Parameters of one method in another one."""

from __future__ import annotations

from typing import Any

import pytest
from builders import config, parameter

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.recipe import Recipe
from tuneplane.experiment.counterpart import counterpart, counterparts, other_defaults, unwritten

OLD = {
    "lr": parameter("float", alias="learning_rate", default=1e-6),
    "n": parameter("int", alias="rollouts_per_prompt", default=8),
    "loss": parameter("enum", choices=["gmpo", "vanilla"], spelled={"gmpo": "geo_mean"}),
    "reward": parameter("function", function="score", function_path="x.name", path="x.path"),
    "every": parameter("duration", default="30m"),
    "layers": parameter("list", items="int"),
    "clip": parameter("float"),
    "scale": parameter("float", alias="clip_scale"),
    "on": parameter("bool", default=True),
    "url": parameter("str"),
}
NEW = {
    "learning_rate": parameter("float", default=5e-7),
    "samples": parameter("int", alias="rollouts_per_prompt", range="[2, inf)", default=8),
    "loss": parameter("enum", choices=["vanilla", "geo"], spelled={"geo": "gmpo"}),
    "reward": parameter("function", function="reward_func", path="reward", excludes=["url"]),
    "every": parameter("duration", default="1h"),
    "layers": parameter("list", items="str"),
    "clip": parameter("float", alias="clip_ratio"),
    "scale": parameter("float"),
    "on": parameter("str", default="yes"),
    "url": parameter("str"),
}


class Made:
    """A recipe as far as it counts."""

    def __init__(self, name: str, parameters: dict[str, Parameter]) -> None:
        self.name, self.parameters, self.framework = name, parameters, name.partition("/")[0]


def made(name: str, parameters: dict[str, Parameter]) -> Recipe:
    recipe: Any = Made(name, parameters)
    return recipe  # type: ignore[no-any-return]


A, B = made("a/x", OLD), made("b/y", NEW)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lr: 1e-5", ("learning_rate", "1e-5")),
        ("learning_rate: .5", ("learning_rate", ".5")),
        ("n: 0x10", ("samples", "0x10")),
        ("loss: geo_mean", ("loss", "geo")),
        ("loss: vanilla", ("loss", "vanilla")),
        ("reward: ./a.py:score", ("reward", "a.py")),
        ("reward: a.py", ("reward", "a.py")),
        ("every: 1:30:00", ("every", '"1:30:00"')),
        ("layers: [1, 0x2]", ("layers", "[1, 2]")),
        ("layers: []", ("layers", "[]")),
        ("on: TRUE", ("on", "true")),
        ("url: 'a, b'", ("url", '"a, b"')),
    ],
)
def test_a_value_for_its_counterpart(text: str, found: tuple[str, str]) -> None:
    result = counterparts(config(f"params:\n  {text}\n").params, A, B)
    assert ([(name, value) for _, name, value in result.found], result.left) == ([found], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n: 1", "samples in b/y: `1` is out of range, expected a whole number in [2, inf)"),
        ("clip: 1", "b/y has nothing of that name"),
        ("scale: 1", "b/y has nothing of that name"),
        ("gone: 1", "b/y has nothing of that name"),
        ("lr: [1]", "learning_rate in b/y: a list is no float value, expected a finite number"),
        ("lr:", "learning_rate in b/y: the value is empty, expected a finite number"),
    ],
)
def test_what_has_no_counterpart(text: str, why: str) -> None:
    result = counterparts(config(f"params:\n  {text}\n").params, A, B)
    assert (result.found, [found for _, found in result.left]) == ([], [why])


def test_two_that_do_not_go_together() -> None:
    result = counterparts(config("params: {url: x, reward: a.py, lr: 1, learning_rate: 2}").params, A, B)
    assert [name for _, name, _ in result.found] == ["url", "learning_rate"]
    assert result.left == [
        ("reward", "b/y does not take it beside url"),
        ("learning_rate", "lr is the same in b/y"),
    ]


def test_back_a_function_keeps_its_name() -> None:
    result = counterparts(config("params: {reward: a.py}").params, B, A)
    assert result.found == [("reward", "reward", '"a.py:reward_func"')]


def test_within_a_framework_a_name_is_enough() -> None:
    same = made("a/z", NEW)
    assert counterpart("clip", A, same) == "clip" and counterpart("clip", A, B) is None


def test_without_the_old_recipe_names_and_aliases_are_what_they_are() -> None:
    assert counterpart("rollouts_per_prompt", None, B) == "samples"
    assert counterpart("n", None, B) is None
    result = counterparts(config("params: {learning_rate: x, samples: 4}").params, None, B)
    assert result.found == [("samples", "samples", "4")] and len(result.left) == 1


def test_defaults_that_differ() -> None:
    assert other_defaults(A, B, config("params: {on: true}").params) == [
        ("learning_rate", "1e-06", "5e-07"),
        ("every", "30m", "1h"),
    ]


def test_a_function_that_a_default_names_counts_as_set() -> None:
    called = {**OLD, "reward": parameter("function", function="score", default="r.py", excludes=["url"])}
    old = made("a/x", called)
    found = unwritten(old, config("params: {lr: 1}").params)
    assert counterparts(found, old, B).found == [("reward", "reward", "r.py")]
    assert not unwritten(old, config("params: {reward: x.py}").params)
    assert not unwritten(old, config("params: {url: x}").params)
    assert not unwritten(A, {})
