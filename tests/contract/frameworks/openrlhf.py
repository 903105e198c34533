"""OpenRLHF: which values go with which, its documented variants, and the interpreter that runs its real parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from contract.frameworks.companions import USUAL, beside, each, one_gpu, same, together
from contract.frameworks.runs import Program
from contract.frameworks.verl import NEEDS, UNDECLARED
from contract.values import FILE
from kept import kept_interpreter, kept_wheel

from tuneplane.catalog.recipe import Recipe

_BY_A_MODEL = {"reward_pretrain": "/models/it's a judge", "validation": False}
"""Upstream evaluates with a function, an address or an agent only."""
_BY_DISTANCE = {"is_correction_level": "token", "is_correction_threshold": [0.1]}
_STEP = one_gpu(rollout_batch_size=same, train_batch_size=lambda value: 8 * value, n_samples_per_prompt=8)
_UPDATE = one_gpu(rollout_batch_size=same, train_batch_size=same, n_samples_per_prompt=8)
"""Answers of one step, and those of one update of the weights: the parameter's own value, times eight for a step."""


class OpenRLHF:
    name = "openrlhf"
    versions = ("0.11.0", "0.11.2")
    values: Mapping[str, list[Any]] = {
        "adam_betas": [[0.0, 0.0], [0.9, 0.95]],
        "agent_func_path": [FILE],
        "dynamic_filtering_range": [[0.0, 1.0], [-2.5, 1e22]],
        "eps_clip_low_high": [[1e-9, 1e-9], [0.2, 0.28]],
        "input_template": ["", 'it\'s {} and "more" = $HOME \\ é 中', "{}"],
        "is_correction_threshold": [[0.5, 5.0], [0.0, 1e22]],
        "kl_coef": [0.0, 1e-9, 10.0],
        "lora_target_modules": [["q_proj"], ["q_proj", 'it\'s {a} "layer"']],
        "remote_reward_url": ["https://a host/score?it's={a}&b=$HOME", "http://one:5000,http://two:5000"],
        "reward_clip_range": [[-10.0, 10.0], [-2.5, 1e22]],
        "ring_attn_size": [1, 2, 16],
        "vllm_num_engines": [1, 2, 16],
        "vllm_tensor_parallel_size": [1, 2, 16],
    }
    companions = together(
        each("reward_pretrain", beside(validation=False)),
        each("normalize_reward", beside(**_BY_A_MODEL)),
        each("reward_offload", beside(zero_stage=3, **_BY_A_MODEL)),
        each("ref_offload", beside(zero_stage=3)),
        each("overlong_buffer_len", beside(max_new_tokens=lambda value: max(1, int(value)))),
        each("max_len", beside(max_new_tokens=lambda value: min(value - 1, 1024))),
        each("dynamic_filtering", beside(n_samples_per_prompt=8)),
        each("vllm_num_engines", beside(vllm_tensor_parallel_size=lambda value: 16 // value)),
        each("partial_rollout", beside(async_enable=True)),
        each("vllm_generate_batch_size rollout_batch_size", _STEP),
        each("train_batch_size train_micro_batch_size rollout_micro_batch_size", _UPDATE),
        each("micro_batch_size", one_gpu(train_batch_size=same)),
        each("ring_attn_size", beside(packing_samples=lambda value: value > 1)),
        each("input_template", beside(apply_chat_template=False, output_key="answer")),
        each("apply_chat_template", lambda value: {} if value else {"output_key": "answer"}),
        each("kl_estimator", beside(use_kl_loss=lambda value: value != "k1")),
        each("use_kl_loss", beside(kl_estimator=lambda value: "k3" if value else "k1")),
        each("kl_unbiased_gradient", beside(use_kl_loss=True)),
        each("is_correction_threshold", beside(is_correction=True, is_correction_level="token")),
        each("is_correction_mode", beside(is_correction_level="token")),
        each("is_correction_gating", lambda value: {} if value == "ratio" else _BY_DISTANCE),
        each("load_in_4bit lora_target_modules", beside(lora_rank=8)),
    )
    changes: Mapping[str, Callable[[Any], Any]] = {
        "algo.advantage.is_correction_threshold": lambda bounds: [0.0, *bounds][-2:],
        "reward.remote_url": lambda text: text.split(","),
    }
    alone = frozenset[str]()
    unchecked = "what DeepSpeed, flash-attn and vLLM make of their flags: none of them runs without a GPU"

    def base(self, recipe: Recipe) -> dict[str, Any]:
        return {}

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "an override", {"more": {"overrides": {"ds.grad_accum_dtype": "it's, {a} = [b]"}}}
        yield from USUAL
        yield "what Hydra would fill in", {"wandb_project": "${x}"}
        if recipe.name == "openrlhf/dpo":
            yield "IPO", {"ipo": True}
            yield "cDPO", {"label_smoothing": 0.1}
            yield "NLL", {"nll_loss_coef": 0.2}
        if recipe.config.index == "train_ppo_ray":
            yield from self._reinforced(recipe)
        else:
            yield (
                "LoRA",
                {"lora_rank": 16, "lora_alpha": 32, "lora_dropout": 0.1, "lora_target_modules": ["q_proj"]},
            )

    def _reinforced(self, recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "rewards of a model", _BY_A_MODEL
        yield "rewards of a function", {"reward": FILE}
        yield "rewards of an address", {"remote_reward_url": "http://host:5000/score"}
        yield "rewards of an agent", {"agent_func_path": FILE}
        yield "Dr.GRPO", {"no_std_norm": True}
        yield (
            "asynchronous",
            {"async_enable": True, "partial_rollout": True, "vllm_generate_batch_size": 2048},
        )
        yield "dynamic batches", {"dynamic_batch": True, "rollout_max_tokens_per_gpu": 8192}
        yield (
            "clip-higher and filtered groups",
            {"eps_clip_low_high": [0.2, 0.28], **self.companions["dynamic_filtering"](True)},
        )
        yield "GSPO", {"policy_loss_type": "gspo"}
        for kind in (
            recipe.parameters["is_correction_type"].choices if "is_correction" in recipe.parameters else []
        ):
            yield f"correction {kind}", {"is_correction": True, "is_correction_type": kind}
        if "is_correction_level" in recipe.parameters:
            for level, gating in product(("token", "seq"), ("ratio", "binary_kl", "tv")):
                bound = {} if gating == "ratio" else {"is_correction_threshold": [0.1]}
                yield (
                    f"{level} {gating}",
                    {"is_correction_level": level, "is_correction_gating": gating, **bound},
                )
            yield "token clip", {"is_correction_level": "token", "is_correction_mode": "clip"}

    def program(self, version: str) -> Program:
        """It needs torch, transformers, peft and ray, which verl's interpreter has. Raises Unavailable."""
        python = kept_interpreter("verl-venv", [*NEEDS, *UNDECLARED], "2 GB")
        return Program(python, "openrlhf_run.py", str(kept_wheel(f"openrlhf=={version}")))
