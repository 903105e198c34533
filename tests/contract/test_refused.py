"""What makes a method what it is, what tp sets and what upstream ignores is refused wherever it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from contract.bench import Bench
from contract.cases import Case
from contract.frameworks.table import FRAMEWORKS, METHODS
from contract.named import methods

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, Problem, TuneplaneError
from tuneplane.plan.build import make_plan
from tuneplane.plan.inputs import Request

Benches = Callable[[str, str], Bench]
WAYS = ("params", "overrides", "--set")


def written(bench: Bench, key: str, value: str, way: str) -> Problem:
    """What is said of a key that is written in a way; the experiment has no other fault."""
    base = FRAMEWORKS[bench.recipe.framework].base(bench.recipe)
    case = Case(
        "written",
        {**base, key: value} if way == "params" else base,
        more={"overrides": {key: value}} if way == "overrides" else {},
    )
    with pytest.raises(TuneplaneError) as caught:
        make_plan(bench.inputs(case, Request(settings=((key, value),) if way == "--set" else ())))
    assert caught.value.exit_code == InputError.exit_code
    (problem,) = caught.value.problems
    assert f"`{key}`" in problem.what
    assert problem.where == (f"--set {key}" if way == "--set" else f"exp/config.yaml:1 {way}.{key}")
    return problem


def tries(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each pinned key with its own value, with those that other methods have, and with one that none has."""
    for key, value in recipe.pinned.items():
        if key not in recipe.owned:
            yield from ((key, text) for text in {value, "none at all", *recipe.elsewhere.get(key, {})})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("method", "version"), METHODS)
def test_a_pinned_key_is_refused_and_the_method_named_that_would_do_it(
    method: str, version: str, way: str, bench: Benches
) -> None:
    this = bench(method, version)
    for key, value in tries(this.recipe):
        other = this.recipe.elsewhere.get(key, {}).get(value)
        hint = written(this, key, value, way).hint
        assert hint == (
            f"tp new NAME --method {other}" if other and other != method else f"tp methods {method}"
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("method", "version"), METHODS)
def test_a_key_that_tp_sets_is_refused_with_what_sets_it(
    method: str, version: str, way: str, bench: Benches
) -> None:
    this = bench(method, version)
    for key, owned in this.recipe.owned.items():
        assert written(this, key, "1", way).expected == owned.by


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("method", "version"), METHODS)
def test_a_key_that_upstream_ignores_is_refused_with_the_one_it_heeds(
    method: str, version: str, way: str, bench: Benches
) -> None:
    this = bench(method, version)
    for key in this.recipe.ignored:
        assert "does not heed" in written(this, key, "1", way).what


def test_an_estimator_leads_to_the_method_that_has_it(bench: Benches) -> None:
    """Every estimator that makes a method of a framework is known to its other methods."""
    for framework, key in {"verl": "algorithm.adv_estimator", "openrlhf": "algo.advantage.estimator"}.items():
        version = FRAMEWORKS[framework].versions[0]
        its = {name: bench(name, version).recipe for name in methods() if name.startswith(f"{framework}/")}
        pinned = {recipe.pinned[key] for recipe in its.values() if key in recipe.pinned}
        for name, recipe in its.items():
            if key in recipe.pinned:
                assert pinned <= recipe.elsewhere[key].keys(), name


@pytest.mark.parametrize("version", FRAMEWORKS["verl"].versions)
def test_a_text_that_upstream_would_fill_in_is_refused(version: str, bench: Benches) -> None:
    """main_ppo resolves its configuration and reads it again, so that no escape holds."""
    this = bench("verl/grpo", version)
    for case in (
        Case("a parameter", {"prompt_key": "a ${x}"}),
        Case("a list", {"lora_target_modules": ["q", "${x}"], "lora_rank": 8}),
        Case("a path", {"tokenizer": "/elsewhere/${x}"}),
        Case("an override", {}, more={"overrides": {"trainer.project_name": "${x}"}}),
    ):
        with pytest.raises(InputError, match=r"\$\{"):
            this.compiled(case)
