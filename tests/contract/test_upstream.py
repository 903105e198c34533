"""Every method on every release against the real package: accepted, and every value read back equal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from contract import report
from contract.bench import CATALOG, Bench
from contract.cases import Case
from contract.frameworks.runs import Program
from contract.frameworks.table import FRAMEWORKS, METHODS, RELEASES
from contract.keys import TABLES
from contract.named import methods, named
from contract.suite import Outcome, request

Tried = Callable[[str, str], list[Outcome]]


@pytest.mark.torch
@pytest.mark.parametrize(("method", "version"), METHODS)
def test_upstream_takes_every_value_and_has_it(
    method: str, version: str, tried: Tried, bench: Callable[[str, str], Bench]
) -> None:
    found, parameters = tried(method, version), bench(method, version).recipe.parameters
    offered = named(method, version).keys() & parameters.keys()
    unchecked = FRAMEWORKS[method.split("/")[0]].unchecked
    report.tell(method, version, len(parameters), len(offered), found, unchecked)
    faults = [outcome.fault for outcome in found if outcome.fault]
    assert not faults, "\n".join(faults)
    assert {name for outcome in found for name in outcome.case.about} == parameters.keys()


@pytest.mark.parametrize(("method", "version"), METHODS)
def test_every_parameter_that_has_a_name_is_offered_under_it(
    method: str, version: str, bench: Callable[[str, str], Bench]
) -> None:
    offered = {name: parameter.path for name, parameter in bench(method, version).recipe.parameters.items()}
    faults = [
        f"{method} on {version}: {name} is to reach {key} and "
        + (f"reaches {offered[name]}" if name in offered else "is not offered")
        for name, key in named(method, version).items()
        if offered.get(name) != key
    ]
    assert not faults, "\n".join(faults)


def test_every_method_and_release_of_the_catalog_is_tried() -> None:
    entries = {name: entry for name, entry in CATALOG.entries.items() if name.split("/")[0] in FRAMEWORKS}
    assert set(methods()) == entries.keys()
    assert {(name, version) for name, entry in entries.items() for version in entry.versions} == set(METHODS)
    assert {(table.framework, version) for table in TABLES for version in table.versions} == set(RELEASES)


def group_advantages(outcome: Outcome, size: int) -> list[float]:
    """The advantages of the first prompt's answers."""
    assert not outcome.fault
    return list(outcome.answer.computed["advantages"])[:size]


@pytest.mark.torch
@pytest.mark.parametrize("version", FRAMEWORKS["openrlhf"].versions)
def test_no_std_norm_leaves_the_deviation_of_a_group_out(version: str, tried: Tried) -> None:
    """Rewards are 0, 1, 2, 3: their mean is 1.5, their deviation 1.29."""
    found = tried("openrlhf/grpo", version)
    assert group_advantages(only(found, "starter"), 4) == pytest.approx([-1.16, -0.39, 0.39, 1.16], abs=0.01)
    assert group_advantages(only(found, "Dr.GRPO"), 4) == pytest.approx([-1.5, -0.5, 0.5, 1.5])


@pytest.mark.torch
@pytest.mark.parametrize("version", FRAMEWORKS["verl"].versions)
def test_dr_grpo_leaves_the_deviation_of_a_group_out(version: str, tried: Tried) -> None:
    """Rewards of the first prompt are 1 and 0; an answer has three tokens, of which each has the advantage."""
    found = tried("verl/grpo", version)
    assert group_advantages(only(found, "starter"), 6) == pytest.approx([0.707] * 3 + [-0.707] * 3, abs=0.01)
    assert group_advantages(only(found, "Dr.GRPO"), 6) == pytest.approx([0.5] * 3 + [-0.5] * 3)


@pytest.mark.torch
@pytest.mark.parametrize("version", FRAMEWORKS["verl"].versions)
def test_tis_caps_weights_and_icepop_drops_them(version: str, tried: Tried) -> None:
    found = tried("verl/grpo", version)
    capped, dropped = (only(found, f"{kind} of a token").answer.computed for kind in ("TIS", "IcePop"))
    assert min(capped["rollout_is_weights"]) > 0 and max(capped["rollout_is_weights"]) <= 2.0
    assert all(weight == 0 or 0.5 <= weight <= 5.0 for weight in dropped["rollout_is_weights"])
    assert "rollout_is_weights" not in only(found, "starter").answer.computed


