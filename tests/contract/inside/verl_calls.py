"""verl's own estimators and losses, called once on tensors: two prompts with two answers each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import verl.trainer.ppo.v1.replay_buffer as replay_buffer
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData
from verl.protocol import DataProto
from verl.trainer.ppo.rollout_corr_helper import (
    apply_bypass_mode,
    compute_rollout_correction_and_add_to_batch,
)
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

ROWS, LENGTH = 4, 3
OF_A_MODEL = ("entropy", "distillation_losses", "student_mass", "teacher_mass")
TOKENS = torch.ones(ROWS, LENGTH, dtype=torch.long)


def log_probabilities(seed: int) -> torch.Tensor:
    return -torch.rand(ROWS, LENGTH, generator=torch.Generator().manual_seed(seed))


def batch_of(config: Any) -> DataProto:
    """What the trainer has when it computes advantages; the greedy answers' rewards only where it makes them."""
    rewards = torch.zeros(ROWS, LENGTH)
    rewards[:, -1] = torch.tensor([1.0, 0.0, 1.0, 1.0])
    tensors = {"token_level_rewards": rewards, "token_level_scores": rewards, "response_mask": TOKENS.clone()}
    tensors["old_log_probs"] = log_probabilities(1)
    if config.actor_rollout_ref.rollout.calculate_log_probs:
        tensors["rollout_log_probs"] = log_probabilities(2)
    if need_critic(config):
        tensors["values"] = log_probabilities(3)
    if config.algorithm.adv_estimator == "remax" and not config.trainer.use_v1:
        tensors["reward_baselines"] = torch.tensor([0.5, 0.5, 1.0, 1.0])
    return DataProto.from_dict(tensors, non_tensors={"uid": np.array(["a", "a", "b", "b"], dtype=object)})


def advantages(config: Any) -> DataProto:
    """The batch with corrections and advantages, as both trainers add them."""
    batch, algorithm = batch_of(config), config.algorithm
    if algorithm.rollout_correction.bypass_mode:
        apply_bypass_mode(batch, algorithm.rollout_correction, config.actor_rollout_ref.actor.policy_loss)
    elif "rollout_log_probs" in batch.batch:
        batch, _ = compute_rollout_correction_and_add_to_batch(batch, algorithm.rollout_correction)
    elif algorithm.rollout_correction.rollout_is or algorithm.rollout_correction.rollout_rs:
        raise ValueError("nothing corrects: the engine gives no log-probabilities")
    return compute_advantage_for_multi_trajectories(
        batch,
        batch_keys=["a_0_0", "a_1_0", "b_0_0", "b_1_0"],
        adv_estimator=algorithm.adv_estimator,
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        num_repeat=config.actor_rollout_ref.rollout.n,
        norm_adv_by_std_in_grpo=algorithm.get("norm_adv_by_std_in_grpo", True),
        config=algorithm,
    )


TOKENIZER = SimpleNamespace(decode=lambda *_, **__: "The answer is 4")


def reward(manager: Any) -> dict[str, Any]:
    """What a reward manager makes of a right answer."""
    row = {"data_source": "toy", "reward_model": {"ground_truth": "4"}, "extra_info": {"index": 0}}
    data = DataProto.from_dict(
        {"responses": TOKENS[:1], "attention_mask": torch.ones(1, 2 * LENGTH, dtype=torch.long)},
        non_tensors={key: np.array([value], dtype=object) for key, value in row.items()},
    )
    found: dict[str, Any] = manager.loop.run_until_complete(manager.run_single(data))
    return found


def filter_groups(buffer: Any, rewarded: dict[str, Any]) -> None:
    """Let the replay buffer look for the metric that decides which groups it filters, in a group of two answers."""
    scores = torch.tensor([[0.0, rewarded["reward_score"]]] * 2)
    stored = {"rm_scores": scores, "extra_fields": [{"reward_extra_info": rewarded["reward_extra_info"]}] * 2}
    replay_buffer.tq = SimpleNamespace(kv_batch_get=lambda **_: stored)
    buffer.partitions["train"] = dict.fromkeys(["a_0_0", "a_1_0"])
    buffer.finished_keys["train"] = {"a"}
    uids, _ = buffer._dapo_filtered_keys("train")
    if buffer.filter_groups_metric and uids != {"a"}:
        raise ValueError("a group whose answers are all the same is not filtered")


def loss(batch: DataProto, actor: Any, distillation: Any) -> None:
    """The loss of one update. actor, distillation: upstream's dataclasses, the second None where it is off."""
    from verl.trainer.distillation.losses import distillation_ppo_loss
    from verl.workers.utils.losses import ppo_loss

    made = dict.fromkeys(("prompts", "responses"), TOKENS)
    made["attention_mask"] = torch.ones(ROWS, 2 * LENGTH, dtype=torch.long)
    made["ref_log_prob"] = log_probabilities(4)
    kept = ("response_mask", "old_log_probs", "advantages", "rollout_is_weights")
    made |= {key: batch.batch[key] for key in kept if key in batch.batch}
    output = {key: torch.rand(ROWS * 2 * LENGTH) for key in OF_A_MODEL} | {
        "log_probs": -torch.rand(ROWS * 2 * LENGTH)
    }
    if distillation:
        rows = [-torch.rand(2 * LENGTH, 1) for _ in range(ROWS)]
        made["teacher_logprobs"] = torch.nested.nested_tensor(rows, layout=torch.jagged)
    data = TensorDict(made, batch_size=[ROWS])
    for key, value in {"dp_size": 1, "batch_num_tokens": None, "global_batch_size": None}.items():
        data[key] = NonTensorData(value)
    function = distillation_ppo_loss if distillation else ppo_loss
    settings = {"distillation_config": distillation} if distillation else {}
    value, _ = function(config=actor, model_output=output, data=data, **settings)
    if not torch.isfinite(value):
        raise ValueError(f"the loss is {value}")
