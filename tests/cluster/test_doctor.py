"""`tp doctor` and `tp doctor --job` on a real Slurm, and runs that are started once more by hand."""

from __future__ import annotations

import json
import re

import pytest
from cluster.harness import Cluster
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster

NODE = re.compile(r"ok    node (\d) \((n\d)\): the sum is right, \d+ MB/s to the next node, \d+ µs")


def test_the_login_side(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    said = alice.tp("doctor", "--json")
    rows = json.loads(said.out)
    assert said.code == 0, rows
    found = {row["name"]: row["said"] for row in rows if row["level"] == "ok"}
    assert {
        "site file",
        "python",
        "scheduler",
        "controller",
        "runs",
        "space",
        "clock",
        "catalog",
    } <= found.keys()
    assert found["profile h200"] == "in the partition gpu" and found["scheduler"].startswith("slurm")
    profiles = alice.site["profiles"] | {
        "b200": {"gpus_per_node": 8, "gpu_type": "b200", "cpus_per_node": 16}
    }
    alice.rewrite_site(profiles=profiles)
    said = alice.tp("doctor")
    assert said.code == 6 and "bad   profile b200" in said.out, said


def test_a_job_over_two_nodes(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    said = alice.tp("doctor", "--job", timeout=180)
    assert said.code == 0, said
    lines = said.out.splitlines()
    matches = [NODE.fullmatch(line) for line in lines]
    assert [match and match[1] for match in matches] == ["0", "1"], said
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_job_whose_node_cannot_be_used(cluster: Cluster) -> None:
    """No node has the space that the site asks for: the verdict names the first that says so."""
    alice = Researcher(cluster, preflight={"scratch": "9000G"})
    said = alice.tp("doctor", "--job", "--json", timeout=180)
    data = json.loads(said.out)
    assert said.code == 8, said
    assert data["kind"] == "preflight" and re.search(r"on node \d \(n\d\)$", data["sentence"]), data
    assert data["action"]


@pytest.mark.long
def test_a_run_that_failed_becomes_a_new_job(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    train = '[ "$TUNEPLANE_ATTEMPT" -gt 1 ] || exit 7'
    alice.experiment("exp", train)
    facts = alice.run("exp")
    run, first = facts["run"], facts["job"]
    assert (facts["state"], facts["code"]) == ("failed", 7)
    said = alice.tp("job", "requeue", run)
    assert said.code == 0, said
    facts = alice.ended(run)
    assert (facts["state"], facts["attempt"]) == ("completed", 2), (facts, alice.log(run))
    assert facts["job"] != first and [old["id"] for old in facts["earlier_jobs"]] == [first]
    assert {job for job, _ in alice.jobs()} >= {first, facts["job"]}
    said = alice.tp("job", "requeue", run)
    assert said.code == 3 and "has completed" in said.err, said


@pytest.mark.long
def test_a_run_that_was_cancelled_becomes_a_new_job(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", '[ "$TUNEPLANE_ATTEMPT" -gt 1 ] || exec sleep 300')
    run = alice.submit("exp")
    alice.running(run)
    assert alice.tp("job", "requeue", run).code == 3
    assert alice.tp("job", "cancel", run).code == 0
    assert alice.ended(run)["state"] == "cancelled"
    assert alice.tp("job", "requeue", run).code == 0
    assert alice.ended(run)["state"] == "completed"


@pytest.mark.long
def test_slurms_words_when_it_takes_no_more(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 7")
    run = alice.run("exp")["run"]
    cluster.run("login", ["scontrol", "update", "partition=gpu", "state=drain"], check=True)
    try:
        # a partition that drains takes none: `state=down` would queue it
        said = alice.tp("job", "requeue", run)
    finally:
        cluster.run("login", ["scontrol", "update", "partition=gpu", "state=up"], check=True)
    assert said.code == 7 and "Slurm did not take the job" in said.err, said
    assert alice.status(run)["state"] == "failed"


@pytest.mark.long
def test_a_running_run_that_does_not_resume_stays(cluster: Cluster) -> None:
    alice = player(cluster, runtime="host", requeue={"policy": "requeue"})
    alice.experiment("exp", "exec sleep 300")
    run = alice.submit("exp")
    alice.running(run)
    said = alice.tp("job", "requeue", run)
    assert said.code == 3 and "does not resume" in said.err, said
    assert alice.tp("job", "cancel", run).code == 0
