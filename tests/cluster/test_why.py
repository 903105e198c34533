"""`tp job why` on a real Slurm, with accounting and without: why runs wait, and why they have ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.harness import Cluster, ClusterSpec
from cluster.harness.tools import until
from cluster.researcher import Researcher
from image_files import sif

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=[False, True], ids=["no accounting", "accounting"])
def small(suite: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two nodes with little space in /tmp; with accounting, the account `lab` may have one job at a time."""
    conf = ("AccountingStorageEnforce=limits",) if request.param else ()
    with Cluster(
        ClusterSpec(suite=suite, nodes=2, accounting=request.param, tmp_size="64m", slurm_conf=conf)
    ) as running:
        if request.param:
            for words in (
                ["add", "account", "lab"],
                ["add", "account", "free"],
                ["modify", "account", "lab", "set", "GrpJobs=1"],
                ["add", "user", "alice", "account=free,lab", "defaultaccount=free"],
            ):
                running.run("login", ["sacctmgr", "--immediate", *words], check=True)
        yield running


@pytest.fixture
def alice(small: Cluster) -> Iterator[Researcher]:
    # less than there is, which is little
    yield Researcher(small, preflight={"scratch": "16M"})
    small.run("login", ["scancel", "--user=alice"])
    small.wait_idle()


def why(researcher: Researcher, run: str) -> dict[str, Any]:
    said = researcher.tp("job", "why", run, "--json")
    assert said.code == 0, said
    found: dict[str, Any] = json.loads(said.out)
    assert found["sentence"] and found["run"] == run
    return found


def waits(researcher: Researcher, run: str, kind: str) -> dict[str, Any]:
    """The reason, once the scheduler has looked at the job."""
    found: dict[str, Any] = until(
        lambda: (reason := why(researcher, run))["kind"] == kind and reason, f"{run}: {kind}", 30, 0.3
    )
    assert found["state"] == "queued" and found["action"], found
    return found


def ends(researcher: Researcher, run: str, kind: str, timeout: float = 90) -> dict[str, Any]:
    researcher.ended(run, timeout)
    found = why(researcher, run)
    assert found["kind"] == kind, found
    return found


def job_of(researcher: Researcher, run: str) -> str:
    return str(researcher.record(run, "job.json")["id"])


def test_what_a_job_waits_for(small: Cluster, alice: Researcher) -> None:
    alice.experiment("exp", "exec sleep 300", config={"resources": {"nodelist": "n1"}})
    alice.running(alice.submit("exp", "--profile", "h200:8", "--time", "9m"))
    found = waits(alice, alice.submit("exp", "--profile", "h200:8"), "resources")
    assert found["sentence"].startswith("it waits until 1 node with 8 GPUs in the partition gpu are free")
    held = alice.submit("exp", "--hold")
    found = waits(alice, held, "held")
    assert found["action"] == f"`scontrol release {job_of(alice, held)}`"
    said = alice.tp("job", "why", held)
    assert said.out == f"{held}: it is held by its owner\n  try      {found['action']}\n"


@pytest.mark.long
def test_a_job_in_a_partition_that_is_too_short(small: Cluster, alice: Researcher) -> None:
    alice.experiment("exp", "exit 0")
    run = alice.submit("exp", "--hold", "--time", "10m")
    # tp itself refuses it before the queue
    small.run("login", ["scontrol", "update", f"jobid={job_of(alice, run)}", "partition=short"], check=True)
    alice.slurm("scontrol", "release", job_of(alice, run))
    assert waits(alice, run, "partition limit")["sentence"].startswith("its time limit of 10m is longer")


@pytest.mark.long
def test_a_partition_and_nodes_that_are_down(small: Cluster, alice: Researcher) -> None:
    alice.experiment("exp", "exit 0", config={"resources": {"nodelist": "n2"}})
    run = alice.submit("exp", "--hold")
    try:
        small.run("login", ["scontrol", "update", "partition=gpu", "state=down"], check=True)
        alice.slurm("scontrol", "release", job_of(alice, run))
        waits(alice, run, "partition down")
        small.run("login", ["scontrol", "update", "nodename=n2", "state=drain", "reason=test"], check=True)
        small.run("login", ["scontrol", "update", "partition=gpu", "state=up"], check=True)
        waits(alice, run, "nodes unavailable")
    finally:
        small.run("login", ["scontrol", "update", "partition=gpu", "state=up"])
        small.run("login", ["scontrol", "update", "nodename=n2", "state=resume"])


