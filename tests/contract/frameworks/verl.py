"""verl: which values go with which, its documented variants, and the interpreter that runs its real configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from contract.frameworks.companions import USUAL, beside, each, one_gpu, same, together
from contract.frameworks.runs import Program
from contract.values import FILE, LARGE, MODEL
from kept import kept_interpreter, kept_wheel

from tuneplane.catalog.recipe import Recipe

NEEDS = ("verl==0.9.1", "torch==2.13.0")
"""What both releases run with: 0.9.1 asks for all that 0.9.0 does."""
UNDECLARED = ("TransferQueue", "uvicorn", "fastapi", "cachetools", "pyzmq", "msgspec")
"""What verl imports and its wheel does not ask for."""
REJECTIONS = {"token_k1": "0.5_2.0", "seq_max_k2": "3.0", "token_k1,seq_mean_k3": "0.5_2.0,3.0"}
"""Rejections and bounds of theirs."""
_IN_REWARD = beside(use_kl_in_reward=True, use_kl_loss=False)
_IN_LOSS = beside(use_kl_loss=True, use_kl_in_reward=False)
_SHORT = beside(
    sequence_parallel_size=2,
    max_prompt_length=1,
    max_response_length=1,
    max_length=1,
    overlong_buffer_enable=False,
)
_FIXED = one_gpu(use_dynamic_bsz=False, train_batch_size=same, ppo_mini_batch_size=same, agent_workers=2)
_BY_SEQUENCE = {"loss_agg_mode": "seq-mean-token-mean"}
_LOSSES: dict[Any, dict[str, Any]] = {
    "bypass_mode": {"rollout_bypass_mode": True, "rollout_correction_loss": "ppo_clip"},
    "dro": {"dro_beta": 0.1},
    "gspo": _BY_SEQUENCE,
    "sapo": _BY_SEQUENCE,
}


class Verl:
    name = "verl"
    versions = ("0.9.0", "0.9.1")
    values: Mapping[str, list[Any]] = {
        "agent_workers": [1, 2, 256],
        "custom_reward_name": ["compute_score"],
        "custom_reward_path": [FILE],
        "critic_model": [MODEL],
        "lora_rank": [0, 8, 512],
        "rollout_is_threshold": ["2.0", "0.5_5.0", "1e3"],
        "rollout_rs": list(REJECTIONS),
        "rollout_rs_threshold": list(REJECTIONS.values()),
        "rollout_tensor_parallel_size": [1, 2, 16],
        "sequence_parallel_size": [1, 2, 16],
        "teacher_tensor_parallel_size": [1, 2, 8],
        "tokenizer": [MODEL],
    }
    companions = together(
        each("train_batch_size", one_gpu(ppo_mini_batch_size=same, agent_workers=2)),
        each("ppo_mini_batch_size", one_gpu(train_batch_size=same, agent_workers=2)),
        each("ppo_micro_batch_size_per_gpu log_prob_micro_batch_size_per_gpu", _FIXED),
        each("critic_micro_batch_size_per_gpu micro_batch_size_per_gpu", _FIXED),
        each("ppo_max_token_len_per_gpu log_prob_max_token_len_per_gpu max_token_len_per_gpu", _SHORT),
        each("critic_max_token_len_per_gpu rollout_max_model_len teacher_max_model_len", _SHORT),
        each("max_response_length", beside(overlong_buffer_enable=False)),
        each("overlong_buffer_len", beside(max_response_length=same)),
        each("lora_rank lora_alpha lora_target_modules", beside(lora_rank=8, rollout_backend="sglang")),
        each("loss_scale_factor", beside(loss_agg_mode="seq-mean-token-sum-norm")),
        each("clip_ratio_low", beside(clip_ratio_high=same)),
        each("clip_ratio_high", beside(clip_ratio_low=same)),
        each("clip_cov_ratio clip_cov_lb clip_cov_ub", beside(policy_loss_mode="clip-cov")),
        each("clip_cov_lb", beside(clip_cov_ub=lambda value: 2 * abs(value) + 10)),
        each("clip_cov_ub", beside(clip_cov_lb=lambda value: -2 * abs(value) - 1)),
        each("kl_cov_ratio ppo_kl_coef", beside(policy_loss_mode="kl-cov")),
        each("dro_beta", beside(policy_loss_mode="dro")),
        each("tau_pos tau_neg", beside(policy_loss_mode="sapo", **_BY_SEQUENCE)),
        each("policy_loss_mode", lambda value: _LOSSES.get(value, {})),
        each("rollout_correction_loss", beside(policy_loss_mode="bypass_mode", rollout_bypass_mode=True)),
        each("rollout_is", beside(use_policy_gradient=True)),
        each(
            "rollout_is_threshold rollout_is_batch_normalize",
            beside(rollout_is="token", use_policy_gradient=True),
        ),
        each("rollout_rs", beside(rollout_rs_threshold=REJECTIONS.get)),
        each(
            "rollout_rs_threshold", beside(rollout_rs={text: name for name, text in REJECTIONS.items()}.get)
        ),
        each("kl_coef kl_penalty kl_ctrl_type use_kl_in_reward", _IN_REWARD),
        each("kl_target kl_horizon", _IN_REWARD),
        each("kl_target kl_horizon", beside(kl_ctrl_type="adaptive")),
        each("kl_loss_coef kl_loss_type use_kl_loss", _IN_LOSS),
        each("min_lr_ratio", beside(lr_scheduler_type="cosine")),
        each("custom_reward_name", beside(custom_reward_path=FILE)),
        each("custom_reward_path", beside(custom_reward_name="compute_score")),
        each("val_rollouts_per_prompt", beside(val_temperature=1.0)),
        each("distill_loss_mode", beside(use_policy_gradient=lambda value: value in ("k1", "kl"))),
        each("distill_topk log_prob_min_clamp", beside(distill_loss_mode="forward_kl_topk")),
        each("distill_clip_ratio_low", beside(use_policy_gradient=True, distill_clip_ratio_high=same)),
        each("distill_clip_ratio_high", beside(use_policy_gradient=True, distill_clip_ratio_low=same)),
        each("distillation_loss_coef", beside(use_task_rewards=True, rollouts_per_prompt=2)),
        each("use_task_rewards", beside(rollouts_per_prompt=2)),
        each("seed", beside(full_determinism=True)),
    )

    changes: Mapping[str, Callable[[Any], Any]] = {}
    alone = frozenset({"reward_manager=remote"})
    unchecked = "what vLLM, SGLang and TensorRT-LLM make of their arguments: none of them runs without a GPU"

    def base(self, recipe: Recipe) -> dict[str, Any]:
        return {"teacher_model": "/models/it's a teacher"} if "teacher_model" in recipe.parameters else {}

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "an override", {"more": {"overrides": {"trainer.project_name": "it's, {a} = [project]"}}}
        yield from USUAL
        yield (
            "LoRA, sampled by vLLM",
            {"lora_rank": 32, "lora_alpha": 64, "lora_target_modules": ["q_proj", "v_proj"]},
        )
        if recipe.config.index == "ppo_trainer":
            yield from self._reinforced(recipe)

    def _reinforced(self, recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "a key of an open section", {"more": {"overrides": {"reward.reward_kwargs.note": "it's, {a}"}}}
        yield "LoRA with sglang", {"lora_rank": LARGE, "rollout_backend": "sglang"}
        for level, bounds in product(("token", "sequence"), ("2.0", "0.5_5.0")):
            kind = "IcePop" if "_" in bounds else "TIS"
            yield f"{kind} of a {level}", self.one("rollout_is", level) | {"rollout_is_threshold": bounds}
        if recipe.name == "verl/grpo":  # all methods share the losses, and each is tried with each of them
            modes = set(recipe.parameters["policy_loss_mode"].choices) - {
                "gspo",
                "sapo",
            }  # which have one aggregation
            for mode, aggregation in product(sorted(modes), recipe.parameters["loss_agg_mode"].choices):
                yield (
                    f"{mode} with {aggregation}",
                    self.one("policy_loss_mode", mode) | {"loss_agg_mode": aggregation},
                )
        if "norm_adv_by_std_in_grpo" in recipe.parameters:
            yield "Dr.GRPO", {"norm_adv_by_std_in_grpo": False, "loss_agg_mode": "seq-mean-token-sum-norm"}
        for mode in (
            recipe.parameters["distill_loss_mode"].choices if "distill_loss_mode" in recipe.parameters else []
        ):
            yield f"{mode} as a reward", {"distill_loss_mode": mode, "use_policy_gradient": True}

    def one(self, name: str, value: Any) -> dict[str, Any]:
        """A value with what belongs beside it."""
        return {**self.companions[name](value), name: value}

    def program(self, version: str) -> Program:
        """Raises Unavailable."""
        python = kept_interpreter("verl-venv", [*NEEDS, *UNDECLARED], "2 GB")
        return Program(python, "verl_run.py", path=kept_wheel(f"verl=={version}"))
