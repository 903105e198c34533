"""What the OpenRLHF recipes tell upstream and what they refuse; their reward function, called by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from plan.cases import inputs

from tuneplane.catalog.load import SourceCatalog, load_catalog
from tuneplane.catalog.recipe import resolve
from tuneplane.errors import TuneplaneError
from tuneplane.experiment.config import Located
from tuneplane.plan.build import make_plan
from tuneplane.plan.inputs import Inputs, Request
from tuneplane.plan.model import Plan, Ref

RECIPES = Path(__file__).parents[2] / "recipes" / "openrlhf"
RL = ("grpo", "ppo", "reinforce-baseline")
SUPERVISED = ("sft", "dpo", "rm")
VERSIONS = ("0.11.0", "0.11.2")
REWARD = "def reward_func(queries, prompts, labels):\n    return {}\n"
AGENT = "class AgentExecutor:\n    pass\n"
TEMPLATE = "{{ messages }}\n"


@pytest.fixture(scope="module")
def bundled() -> SourceCatalog:
    return load_catalog()


@pytest.fixture(scope="module")
def rewards() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reward", RECIPES / "grpo/starter/reward.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def given(
    catalog: SourceCatalog, method: str, text: str = "", profile: str = "h200:8", version: str = "0.11.0"
) -> Inputs:
    """A configuration with model and data. text: parameters or overrides; a line `validation` asks for such data."""
    recipe = resolve(catalog.manifest(f"openrlhf/{method}"), version)
    validation = "validation" in text
    lines = [line for line in text.splitlines() if line and line != "validation"]
    body = "\n".join(f"  {line}" for line in lines)
    body = text if text.startswith("overrides:") else f"params:\n{body}\n" if body else ""
    located = {
        key: Located(key, path, path, exists=True)
        for key, path in (("model", "/m/base"), ("data.train", "/d/a.jsonl"), ("data.train.1", "/d/b.jsonl"))
    }
    data = (
        "{train: [/d/a.jsonl, /d/b.jsonl], validation: /d/v.jsonl}"
        if validation
        else "{train: [/d/a.jsonl, /d/b.jsonl]}"
    )
    if validation:
        located["data.validation"] = Located("data.validation", "/d/v.jsonl", "/d/v.jsonl", exists=True)
    texts = {"reward.py": REWARD, "agent.py": AGENT, "chat.jinja": TEMPLATE}
    return inputs(
        recipe,
        f"model: /m/base\ndata: {data}\n{body}",
        Request(profile=profile),
        located=located,
        texts=texts,
        has_file=frozenset(texts),
        keys={},
    )


def told(plan: Plan) -> dict[str, str]:
    """Upstream's flags: their values, and the items of a list with a blank between them."""
    found: dict[str, str] = {}
    key = ""
    for word in plan.words[plan.words.index("-m") + 2 :]:
        text = f"{word.prefix}<{word.place}>{word.suffix}" if isinstance(word, Ref) else word
        if text.startswith("--"):
            key, _, value = text[2:].partition("=")
            found[key] = value
        else:
            found[key] = f"{found[key]} {text}".strip()
    return found


def flags(
    catalog: SourceCatalog, method: str, text: str = "", profile: str = "h200:8", version: str = "0.11.0"
) -> dict[str, str]:
    return told(make_plan(given(catalog, method, text, profile, version)))


def refusals(
    catalog: SourceCatalog, method: str, text: str, profile: str = "h200:8", version: str = "0.11.0"
) -> list[str]:
    with pytest.raises(TuneplaneError) as caught:
        make_plan(given(catalog, method, text, profile, version))
    return [problem.what for problem in caught.value.problems]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("profile", ["h200:1", "h200:8", "h200:16"])
