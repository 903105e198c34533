"""Ray across nodes: whole, with ports and folders of its own, closed to others, and gone with its job."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from cluster import report
from cluster.harness import Cluster
from cluster.harness.images import OLD_RAY, RAYS, in_host, ray_sif
from cluster.harness.tools import until
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster


def researcher(cluster: Cluster) -> Researcher:
    alice = player(cluster)
    alice.experiment("exp", method="toy/ray")
    return alice


def world(alice: Researcher, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(alice.output(run, "world.json"))
    return found


def waiting(alice: Researcher, image: str) -> str:
    """A run whose cluster is up, with an actor on each of its three nodes."""
    return alice.submit("exp", "--profile", "cpu:3", "--image", image, "--", "wait")


def cancelled(alice: Researcher, run: str) -> None:
    """End a run; all of it is gone from every node within seconds."""
    assert alice.tp("job", "cancel", run).code == 0
    assert alice.ended(run)["state"] == "cancelled"


@pytest.mark.parametrize(
    "version", [pytest.param(one, marks=() if one == RAYS[-1] else pytest.mark.long) for one in RAYS]
)
def test_tasks_on_three_nodes(cluster: Cluster, apptainer_suite: str, version: str) -> None:
    alice = researcher(cluster)
    run = alice.submit("exp", "--profile", "cpu:3", "--image", in_host(ray_sif(version)), "--", "spread")
    facts = alice.ended(run, 180)
    assert (facts["state"], facts["code"]) == ("completed", 0), f"{facts}\n{alice.log(run)}"
    alice.assert_nothing_left()
    found = world(alice, run)
    assert (found["alive"], found["version"]) == (3, version)
    assert found["resources"] == [{"CPU": 2}] * 3
    assert sorted(task["host"] for task in found["tasks"]) == ["n1", "n2", "n3"]
    for task in found["tasks"]:
        assert (task["foreign"], task["TUNEPLANE_NODES"], task["RAY_AUTH_MODE"]) == ([], "3", "token")
        assert task["host"] == f"n{int(task['TUNEPLANE_NODE_RANK']) + 1}"
    token = alice.folder(f"runs/{run}/attempts/1/ray_token")
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in alice.log(run)


@pytest.mark.long
def test_the_drivers_code_is_the_jobs(cluster: Cluster, ray_image: str) -> None:
    alice = researcher(cluster)
    facts = alice.run("exp", "--profile", "cpu:2", "--image", ray_image, "--", "exit", "5", timeout=120)
    assert (facts["state"], facts["code"]) == ("failed", 5), f"{facts}\n{alice.log(facts['run'])}"
    verdict = alice.exit(facts["run"])["verdict"]
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (0, "n1", "exited")
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_ray_that_lets_anybody_in(cluster: Cluster, apptainer_suite: str) -> None:
    """Refused by name of its version, unless the site allows it."""
    alice, old = researcher(cluster), in_host(ray_sif(OLD_RAY))
    words = ("--profile", "cpu:2", "--image", old, "--", "spread")
    facts = alice.run("exp", *words, timeout=120)
    assert facts["state"] == "failed" and OLD_RAY in facts["why"], f"{facts}\n{alice.log(facts['run'])}"
    alice.rewrite_site(runtime=alice.site["runtime"] | {"old_ray": True})
    run = alice.submit("exp", *words)
    facts = alice.ended(run, 120)
    assert facts["state"] == "completed", f"{facts}\n{alice.log(run)}"
    header = alice.folder(f"runs/{run}/job.sbatch").read_text().partition("#SBATCH")[0]
    assert "which lets anybody in" in header and "authentication" in alice.log(run)


# ---- neighbours


def listening(cluster: Cluster, host: str) -> set[int]:
    """The TCP ports on which programs listen on a host, but for those of Slurm itself."""
    rows = cluster.run(host, ["ss", "-ltnpH"]).stdout.splitlines()
    own = [row.split()[3] for row in rows if not re.search(r'users:\(\("(srun|slurm\w*)"', row)]
    return {int(address.rpartition(":")[2]) for address in own}


def temporary(cluster: Cluster, host: str) -> set[str]:
    """The temporary folders of all Ray clusters on a host, from the sockets in them."""
    text = cluster.run(host, ["cat", "/proc/net/unix"]).stdout
    return set(re.findall(r" (/\S+?)/session_[^/\s]+/sockets/", text))


def ranges(alice: Researcher, run: str) -> dict[str, range]:
    """The ports that each node of a run claimed, by host."""
    listed = alice.record(run, "attempts/1/nodes.json")["nodes"]
    return {node["host"]: range(node["first"], node["last"] + 1) for node in listed}


def ask(alice: Researcher, image: str, user: str, address: str, **env: str) -> int:
    """How many nodes of a cluster a client on the first host is shown; none when it is turned away."""
    words = ["apptainer", "-s", "exec", "--cleanenv", "--no-mount", "home,cwd", "--pwd", "/", image]
    variables = {f"APPTAINERENV_{name}": value for name, value in env.items()}
    status = ["timeout", "20", "ray", "status", "--address", address]
    done = alice.cluster.run("n1", [*words, *status], user=user, env=variables, timeout=60)
    return int(done.stdout.count(" node_")) if done.returncode == 0 else 0


@pytest.mark.long
def test_two_clusters_on_the_same_nodes(cluster: Cluster, ray_image: str) -> None:
    """Neither sees the other, whoever lacks the token sees none, and each keeps to its own ports and folders."""
    alice = researcher(cluster)
    runs = [waiting(alice, ray_image) for _ in range(2)]
    for run in runs:
        alice.appears(run, "up", timeout=180)
    worlds = [world(alice, run) for run in runs]
    assert [one["alive"] for one in worlds] == [3, 3]
    assert len({one["address"] for one in worlds}) == 2
    claimed = [ranges(alice, run) for run in runs]
    for host in cluster.spec.compute:
        own = [one[host] for one in claimed]
        assert not set(own[0]) & set(own[1])
        ports = listening(cluster, host)
        assert ports and ports <= set(own[0]) | set(own[1]), (host, ports, own)
        folders = temporary(cluster, host)
        assert len(folders) == 2 and all(len(folder.encode()) <= 43 for folder in folders), folders
    token = alice.folder(f"runs/{runs[0]}/attempts/1/ray_token").read_text().strip()
    address = worlds[0]["address"]
    for user, mode, key, seen in (
        ("alice", "token", token, 3),
        ("alice", "token", "0" * len(token), 0),
        ("bob", "token", "1" * len(token), 0),
        ("bob", "disabled", "", 0),
    ):
        env = {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": key}
        assert ask(alice, ray_image, user, address, **env) == seen, (user, mode)
    # the end of one is not the other's
    cancelled(alice, runs[0])
    assert all(temporary(cluster, host) for host in cluster.spec.compute)
    assert alice.status(runs[1])["state"] == "running"
    cancelled(alice, runs[1])
    alice.assert_nothing_left()


@pytest.mark.long
@pytest.mark.parametrize("end", ["spread", "cancel"])
def test_how_soon_everything_is_gone(cluster: Cluster, ray_image: str, end: str) -> None:
    alice = researcher(cluster)
    if end == "cancel":
        run = waiting(alice, ray_image)
        alice.appears(run, "up", timeout=180)
        cancelled(alice, run)
    else:
        run = alice.submit("exp", "--profile", "cpu:3", "--image", ray_image, "--", "spread")
        until(lambda: alice.folder(f"runs/{run}/output/world.json").exists(), "the driver is through", 120)
    begun = time.monotonic()
    alice.assert_nothing_left()
    report.row("times", f"Ray on three nodes gone after {end}", time.monotonic() - begun)
