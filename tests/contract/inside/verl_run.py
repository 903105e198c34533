"""verl's own configuration for many commands at once: JSON requests on stdin, one JSON answer for each.

It runs in an interpreter that has what verl needs but a GPU and an inference engine.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

from serve import serve  # noqa: E402, I001 - before anything prints

import verl  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from short_hydra import composed, overridden, without_hydra  # noqa: E402
from verl.trainer.ppo.reward import load_reward_manager, resolve_reward_manager_cls  # noqa: E402
from verl.trainer.ppo.utils import need_critic, need_reference_policy  # noqa: E402
from verl.trainer.ppo.v1 import get_trainer_cls  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass, validate_config  # noqa: E402
from verl.utils.tracking import Tracking  # noqa: E402
from verl_calls import TOKENIZER, advantages, filter_groups, loss, reward  # noqa: E402

COMPUTED = ("advantages", "rollout_is_weights", "response_mask")
FOLDER = str(Path(verl.__file__).parent / "trainer/config")


class Unchecked(Exception):
    """What could not be asked here, and why."""


def reinforced(config: Any) -> dict[str, list[float]]:
    """What `main_ppo` checks before it starts workers, and what fails in it later. Gives what is computed on the way."""
    validate_config(config, need_reference_policy(config), need_critic(config))
    parts = config.actor_rollout_ref
    sections = [parts.rollout, as_actor(parts.ref), parts.model, config.algorithm]
    sections += [config.critic] if need_critic(config) else []
    for section in sections:
        instantiated(section)
    distillation = omega_conf_to_dataclass(config.distillation) if config.distillation.enabled else None
    batch = advantages(config)
    loss(batch, omega_conf_to_dataclass(parts.actor), distillation)
    resolve_reward_manager_cls(config)
    if config.reward.reward_manager.name == "remote":
        raise Unchecked(
            "the reward manager `remote` is looked up and not made: it starts workers in a Ray cluster"
        )
    rewarded = reward(load_reward_manager(config, TOKENIZER))
    if config.trainer.use_v1:
        trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
        trainer._init_resource_pool_mgr()
        filter_groups(trainer.replay_buffer, rewarded)
    return {key: batch.batch[key].flatten().tolist() for key in COMPUTED if key in batch.batch}


def as_actor(reference: Any) -> Any:
    """The section of the reference model with an actor's names, as `ActorRolloutRefWorker.init_model` reads it."""
    renamed = OmegaConf.to_container(reference)
    for name in ("micro_batch_size", "micro_batch_size_per_gpu", "max_token_len_per_gpu"):
        renamed[f"ppo_{name}"] = renamed.pop(f"log_prob_{name}")
    renamed["use_dynamic_bsz"] = renamed.pop("log_prob_use_dynamic_bsz")
    return OmegaConf.create(renamed)


_sound: set[str] = set()


def instantiated(section: Any) -> None:
    """A section as upstream's dataclass, which checks it; not again for one that is as it was."""
    content = json.dumps(OmegaConf.to_container(section), sort_keys=True)
    if content not in _sound:
        omega_conf_to_dataclass(section)
        _sound.add(content)


def supervised(config: Any) -> dict[str, list[float]]:
    """What `sft_trainer` checks before it loads data and model."""
    from verl.trainer.sft_trainer import SFTTrainer

    trainer = SFTTrainer.__new__(SFTTrainer)
    trainer.config, trainer.rank = config, 0
    trainer._build_config()
    for frequency in (config.trainer.save_freq, config.trainer.test_freq):
        1 % frequency  # as in `fit`
    return {}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """`values`: what upstream has at each key; `error`: why it would not start; `unchecked`: what cannot be asked."""
    found: dict[str, Any] = {"values": {}, "error": "", "unchecked": ""}
    os.environ.update(request["environment"])
    name, words, keys = request["config"], request["words"], request["keys"]
    try:
        config = overridden(FOLDER, name, words)
        found["values"] |= {key: plain(config, key) for key in keys if key.startswith("hydra.")}
        without_hydra(config)
        if request["whole"] and config != without_hydra(composed(FOLDER, name, words)):
            raise RuntimeError("the short way of composing is not Hydra's")
        if name == "ppo_trainer":
            OmegaConf.resolve(config)  # as the driver does
        found["values"] |= {key: plain(config, key) for key in keys if not key.startswith("hydra.")}
        if unknown := set(config.trainer.logger) - set(Tracking.supported_backend):
            raise ValueError(f"no tracker is called {unknown}")
        found["computed"] = (reinforced if name == "ppo_trainer" else supervised)(config)
    except Unchecked as error:
        found["unchecked"] = str(error)
    except Exception as error:
        text = " | ".join(str(part).strip() for part in (error, error.__cause__) if part)
        if "vllm version None" in text:
            found["unchecked"] = (
                "get_vllm_max_lora_rank holds lora_rank against vllm's own table, and vllm is not here"
            )
        else:
            found["error"] = f"{type(error).__name__}: {text}"
    return found


def plain(config: Any, key: str) -> Any:
    value = OmegaConf.select(config, key, throw_on_missing=True)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


serve(answer)
