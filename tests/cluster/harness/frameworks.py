"""Images with the real packages of training frameworks, as far as they go on a machine without GPU."""

from __future__ import annotations

from pathlib import Path

from .images import RAYS, TORCH, image

VERL = ("0.9.0", "0.9.1")
OPENRLHF = {"0.11.0": "0.19.5", "0.11.2": "0.19.6"}  # with the DeepSpeed that each wants

# imported by both releases of verl and declared by neither, but for an extra of the second
_UNDECLARED = ("TransferQueue", "uvicorn", "fastapi", "cachetools", "pyzmq", "msgspec")
# what pip would find after trying hundreds: tensordict holds packaging below 26, which newer virtualenvs want
_AGREED = ("packaging<26", "virtualenv<21")
_RUN = (
    "import torch.distributed.run, verl.trainer.sft_trainer, verl.trainer.main_ppo, verl.trainer.ppo.v1, "
    "verl.experimental.agent_loop, transfer_queue, tensorboard, ray.scripts.scripts"
)
_RLHF = (
    "accelerate",
    "aiohttp",
    "datasets",
    "einops",
    "jsonlines",
    "peft",
    "pylatexenc",
    "tensorboard",
    "torchdata",
)
_BUILT_FOR_GPUS = (
    "flash_attn/__init__.py",
    "flash_attn/bert_padding.py",
    "flash_attn/utils/__init__.py",
    "flash_attn/utils/distributed.py",
    "vllm/__init__.py",
    "vllm/inputs.py",
    "vllm/utils.py",
)


def verl_sif(version: str) -> Path:
    """A release of verl with CPU PyTorch and Ray, without an engine for the rollout. Raises HarnessError."""
    wheels = (TORCH[0], f"verl=={version}", f"ray[default]=={RAYS[-1]}", *_UNDECLARED, *_AGREED)
    return image(f"verl-{version}", wheels, imported=_RUN)


def openrlhf_sif(version: str) -> Path:
    """A release of OpenRLHF with CPU PyTorch, Ray and DeepSpeed; flash-attn and vLLM are stand-ins. Raises HarnessError."""
    wheels = (
        TORCH[0],
        "ray[default]==2.55.0",
        "transformers==5.15.0",
        f"deepspeed=={OPENRLHF[version]}",
        *_RLHF,
    )
    return image(
        f"openrlhf-{version}",
        wheels,
        alone=(f"openrlhf=={version}",),
        standins=_BUILT_FOR_GPUS,
        imported="import openrlhf.cli.train_ppo_ray, openrlhf.trainer.ppo_trainer",
    )