@pytest.mark.long
def test_a_run_that_is_to_come_after_another(small: Cluster, alice: Researcher) -> None:
    alice.experiment("exp", "exec sleep 300")
    first = alice.submit("exp")
    second = alice.submit("exp", "--after", first)
    waits(alice, second, "dependency")
    assert alice.tp("job", "cancel", first).code == 0
    assert ends(alice, second, "dependency impossible")["state"] == "cancelled"


@pytest.mark.long
def test_begin_time(alice: Researcher) -> None:
    alice.experiment("exp", "exit 0", config={"resources": {"begin": "now+2hours"}})
    assert "not to begin before" in waits(alice, alice.submit("exp"), "begin time")["sentence"]


@pytest.mark.long
def test_the_limit_of_an_account(small: Cluster, alice: Researcher) -> None:
    if not small.spec.accounting:
        pytest.skip("accounts have limits only with accounting")
    alice.experiment("exp", "exec sleep 300", config={"resources": {"account": "lab"}})
    alice.running(alice.submit("exp"))
    found = waits(alice, alice.submit("exp"), "limit")
    assert "jobs of the account lab" in found["sentence"] and "AssocGrpJobsLimit" in found["sentence"]


def test_cancelled(small: Cluster, alice: Researcher) -> None:
    alice.experiment("exp", "exec sleep 300")
    mine, theirs = alice.submit("exp"), alice.submit("exp")
    alice.running(theirs)
    assert alice.tp("job", "cancel", mine).code == 0
    small.run("login", ["scancel", job_of(alice, theirs)], check=True)
    assert "it was cancelled by you" in ends(alice, mine, "cancelled")["sentence"]
    ends(alice, theirs, "cancelled")
    by = " by root" if small.spec.accounting else ""
    sentence = f"it was cancelled{by} while it ran"
    until(lambda: why(alice, theirs)["sentence"] == sentence, f"{sentence}: {why(alice, theirs)}", 20)


@pytest.mark.long
def test_a_time_limit(alice: Researcher) -> None:
    alice.experiment("exp", "exec sleep 300")
    found = ends(alice, alice.submit("exp", "--time", "1m"), "time limit", 150)
    assert found["sentence"].startswith("the time limit of 1m was reached"), found
    assert "DUE TO TIME LIMIT" in found["evidence"]["line"]


@pytest.mark.long
def test_a_full_disk(alice: Researcher) -> None:
    train = (
        "exec 2>&1; dd if=/dev/zero of=/tmp/fill bs=1M count=200; status=$?; rm -f /tmp/fill; exit $status"
    )
    alice.experiment("exp", train)
    found = ends(alice, alice.submit("exp"), "disk full")
    assert ", writing /tmp/fill" in found["sentence"]
    assert "No space left on device" in found["evidence"]["line"], found
    assert found["evidence"]["file"] == "attempts/1/node-0.log"


@pytest.mark.long
def test_an_image_that_is_gone(small: Cluster, alice: Researcher, apptainer_suite: str) -> None:
    alice.rewrite_site(runtime={"kind": "apptainer", "gpu": "none"})
    alice.experiment("exp", "exit 0")
    image = alice.write("toy.sif", sif())
    run = alice.submit("exp", "--hold", "--image", image)
    alice.folder("toy.sif").unlink()
    alice.slurm("scontrol", "release", job_of(alice, run))
    found = ends(alice, run, "image")
    assert found["evidence"] or "image" in found["sentence"], found


@pytest.mark.long
def test_a_program_that_raises(alice: Researcher) -> None:
    alice.experiment("exp", "exec python3 -c 'raise ValueError(\"no reward\")'")
    found = ends(alice, alice.submit("exp", "--profile", "one:2"), "exception")
    assert found["evidence"]["line"] == "ValueError: no reward", found


@pytest.mark.long
def test_a_node_that_fails(small: Cluster, alice: Researcher) -> None:
    alice.rewrite_site(network={"interface": "eth0", "heartbeat": "10s"})
    alice.experiment("exp", "exec sleep 600")
    run = alice.submit("exp", "--profile", "one:2")
    alice.running(run)
    host = "n2"  # the head is on the first
    try:
        small.kill(host)
        found = ends(alice, run, "node failure", 200)
        assert f"node 1 ({host}) was lost: " in found["sentence"] and f"exclude: {host}" in found["action"], (
            found
        )
    finally:
        small.restart(host)
        small.wait_idle()
