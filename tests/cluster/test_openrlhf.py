"""OpenRLHF's real packages through `tp submit`: a driver in a Ray cluster, as far as it goes without a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster import driver
from cluster.harness import Cluster
from cluster.harness.frameworks import OPENRLHF
from cluster.researcher import player

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.mark.parametrize("version", OPENRLHF)
def test_a_driver_as_far_as_it_goes(
    cluster: Cluster, openrlhf_image: Callable[[str], str], tiny: Callable[[str], str], version: str
) -> None:
    """It takes its flags, gets a GPU of each node and starts engines there; vLLM itself is missing."""
    image = openrlhf_image(version)
    place = tiny(image)
    size = {"rollout_batch_size": 4, "n_samples_per_prompt": 2, "max_prompt_length": 64, "max_new_tokens": 64}
    config = {
        "model": f"{place}/model",
        "data": {"train": f"{place}/tasks.parquet"},
        "params": {**size, "attn_implementation": "sdpa"},
    }
    profiles = {"gpu": driver.GPU | {"cpus_per_node": 4}}
    alice = player(cluster, images={f"openrlhf-{version}": image}, profiles=profiles, default_profile="gpu:2")
    alice.experiment("exp", method="openrlhf/grpo", version=version, config=config)
    facts = driver.ends_at(
        alice,
        "exp",
        r"Connecting to existing Ray cluster at address: HEAD:\d+",
        r"(?i)namespace\(.*ref=namespace\(num_nodes=2, num_gpus_per_node=1",
        # it comes to this when the group with both GPUs is there
        r"vllm_engines = create_vllm_engines\(",
        r"ray::RolloutRayActor\.__init__\(\)",
        r"RuntimeError: vllm\.AsyncEngineArgs is a stand-in",
    )
    log = alice.log(facts["run"])
    for words in (f"/{facts['run']}/files/reward.py'", "estimator='group_norm'", "num_engines=2"):
        assert words in log, (words, log)