@pytest.mark.torch
@pytest.mark.parametrize("version", FRAMEWORKS["verl"].versions)
def test_dapo_has_its_four_tricks(version: str, tried: Tried) -> None:
    values = only(tried("verl/dapo", version), "starter").answer.values
    assert (
        values["actor_rollout_ref.actor.clip_ratio_high"] > values["actor_rollout_ref.actor.clip_ratio_low"]
    )
    assert values["algorithm.filter_groups.enable"] is True and values["algorithm.filter_groups.metric"]
    assert values["actor_rollout_ref.actor.loss_agg_mode"] == "token-mean"
    assert values["reward.reward_manager.name"] == "dapo"
    assert values["reward.reward_kwargs.overlong_buffer_cfg.enable"] is True
    assert values["reward.reward_kwargs.max_resp_len"] == values["data.max_response_length"]


BAD = {
    "verl/grpo": {
        "data.no_such_key=1": "Could not override",
        "+algorithm.no_such_key=1": "unexpected keyword argument",
        "algorithm.adv_estimator=reinforce++": "Unknown advantage estimator",
        "algorithm.adv_estimator=remax": "reward_baselines",
        "actor_rollout_ref.actor.policy_loss.loss_mode=clip-cov": "Unsupported loss mode",
        "actor_rollout_ref.actor.loss_agg_mode=token": "loss_agg_mode",
        "actor_rollout_ref.actor.kl_loss_type=full": "NotImplementedError",
        "actor_rollout_ref.rollout.mode=sync": "has been removed",
        "actor_rollout_ref.actor.use_dynamic_bsz=false": "set at least one of",
        "algorithm.rollout_correction.rollout_is=no": "Invalid rollout_is",
        "reward.reward_manager.name=no": "Unknown reward manager",
        "reward.custom_reward_function.name=no": "no",
    },
    "verl/dapo": {
        "algorithm.filter_groups.metric=no": "missing DAPO metric",
        "reward.reward_kwargs.max_resp_len=1": "max_resp_len must be larger",
    },
    "verl/sft": {
        "optim.learning_rate=1": "Could not override",
        "optim.lr_scheduler_type=no": "AssertionError",
        "trainer.save_freq=0": "ZeroDivisionError",
    },
    "openrlhf/sft": {
        "--actor.model_name_or_path=m": "no flag",
        "--train.micro=4": "no flag",
        "--ckpt.save_hf=true": "ignored explicit argument",
        "--lr_warmup_ratio=much": "invalid float",
    },
    "openrlhf/grpo": {
        "--algo.advantage.estimator=grpo": "invalid choice",
        "--rollout.n_samples_per_prompt=1": "requires n_samples_per_prompt > 1",
        "--vllm.num_engines=3": "must be equal to",
        "--rollout.batch_size=1": "number of sample batches",
        "--actor.dual_clip=0.5": "dual_clip must be",
        "--reward.overlong_buffer_len=100000": "must be >=",
        "--train.partial_rollout_enable": "requires --train.async_enable",
    },
}


@pytest.mark.torch
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_upstream_is_asked_in_earnest(
    framework: str, bench: Callable[[str, str], Bench], program: Callable[[str, str], Program]
) -> None:
    """Each word behind a starter's own is refused, with a reason that only upstream can have."""
    its = FRAMEWORKS[framework]
    version = its.versions[-1]
    bad = [(method, word) for method in BAD if method.startswith(f"{framework}/") for word in BAD[method]]
    asked = []
    for method, word in bad:
        this = bench(method, version)
        compiled = this.compiled(Case("starter", its.base(this.recipe)))
        asked.append(request(this, dataclasses.replace(compiled, words=[*compiled.words, word])))
    for (method, word), answer in zip(bad, program(framework, version).answers(asked), strict=True):
        assert BAD[method][word] in answer.error, word


def only(found: Sequence[Outcome], name: str) -> Outcome:
    (outcome,) = (each for each in found if each.case.name == name)
    return outcome
