"""Who set which parameter, what lost, and what is refused wherever it is written."""

from __future__ import annotations

from typing import Any

import pytest
from plan.cases import plan, refused

from tuneplane.catalog.recipe import Recipe
from tuneplane.plan.inputs import Request
from tuneplane.plan.model import Setting


def setting(recipe: Recipe, key: str, text: str = "", *assignments: tuple[str, str]) -> Setting:
    made = plan(recipe, text, Request(settings=assignments))
    return next(s for s in made.settings if s.key == key)


def test_every_parameter_has_a_setting_in_the_recipes_order(tuned: Recipe) -> None:
    made = plan(tuned)
    assert [s.key for s in made.settings] == list(tuned.parameters)
    assert {s.key: (s.value, s.source) for s in made.settings if s.key in ("rate", "steps")} == {
        "rate": (0.1, "recipe default"),
        "steps": (None, "not set"),
    }


IN_FILE = "params: {rate: 0.2}"


@pytest.mark.parametrize(
    ("text", "assignments", "expected"),
    [("", [], Setting("rate", 0.1, "recipe default")),
     (IN_FILE, [], Setting("rate", 0.2, "config.yaml", "exp/config.yaml:1 params.rate", (("recipe default", "0.1", ""),))),
     ("", [("rate", "0.3")], Setting("rate", 0.3, "command line", "--set rate", (("recipe default", "0.1", ""),))),
     (IN_FILE, [("rate", "0.3")], Setting("rate", 0.3, "command line", "--set rate",
                                          (("config.yaml", "0.2", "exp/config.yaml:1 params.rate"), ("recipe default", "0.1", "")))),
     ("", [("rate", "0.3"), ("lr", "0.4")], Setting("rate", 0.4, "command line", "--set lr", (("command line", "0.3", "--set rate"), ("recipe default", "0.1", "")))),
     ("\nparams: {lr: 1e-6}", [], Setting("rate", 1e-6, "config.yaml", "exp/config.yaml:2 params.lr", (("recipe default", "0.1", ""),)))],
)  # fmt: skip
def test_precedence(tuned: Recipe, text: str, assignments: list[tuple[str, str]], expected: Setting) -> None:
    assert setting(tuned, "rate", text, *assignments) == expected


def test_a_value_equal_to_the_default_is_still_the_users(tuned: Recipe) -> None:
    found = setting(tuned, "rate", "params: {rate: 0.1}")
    assert (found.source, found.lost) == ("config.yaml", (("recipe default", "0.1", ""),))


def test_what_lost_is_written_as_a_user_would(tuned: Recipe) -> None:
    assert setting(tuned, "warmup", "params: {warmup: 2h}").lost == (("recipe default", "1h30m", ""),)
    assert setting(tuned, "sizes", "params: {sizes: []}").lost == (("recipe default", "1,2", ""),)


@pytest.mark.parametrize(
    ("text", "value"),
    [("params: {sizes: [3]}", [3]), ("params: {sizes: []}", []), ("params: {sizes: '3,4'}", [3, 4])],
)
def test_a_list_takes_the_place_of_a_list(tuned: Recipe, text: str, value: list[int]) -> None:
    assert setting(tuned, "sizes", text).value == value


UNKNOWN = "unknown parameter `{}`"
PINNED = "`trainer.algorithm` is what makes this method: it is always `ppo`"
OWNED = "`trainer.nodes` belongs to tp"
SECRET = "`hub_token` looks like a secret"
OVERRIDES = "toy/tuned takes no overrides: it has no index of upstream keys to check them against"


@pytest.mark.parametrize(
    ("key", "what"),
    [("stpes", UNKNOWN.format("stpes")), ("learning-rate", UNKNOWN.format("learning-rate")), ("trainer.algorithm", PINNED),
     ("trainer.nodes", OWNED), ("hub_token", SECRET)],
)  # fmt: skip
def test_refused_in_params_and_on_the_command_line(tuned: Recipe, key: str, what: str) -> None:
    assert refused(tuned, f"params:\n  {key}: x") == (3, [(what, f"exp/config.yaml:2 params.{key}")])
    assert refused(tuned, "", Request(settings=((key, "x"),))) == (3, [(what, f"--set {key}")])


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [("trainer.algorithm: x", "trainer.algorithm", PINNED), ("trainer: {algorithm: x}", "trainer.algorithm", PINNED),
     ("trainer: {nodes: 3}", "trainer.nodes", OWNED), ("hub_token: x", "hub_token", SECRET), ("logger: {wandb: {api_key: x}}", "logger.wandb.api_key", "`logger.wandb.api_key` looks like a secret"),
     ("learning-rate: 1", "learning-rate", "`learning-rate` has a name of its own"), ("trainer.other: 1", "trainer.other", OVERRIDES)],
)  # fmt: skip
def test_refused_in_overrides_nested_or_dotted(tuned: Recipe, text: str, key: str, what: str) -> None:
    assert refused(tuned, f"overrides:\n  {text}") == (3, [(what, f"exp/config.yaml:2 overrides.{key}")])


