"""verl's real packages through `tp submit`: training on two nodes that resumes, and a driver in a Ray cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster import driver
from cluster.harness import Cluster
from cluster.harness.frameworks import VERL
from cluster.harness.tools import until
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster

RELEASES = [VERL[0], *(pytest.param(version, marks=pytest.mark.long) for version in VERL[1:])]
PLATFORM = Path(__file__).parent / "inside/verl_cpu.py"
PROFILES = {
    "one": {"cpus_per_node": 1, "memory": "4G", "exclusive": "never"},
    # three processors beside each GPU, and nine in all for the queue between the parts of the trainer
    "gpu": driver.GPU | {"cpus_per_node": 8},
}


def researcher(
    cluster: Cluster, image: str, version: str, method: str, config: Mapping[str, Any]
) -> Researcher:
    requeue = {"policy": "requeue", "warning": "20s"}
    alice = player(cluster, images={f"verl-{version}": image}, requeue=requeue, profiles=PROFILES)
    alice.experiment("exp", method=method, version=version, config=config)
    return alice


def losses(text: str) -> dict[int, float]:
    """The loss of each step in a log of the trainer."""
    found = re.findall(r"^step:(\d+) .*?train/loss:([0-9.]+)", text, re.M)
    return {int(number): float(loss) for number, loss in found}


@pytest.mark.parametrize("version", RELEASES)
def test_fine_tuning_that_resumes(
    cluster: Cluster, verl_image: Callable[[str], str], tiny: Callable[[str], str], version: str
) -> None:
    """On two nodes without a GPU; requeued after two steps it takes up the newest checkpoint and goes on to the end."""
    image = verl_image(version)
    place, last = tiny(image), 6
    size = {"max_num_steps": last, "train_batch_size": 4, "max_length": 128, "learning_rate": 0.01}
    plain = {"strategy": "fsdp2", "attn_implementation": "sdpa", "num_workers": 0, "save_freq": 1}
    config = {
        "model": f"{place}/model",
        "data": {"train": f"{place}/conversations.parquet"},
        "params": {**size, **plain, "max_ckpt_to_keep": last},
        "overrides": {"trainer.device": "cpu"},
        "env": {
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",
            "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        },
    }
    alice = researcher(cluster, image, version, "verl/sft", config)
    alice.write("exp/verl_cpu.py", PLATFORM.read_bytes())
    run = alice.submit("exp", "--profile", "one:2")
    tracker = "checkpoints/latest_checkpointed_iteration.txt"
    alice.appears(run, tracker, timeout=300)
    until(lambda: int(alice.output(run, tracker) or 0) >= 2, "the second checkpoint is whole", 120)
    assert alice.tp("job", "requeue", run).code == 0
    facts = alice.ended(run, 300)
    said = f"{facts}\n{alice.log(run)}"
    assert (facts["state"], facts["code"], facts["attempt"]) == ("completed", 0, 2), said
    first, second = (alice.exit(run, attempt) for attempt in (1, 2))
    reached = first["step"]
    assert 2 <= reached < last and (first["resumed_from"], second["step"]) == ("", last), said
    assert second["resumed_from"] == f"checkpoints/global_step_{reached}", said
    logs = [[node_log(alice, run, attempt, rank) for rank in (0, 1)] for attempt in (1, 2)]
    newest = f"{alice.root}/runs/{run}/output/checkpoints/global_step_{reached}"
    assert f"Found latest checkpoint: {newest} (step {reached})" in logs[1][0], said
    for rank, log in enumerate(logs[1]):
        assert f"[Rank {rank}] Loaded model from {newest}/model_world_size_2_rank_{rank}.pt" in log, said
    before, after = (losses(log) for log, _ in logs)
    assert list(before)[:reached] == list(range(1, reached + 1)), said
    assert list(after) == list(range(reached + 1, last + 1)), said
    assert after[last] < before[1] - 0.5, (before, after)
    alice.assert_nothing_left()


def node_log(alice: Researcher, run: str, attempt: int, rank: int) -> str:
    return alice.folder(f"runs/{run}/attempts/{attempt}/node-{rank}.log").read_text()


@pytest.mark.parametrize("version", RELEASES)
def test_a_driver_as_far_as_it_goes(
    cluster: Cluster, verl_image: Callable[[str], str], tiny: Callable[[str], str], version: str
) -> None:
    """It takes its configuration, reads the data, gets a worker with a GPU on each node, and there is no GPU in truth."""
    image = verl_image(version)
    place = tiny(image)
    config = {
        "model": f"{place}/model",
        "data": {"train": f"{place}/tasks.parquet", "validation": f"{place}/tasks.parquet"},
        "params": {
            "train_batch_size": 4,
            "ppo_mini_batch_size": 4,
            "rollouts_per_prompt": 2,
            "max_prompt_length": 64,
            "max_response_length": 64,
            "rollout_tensor_parallel_size": 1,
        },
        "overrides": {"transfer_queue.backend.SimpleStorage.num_data_storage_units": 2},
    }
    alice = researcher(cluster, image, version, "verl/grpo", config)
    driver.ends_at(
        alice,
        "exp",
        r"All configuration checks passed successfully",
        r"Connecting to existing Ray cluster at address: HEAD:\d+",
        r"TaskRunner\w* pid=.*'adv_estimator': 'grpo'",
        r"TaskRunner\w* pid=.*'nnodes': 2",
        r"TaskRunner\w* pid=.*dataset len: 20",
        # there for the worker group: a bundle on each node, for which its one GPU was asked
        r"TaskRunner\w* pid=.*create worker group dict_keys\(\['actor_rollout_ref'\]\)",
        r"WorkerDict\.actor_rollout_ref_init_model",
        r"RuntimeError: Distributed package doesn't have NCCL built in",
    )