@pytest.mark.parametrize("method", [*SUPERVISED, *RL])
def test_model_data_and_reward_are_enough(
    bundled: SourceCatalog, method: str, profile: str, version: str
) -> None:
    found = flags(bundled, method, "", profile, version)
    key = "data.prompt_dataset" if method in RL else "data.dataset"
    assert found[key] == "/d/a.jsonl,/d/b.jsonl"
    assert (found["ckpt.path"], found["ckpt.output_dir"]) == ("<output>/checkpoints", "<output>/hf_export")
    assert "ckpt.load_enable" in found and "eval.dataset" not in found
    assert found["logger.tensorboard_dir"] == "<output>/tensorboard" and "logger.wandb.key" not in found


@pytest.mark.parametrize(
    ("profile", "nodes", "gpus"), [("h200:1", 1, 1), ("h200:8", 1, 8), ("h200:16", 2, 8)]
)
def test_sizes_follow_from_the_allocation(
    bundled: SourceCatalog, profile: str, nodes: int, gpus: int
) -> None:
    found = flags(bundled, "ppo", "reward_pretrain: /m/rm", profile)
    for model in ("actor", "ref", "critic", "reward"):
        assert (found[f"{model}.num_nodes"], found[f"{model}.num_gpus_per_node"]) == (str(nodes), str(gpus))
    assert found["vllm.num_engines"] == str(nodes * gpus)
    assert found["critic.model_name_or_path"] == found["reward.model_name_or_path"] == "/m/rm"


def test_without_a_reward_model_it_gets_no_gpus(bundled: SourceCatalog) -> None:
    assert not {"reward.num_nodes", "critic.num_nodes"} & flags(bundled, "grpo").keys()
    assert flags(bundled, "ppo")["critic.model_name_or_path"] == "/m/base"


def test_engines_of_several_gpus_share_them_all(bundled: SourceCatalog) -> None:
    assert flags(bundled, "grpo", "vllm_tensor_parallel_size: 4", "h200:16")["vllm.num_engines"] == "4"


def test_asynchronous_engines_have_gpus_of_their_own_and_do_not_sleep(bundled: SourceCatalog) -> None:
    found = flags(bundled, "grpo", "async_enable: true\nvllm_tensor_parallel_size: 2", "h200:16")
    assert (found["vllm.num_engines"], found["actor.num_nodes"], found["actor.num_gpus_per_node"]) == (
        "4",
        "1",
        "8",
    )
    assert "vllm.enable_sleep" not in found and "ds.enable_sleep" in found
    assert "vllm.enable_sleep" in flags(bundled, "grpo")


@pytest.mark.parametrize(
    ("method", "estimator"), list(zip(RL, ("group_norm", "gae", "reinforce_baseline"), strict=True))
)
def test_the_estimator_is_the_methods(bundled: SourceCatalog, method: str, estimator: str) -> None:
    assert flags(bundled, method)["algo.advantage.estimator"] == estimator
    what = refusals(bundled, method, "overrides: {algo.advantage.estimator: gae}")
    assert f"`algo.advantage.estimator` is what makes this method: it is always `{estimator}`" in what


def test_no_std_norm(bundled: SourceCatalog) -> None:
    grpo = flags(bundled, "grpo", "no_std_norm: true")
    assert grpo["algo.advantage.estimator"] == "dr_grpo" and "algo.advantage.no_std_norm" not in grpo
    baseline = flags(bundled, "reinforce-baseline", "no_std_norm: true")
    assert (
        baseline["algo.advantage.estimator"] == "reinforce_baseline"
        and "algo.advantage.no_std_norm" in baseline
    )


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [("reward: reward.py", "reward.remote_url", "<files>/reward.py"),
     ("remote_reward_url: 'http://a:1/r,http://b:1/r'", "reward.remote_url", "http://a:1/r,http://b:1/r"),
     ("reward_pretrain: /m/rm", "reward.model_name_or_path", "/m/rm"),
     ("agent_func_path: agent.py", "train.agent_func_path", "<files>/agent.py")],
)  # fmt: skip
def test_sources_of_rewards(bundled: SourceCatalog, text: str, key: str, value: str) -> None:
    found = flags(bundled, "grpo", text)
    assert found[key] == value and ("data.label_key" in found) == (text == "reward: reward.py")