def test_hints_name_what_to_write(tuned: Recipe) -> None:
    from builders import problems_of

    from tuneplane.errors import InputError

    for key, expected in (
        ("stpes", "`steps`?"),
        ("learning-rate", "the name `rate`"),
        ("zzzz", "a parameter of this method"),
    ):
        with pytest.raises(InputError) as caught:
            plan(tuned, "", Request(settings=((key, "x"),)))
        assert (problems_of(caught)[0].expected, problems_of(caught)[0].hint) == (
            expected,
            "tp methods toy/tuned",
        )


def test_a_name_and_its_alias_are_one_parameter(tuned: Recipe) -> None:
    assert refused(tuned, "params:\n  lr: 0.1\n  rate: 0.2") == (
        3, [("`rate` is set twice, under its name and its alias", "exp/config.yaml:3 params.rate")])  # fmt: skip


def test_bad_values_are_all_reported_and_a_losing_one_too(tuned: Recipe) -> None:
    code, problems = refused(
        tuned,
        "params:\n  rate: 2\n  steps: 1.5\n",
        Request(settings=(("kind", "c"), ("rate", "0.5"), ("fast", "yes"))),
    )
    assert code == 3
    assert problems == [
        ("`c` is not a choice", "--set kind"), ("`yes` is neither true nor false", "--set fast"),
        ("`2` is out of range", "exp/config.yaml:2 params.rate"), ("`1.5` is not a whole number", "exp/config.yaml:3 params.steps"),
    ]  # fmt: skip


# --- rules ---


@pytest.mark.parametrize(
    ("profile", "steps", "holds"),
    [
        ("h200:8", 16, True),
        ("h200:16", 16, True),
        ("h200:16", 24, False),
        ("cpu:3", 24, True),
        ("cpu:3", 16, False),
    ],
)
def test_rules_see_the_topology(tuned: Recipe, profile: str, steps: int, holds: bool) -> None:
    request = Request(profile=profile, settings=(("steps", str(steps)),))
    if holds:
        assert plan(tuned, "", request).params["params"]["steps"] == steps
    else:
        where = f"--set steps = {steps}"
        assert refused(tuned, "", request) == (3, [("steps must be a multiple of the processes", where)])


def test_a_rule_speaks_the_users_language(tuned: Recipe) -> None:
    assert refused(tuned, "params: {steps: 3}", language="zh")[1] == [
        ("步数", "exp/config.yaml:1 params.steps = 3")
    ]


def test_rules_are_silent_where_a_value_is_wrong_already(tuned: Recipe) -> None:
    assert [what for what, _ in refused(tuned, "params: {steps: 3, rate: 9}")[1]] == ["`9` is out of range"]
    assert len(refused(tuned, "params: {steps: 3}\nresources: {profile: h100}")[1]) == 1


def test_a_rule_that_cannot_be_evaluated_is_no_crash(tuned: Recipe) -> None:
    import dataclasses

    from tuneplane.catalog.manifest import Rule, Text

    broken = dataclasses.replace(tuned, rules=[Rule(require="steps % 2 == 0", message=Text(en="even"))])
    code, problems = refused(broken)
    assert code == 3 and problems[0][0].startswith("the rule `steps % 2 == 0` cannot be evaluated: ")


# --- what the job reads ---


def test_params_hold_what_has_a_value(tuned: Recipe) -> None:
    made: dict[str, Any] = plan(tuned, "params: {note: x}\nargs: [a, b]").params
    assert made == {
        "method": "toy/tuned",
        "params": {"rate": 0.1, "fast": False, "note": "x", "kind": "a", "warmup": 5400, "sizes": [1, 2]},
        "args": ["a", "b"],
    }
