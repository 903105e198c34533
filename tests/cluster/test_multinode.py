"""Every launch on several nodes: who is where, in which order, and what the job's end says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster


def completed(alice: Researcher, *options: str, timeout: float = 240) -> str:
    run = alice.submit("exp", *options)
    facts = alice.ended(run, timeout)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    assert alice.exit(run)["decided_by"] == "verdict"
    alice.assert_nothing_left()
    return run


def world(alice: Researcher, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(alice.output(run, "world.json"))
    return found


def nodes(alice: Researcher, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = alice.record(run, "attempts/1/nodes.json")["nodes"]
    return found


def reduced(alice: Researcher, run: str, count: int) -> list[str]:
    """Every rank saw the sum over all of them, and sits where the record says; gives the hosts by node rank."""
    everybody, listed = world(alice, run), nodes(alice, run)
    assert [one["rank"] for one in everybody] == list(range(2 * count))
    assert {one["total"] for one in everybody} == {sum(range(1, 2 * count + 1))}
    assert [one["local"] for one in everybody] == [0, 1] * count
    assert [node["rank"] for node in listed] == list(range(count))
    for node in listed:
        own = [one for one in everybody if one["node"] == node["rank"]]
        assert {one["host"] for one in own} == {node["host"]}
        assert [one["rank"] for one in own] == node["ranks"]
        assert node["address"] == alice.cluster.spec.address(node["host"], alice.cluster.subnet)
    return [node["host"] for node in listed]


def trained(alice: Researcher, run: str, count: int) -> list[dict[str, Any]]:
    """Every process of an Accelerate run saw the same losses, and they fell."""
    seen = [json.loads(alice.output(run, f"rank-{rank}.json")) for rank in range(count)]
    assert {one["world"] for one in seen} == {count}
    for one in seen:
        assert one["losses"] == pytest.approx(seen[0]["losses"])
        assert one["losses"][-1] < one["losses"][0]
    return seen


def test_torchrun_on_three_nodes_by_two(cluster: Cluster, torch_image: str) -> None:
    alice = player(cluster)
    alice.experiment("exp", method="toy/torchrun")
    run = completed(alice, "--profile", "cpu:3", "--image", torch_image, "--", "reduce")
    assert reduced(alice, run, 3) == ["n1", "n2", "n3"]
    assert [node["ranks"] for node in nodes(alice, run)] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.long
def test_torchrun_by_c10d(cluster: Cluster, torch_image: str) -> None:
    """It gives ranks of its own; the record says which."""
    alice = player(cluster)
    alice.experiment("exp", method="toy/c10d")
    run = completed(alice, "--profile", "cpu:3", "--image", torch_image, "--", "reduce")
    assert sorted(reduced(alice, run, 3)) == ["n1", "n2", "n3"]


@pytest.mark.long
def test_a_list_that_is_written_backwards(cluster: Cluster, torch_image: str) -> None:
    """The head is task 0 of the step, whoever stands first in the list."""
    alice = player(cluster)
    alice.experiment("exp", method="toy/torchrun", config={"resources": {"nodelist": "n3,n1"}})
    run = completed(alice, "--profile", "cpu:2", "--image", torch_image, "--", "reduce")
    assert reduced(alice, run, 2) == ["n1", "n3"]


PLUGINS: dict[str, dict[str, str | None]] = {
    "toy/accelerate": dict.fromkeys(("ACCELERATE_USE_FSDP", "FSDP_VERSION", "FSDP_MIN_NUM_PARAMS")),
    "toy/fsdp": {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_MIN_NUM_PARAMS": "64"},
}


@pytest.mark.long
@pytest.mark.parametrize("method", PLUGINS)
def test_accelerate_on_two_nodes_by_two(cluster: Cluster, torch_image: str, method: str) -> None:
    """A world of four whichever plugin; without GPUs Accelerate 1.15 is told of FSDP2 and trains without it."""
    alice = player(cluster)
    alice.experiment("exp", method=method)
    run = completed(alice, "--profile", "cpu:2", "--image", torch_image)
    seen = trained(alice, run, 4)
    assert [one["host"] for one in seen] == ["n1", "n1", "n2", "n2"]
    assert [one["told"] for one in seen] == [PLUGINS[method]] * 4
    assert {one["kind"] for one in seen} == {"DistributedType.MULTI_CPU"}


def judged(alice: Researcher, run: str, trainers: int, judges: int) -> None:
    """Every trainer got an answer of every judge with the key, and none without; the key stands nowhere."""
    hosts = [node["host"] for node in nodes(alice, run)]
    for rank in range(trainers):
        asked = json.loads(alice.output(run, f"asked-{rank}"))
        place = asked.pop("host")
        assert place[0][1] == hosts[rank]
        assert len(asked) == judges
        for url, answers in asked.items():
            address = url.split("//")[1].split(":")[0]
            host = next(node["host"] for node in nodes(alice, run) if node["address"] == address)
            assert host in hosts[trainers:]
            assert answers == [[200, f"{host} says yes"], [401, ""]]
    assert [node["pool"] for node in nodes(alice, run)] == ["trainer"] * trainers + ["judge"] * judges
    assert "the judge sits" in alice.folder(f"runs/{run}/attempts/1/node-{trainers}.log").read_text()


POOLS = {
    # the only node with this kind of GPU is the last of the list, and the head
    "the head on the last node": ({"trainer": "l4:1", "judge": "one:2"}, 1, 2),
    "one job": ({"trainer": "one:1", "judge": "one:2"}, 1, 2),
    "two profiles": ({"trainer": "cpu:1", "judge": "one:1"}, 1, 1),
    "two profiles, more nodes": ({"trainer": "one:2", "judge": "cpu:1"}, 2, 1),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "two profiles" else pytest.mark.long) for name in POOLS]
)
def test_a_pool_of_servers(cluster: Cluster, name: str) -> None:
    pools, trainers, judges = POOLS[name]
    alice = player(cluster, runtime="host")
    alice.experiment("exp", method="toy/serve", config={"resources": {"pools": pools}})
    alice.rewrite_site(
        profiles=alice.site["profiles"]
        | {"l4": {"gpus_per_node": 2, "gpu_type": "l4", "cpus_per_node": 2, "memory_per_gpu": "1G"}}
    )
    run = completed(alice, "--", "0")
    judged(alice, run, trainers, judges)
    if "last" in name:
        assert [node["host"] for node in nodes(alice, run)] == ["n3", "n1", "n2"]
    components = alice.folder(f"runs/{run}/job.sbatch").read_text().count("#SBATCH hetjob")
    assert components == (0 if name == "one job" else 1)


ENDS = {
    "the trainer's own code": (["7"], 7, 0, "exited"),
    # a server must live as long as the launch, whatever its code
    "a server": (["0", "/end"], 9, 1, "server"),
}


@pytest.mark.long
@pytest.mark.parametrize("pools", ["one:1", "cpu:1"])
@pytest.mark.parametrize("end", ENDS)
def test_how_a_run_with_a_pool_ends(cluster: Cluster, end: str, pools: str) -> None:
    words, code, node, reason = ENDS[end]
    alice = player(cluster, runtime="host")
    resources = {"pools": {"trainer": "one:1", "judge": pools}}
    alice.experiment("exp", method="toy/serve", config={"resources": resources})
    run = alice.submit("exp", "--", *words)
    facts = alice.ended(run)
    assert (facts["state"], facts["code"]) == ("failed", code), f"{facts}\n{alice.log(run)}"
    verdict = alice.exit(run)["verdict"]
    assert (verdict["node"], verdict["reason"]) == (node, reason), verdict
    alice.assert_nothing_left()


@pytest.mark.long
def test_pools_of_one_ray_cluster(cluster: Cluster, ray_image: str) -> None:
    """Trainer and teacher: each node brings what its own profile has."""
    alice = player(cluster)
    alice.experiment(
        "exp", method="toy/ray", config={"resources": {"pools": {"trainer": "cpu:2", "teacher": "one:1"}}}
    )
    run = completed(alice, "--image", ray_image, "--", "spread")
    found = json.loads(alice.output(run, "world.json"))
    assert sorted(one["CPU"] for one in found["resources"]) == [1, 2, 2]
    assert [node["pool"] for node in nodes(alice, run)] == ["trainer", "trainer", "teacher"]