def test_rewards_come_from_one_source(bundled: SourceCatalog) -> None:
    assert refusals(bundled, "grpo", "reward: reward.py\nreward_pretrain: /m/rm") == [
        "`reward` and `reward_pretrain` cannot both be set"
    ]
    assert refusals(bundled, "grpo", "remote_reward_url: 'http://a:1'\nagent_func_path: agent.py") == [
        "`remote_reward_url` and `agent_func_path` cannot both be set"
    ]


def test_validation(bundled: SourceCatalog) -> None:
    assert flags(bundled, "dpo", "validation")["eval.split"] == "train"
    found = flags(bundled, "grpo", "validation")
    assert (found["eval.dataset"], found["eval.split"], found["eval.steps"]) == ("/d/v.jsonl", "train", "20")
    assert refusals(bundled, "grpo", "reward_pretrain: /m/rm\nvalidation") == [
        "upstream evaluates with a reward function, a URL or an agent, not with reward_pretrain"
    ]


def test_never_evaluating_is_minus_one_everywhere(bundled: SourceCatalog) -> None:
    assert flags(bundled, "sft", "eval_steps: -1")["eval.steps"] == str(2**31 - 1)
    assert flags(bundled, "grpo", "eval_steps: -1")["eval.steps"] == "-1"
    assert "eval.steps" not in flags(bundled, "sft", "validation")


def test_lengths_of_prompt_and_answer_make_the_sequence(bundled: SourceCatalog) -> None:
    assert (
        flags(bundled, "grpo", "max_prompt_length: 512\nmax_response_length: 2048")["data.max_len"] == "2560"
    )
    assert refusals(bundled, "grpo", "max_len: 1024") == [
        "max_new_tokens leaves no room for the prompt in max_len"
    ]


@pytest.mark.parametrize(
    ("method", "text", "says"),
    [("sft", "multiturn: true\napply_chat_template: false", "multiturn needs apply_chat_template"),
     ("sft", "apply_chat_template: false", "without apply_chat_template the answers need a column of their own"),
     ("sft", "train_batch_size: 100", "train_batch_size times ring_attn_size must be a multiple"),
     ("sft", "packing_samples: true\nattn_implementation: sdpa", "packing_samples needs flash attention"),
     ("sft", "save_hf: true\nckpt_max_num: 2", "with save_hf the two folders of a step"),
     ("sft", "lora_rank: 8\nlora_target_modules: [all-linear]", "all linear layers are meant"),
     ("sft", "load_in_4bit: true", "load_in_4bit needs lora_rank"),
     ("sft", "multiturn: true\noutput_key: a", "multiturn wants the whole conversation in one column"),
     ("sft", "input_template: 'Q: {}'", "input_template is for plain text"),
     ("sft", "ring_attn_size: 2", "ring_attn_size above one needs packing_samples"),
     ("sft", "adam_offload: true\nzero_stage: 0", "adam_offload needs zero_stage 1"),
     ("sft", "save_steps: 0", "save_steps is a number of steps"),
     ("dpo", "ipo: true\nlabel_smoothing: 0.1", "label_smoothing has no effect with ipo"),
     ("dpo", "ref_offload: true", "ref_offload has an effect with zero_stage 3 alone"),
     ("rm", "margin_loss: true\nloss_type: logexp", "margin_loss goes with loss_type sigmoid"),
     ("grpo", "vllm_num_engines: 3", "vllm_num_engines times vllm_tensor_parallel_size must be the number of GPUs"),
     ("grpo", "partial_rollout: true", "partial_rollout needs async_enable"),
     ("grpo", "train_batch_size: 96", "the answers of a step, rollout_batch_size times n_samples_per_prompt, must be"),
     ("grpo", "train_batch_size: 4", "train_batch_size times ring_attn_size must be a multiple"),
     ("grpo", "rollout_micro_batch_size: 3", "the answers of a step must fill the same number of rollout micro batches"),
     ("grpo", "kl_estimator: k1", "k1 in the loss has no pull"),
     ("grpo", "eps_clip_low_high: [0.3, 0.2]", "eps_clip_low_high is how far"),
     ("grpo", "overlong_buffer_len: 4096", "overlong_buffer_len cannot exceed max_new_tokens"),
     ("grpo", "async_enable: true\nvllm_num_engines: 8", "with async_enable the engines have GPUs of their own"),
     ("grpo", "vllm_generate_batch_size: 999", "vllm_generate_batch_size is rollout_batch_size, or more with async_enable"),
     ("grpo", "dynamic_filtering_range: [1, 0]", "dynamic_filtering_range is a lower and a higher bound"),
     ("grpo", "remote_reward_url: reward.py", "remote_reward_url begins with http"),
     ("grpo", "normalize_reward: true", "normalize_reward and reward_offload go with reward_pretrain"),
     ("grpo", "policy_loss_type: gspo\nis_correction: true\nis_correction_type: icepop", "with gspo the correction takes vLLM's probabilities"),
     ("ppo", "dynamic_filtering: true", "dynamic_filtering needs a reward function")],
)  # fmt: skip
def test_what_upstream_fails_on_later_is_refused(
    bundled: SourceCatalog, method: str, text: str, says: str
) -> None:
    assert any(what.startswith(says) for what in refusals(bundled, method, text))


