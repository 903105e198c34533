"""OpenRLHF's own estimators and losses, called once on tensors, wired as its trainers wire them.

Modules that no CPU has are stood in for by empty ones: they are imported, and nothing of them is called.
"""

from __future__ import annotations

import ast
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

LACKING = ("deepspeed", "flash_attn", "vllm")


class _Empty(ModuleType):
    """A module in which every name is a class without anything."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []
        self.__version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _StandIns(MetaPathFinder, Loader):
    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in LACKING else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_StandIns())
sys.path.insert(0, sys.argv[1])

import openrlhf  # noqa: E402
import torch  # noqa: E402
from openrlhf.models import loss as losses  # noqa: E402
from openrlhf.models.utils import compute_approx_kl  # noqa: E402
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker  # noqa: E402
from openrlhf.trainer.ppo_utils.kl_controller import FixedKLController  # noqa: E402
from openrlhf.trainer.ray.vllm_engine import _load_agent_executor  # noqa: E402
from openrlhf.utils.agent import SingleTurnAgentExecutor  # noqa: E402

LENGTH = 3


def call(script: str, args: Any) -> dict[str, list[float]]:
    """What is computed, for a method that has advantages. Raises what upstream raises."""
    if script == "train_ppo_ray":
        return {"advantages": reinforced(args)}
    if script == "train_dpo":
        margins = torch.tensor([[-1.0], [-2.0], [-1.5], [-1.5]])
        loss = wired("trainer/dpo_trainer.py", "DPOLoss", SimpleNamespace(args=args, beta=args.model.beta))
        finite(loss(*margins)[0])
    elif script == "train_rm":
        kind = losses.PairWiseLoss if args.model.loss_type == "sigmoid" else losses.LogExpLoss
        finite(kind()(torch.tensor([1.0]), torch.tensor([0.0])))
    return {}


def wired(file: str, name: str, self: Any) -> Any:
    """The loss that a trainer makes of its arguments, by the very expression in it."""
    tree = ast.parse((Path(openrlhf.__file__).parent / file).read_text())
    (found,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    )
    return eval(compile(ast.Expression(found), file, "eval"), {name: getattr(losses, name), "self": self})


def reinforced(args: Any) -> list[float]:
    """Rewards, advantages and losses of one update; gives the advantages of the answers. Each differs from the next by 1."""
    if args.train.agent_func_path:
        _load_agent_executor(args.train.agent_func_path)
    else:
        SingleTurnAgentExecutor(args.reward.remote_url)
    args.rollout.n_samples_per_prompt = rows = min(args.rollout.n_samples_per_prompt, 4)
    rows *= 2
    first, second, third = (-torch.rand(rows, LENGTH) for _ in range(3))
    experience = Experience(
        action_mask=torch.ones(rows, LENGTH, dtype=torch.bool),
        values=first,
        kl=torch.zeros(rows, LENGTH),
        rewards=torch.arange(rows).float(),
        response_length=torch.full((rows,), LENGTH),
        truncated=torch.zeros(rows, dtype=torch.bool),
        index=list(range(rows)),
    )
    maker = RemoteExperienceMaker.__new__(RemoteExperienceMaker)
    maker.strategy, maker.advantage_estimator = SimpleNamespace(args=args), args.algo.advantage.estimator
    maker.kl_ctl = FixedKLController(args.algo.kl.init_coef)
    maker.compute_advantages_and_returns([experience])
    policy = wired("trainer/ray/ppo_actor.py", "PolicyLoss", SimpleNamespace(args=args))
    finite(policy(first, second, experience.advantages, experience.action_mask, third)[0])
    finite(compute_approx_kl(first, second, kl_estimator=args.algo.kl.estimator).sum())
    if args.critic.model_name_or_path:
        critic = losses.ValueLoss(args.critic.value_clip)
        finite(critic(first, second, experience.returns, experience.action_mask))
    return [row[0].item() for row in experience.advantages]


def finite(value: torch.Tensor) -> None:
    if not torch.isfinite(value):
        raise ValueError(f"the loss is {value}")