@pytest.mark.parametrize(
    "text",
    ["is_correction_level: seq\nis_correction_mode: clip", "is_correction_level: token\nis_correction_gating: tv", "is_correction_threshold: [2, 1]",
     "policy_loss_type: gspo\nloss_agg_mode: token-mean", "use_kl_loss: false\nkl_unbiased_gradient: true"],
)  # fmt: skip
def test_what_the_later_release_fails_on_is_refused_there(bundled: SourceCatalog, text: str) -> None:
    assert len(refusals(bundled, "grpo", text, version="0.11.2")) == 1


def test_an_unbiased_gradient_takes_any_estimator(bundled: SourceCatalog) -> None:
    found = flags(bundled, "grpo", "kl_unbiased_gradient: true\nkl_estimator: k1", version="0.11.2")
    assert "algo.kl.unbiased_gradient" in found


def test_a_chat_template_is_sent_as_text(bundled: SourceCatalog) -> None:
    assert flags(bundled, "sft", "chat_template: chat.jinja")["data.tokenizer_chat_template"] == TEMPLATE
    assert "data.tokenizer_chat_template" not in flags(bundled, "sft", "chat_template: default")


@pytest.mark.parametrize("method", RL)
def test_starters_have_the_same_reward(method: str) -> None:
    starter = RECIPES / method / "starter"
    assert (starter / "reward.py").read_bytes() == (RECIPES / "grpo/starter/reward.py").read_bytes()


@pytest.mark.parametrize(
    ("query", "label", "score"),
    [("so \\boxed{42}", "42", 1.0), ("it is 1,000.", 1000, 1.0), ("7<|im_end|>", "7.0", 1.0), ("41 or 42", "41", 0.0), ("nothing", "", 0.0),
     ("\\boxed{1} or \\boxed{\\frac{1}{2}}", "\\frac{1}{2}", 1.0), ("\\boxed{1", "1", 0.0), ("3", {"ground_truth": "3"}, 1.0), ("", None, 0.0)],
)  # fmt: skip
def test_the_reward_of_an_answer(rewards: ModuleType, query: str, label: object, score: float) -> None:
    prompt = "<|im_start|>what is 99?<|im_end|>"
    assert rewards.score(rewards.answer(prompt + query, prompt), label) == score


def test_a_prompt_that_was_cut_is_left_in_the_answer(rewards: ModuleType) -> None:
    assert rewards.answer("is 99? 42", "what is 99? ") == "is 99? 42"
