"""What the cluster would not take is refused before the queue; what `submit` can be asked beside that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from cluster.harness import Cluster
from cluster.harness.tools import until
from cluster.researcher import Researcher, Said

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def counted(suite: str) -> Iterator[Cluster]:
    """A cluster with accounting; alice belongs to the account `lab`."""
    from cluster.harness import ClusterSpec

    with Cluster(ClusterSpec(suite=suite, nodes=2, accounting=True)) as running:
        for words in (
            ["add", "account", "lab"],
            ["add", "account", "other"],
            ["add", "user", "alice", "account=lab"],
            ["add", "user", "bob", "account=other"],
            ["add", "qos", "brief", "MaxWall=30"],
            ["modify", "user", "alice", "set", "qos+=brief"],
        ):
            running.run("login", ["sacctmgr", "--immediate", *words], check=True)
        yield running


def refused(alice: Researcher, *options: str) -> str:
    """What a refusal says; nothing is submitted, and no run is left."""
    before = alice.jobs()
    said = alice.tp("submit", "exp", *options)
    assert (said.code, said.out) == (6, ""), said
    assert alice.runs() == []
    assert alice.jobs() == before
    return said.err


def with_resources(alice: Researcher, **resources: str) -> None:
    alice.write("exp/config.yaml", json.dumps({"resources": resources}))


def test_a_time_limit_beyond_the_partitions(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0", config={"resources": {"partition": "short"}})
    assert refused(alice, "--time", "3m") == (
        "error: 3m is longer than the partition `short` allows\n"
        "  at       slurm.time\n  expected at most 2m\n  try      --time 2m\n"
    )
    assert alice.tp("submit", "exp", "--time", "2m", "--dry-run").code == 0
    with_resources(alice)
    assert "is longer than the partition `gpu` allows" in refused(alice, "--time", "2d")


def test_a_partition_that_does_not_exist(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0", config={"resources": {"partition": "shrt"}})
    assert refused(alice) == (
        "error: there is no partition `shrt`, did you mean `short`?\n"
        "  at       slurm.partition\n  expected one of gpu, low, short\n"
    )
    with_resources(alice, partition="gpu,nowhere")
    assert "there is no partition `nowhere`" in refused(alice)


@pytest.mark.long
def test_more_nodes_than_there_are(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0")
    assert "4 nodes are more than the partition `gpu` has" in refused(alice, "--profile", "one:4")


def test_an_account_that_does_not_exist(counted: Cluster) -> None:
    alice = Researcher(counted)
    alice.experiment("exp", "exit 0", config={"resources": {"account": "nobody"}})
    assert refused(alice) == (
        "error: the account `nobody` is not yours\n  at       slurm.account\n  expected one of lab\n"
    )
    with_resources(alice, account="other")
    assert "the account `other` is not yours" in refused(alice)
    with_resources(alice, account="lab")
    facts = alice.run("exp")
    assert facts["state"] == "completed"
    assert "Account=lab" in alice.slurm("scontrol", "--oneliner", "show", "job", facts["job"])


@pytest.mark.long
def test_a_qos_that_does_not_exist_or_is_too_short(counted: Cluster) -> None:
    alice = Researcher(counted)
    alice.experiment("exp", "exit 0", config={"resources": {"qos": "brif"}})
    assert refused(alice) == (
        "error: there is no QOS `brif`\n  at       slurm.qos\n  expected one of brief, normal\n"
    )
    with_resources(alice, qos="brief")
    assert "31m is longer than the QOS `brief` allows" in refused(alice, "--time", "31m")
    assert alice.run("exp", "--time", "30m")["state"] == "completed"


@pytest.mark.long
def test_several_refusals_at_once(counted: Cluster) -> None:
    alice = Researcher(counted)
    alice.experiment(
        "exp", "exit 0", config={"resources": {"account": "nobody", "partition": "short", "qos": "none"}}
    )
    said = refused(alice, "--time", "1h")
    assert [line for line in said.splitlines() if line.startswith("error")] == [
        "error: 1h is longer than the partition `short` allows",
        "error: the account `nobody` is not yours",
        "error: there is no QOS `none`",
    ]


# -- what submit can be asked -------------------------------------------------------------------------------


def test_a_dry_run_leaves_nothing(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0")
    alice.write("exp/notes.txt", "some")
    before = alice.jobs()
    said = alice.tp("submit", "exp", "--dry-run", "--profile", "h200:8")
    assert said.code == 0 and said.err == "", said
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in said.out.splitlines()]
    assert ["frozen", "notes.txt"] in rows and ["frozen", "train.sh"] in rows
    assert ["directive", "--gres=gpu:h200:8"] in rows and ["directive", "--export=NIL"] in rows
    [[_, verdict]] = [row for row in rows if row[0] == "scheduler"]
    assert re.match(
        r"Job \d+ to start at \d{4}-.* using \d+ processors on nodes? n[12] in partition gpu", verdict
    )
    told = json.loads(alice.tp("submit", "exp", "--dry-run", "--json").out)
    compiled = alice.tp("compile", "exp")
    assert told["script"] == compiled.out
    assert alice.jobs() == before and alice.runs() == []
    run = alice.submit("exp")
    assert alice.folder(f"runs/{run}/job.sbatch").read_text() == compiled.out
    alice.ended(run)


@pytest.mark.long
def test_a_dry_run_of_what_cannot_run(cluster: Cluster) -> None:
    """No node has the feature, which only Slurm knows."""
    profiles = {"odd": {"cpus_per_node": 1, "memory": "1G", "exclusive": "never", "constraint": "moon"}}
    alice = Researcher(cluster, profiles=profiles, default_profile="odd:1")
    alice.experiment("exp", "exit 0")
    said = alice.tp("submit", "exp", "--dry-run")
    assert said.code == 0 and re.search(
        r"^scheduler\s+.*(not available|[Ii]nvalid feature)", said.out, re.M
    ), said
    said = alice.tp("submit", "exp")
    assert said.code == 7 and "Slurm did not take the job" in said.err, said
    [run] = alice.runs()
    assert alice.status(run)["state"] == "new"


def test_after(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("first", 'sleep 2; date +%s.%N >"$TUNEPLANE_OUTPUT_DIR/at"')
    alice.experiment("then", 'date +%s.%N >"$TUNEPLANE_OUTPUT_DIR/at"')
    alice.experiment("bad", "sleep 1; exit 3")
    parent = alice.submit("first")
    child = alice.submit("then", "--after", parent)
    assert alice.status(child)["state"] == "queued"
    failing = alice.submit("bad")
    orphan = alice.submit("then", "--after", failing)
    assert alice.ended(child)["state"] == "completed"
    assert float(alice.output(child, "at")) > float(alice.output(parent, "at"))
    facts = alice.ended(orphan)
    why = "the run it was to come after did not complete"
    assert (facts["state"], facts["code"], facts["why"], facts["attempt"]) == ("cancelled", None, why, 0)
    said = alice.tp("job", "wait", orphan)
    assert said.code == 8 and why in said.err, said
    # what is over already: nothing to wait for, or nothing to hope for
    late = alice.submit("then", "--after", parent)
    assert alice.ended(late)["state"] == "completed"
    before = alice.runs()
    said = alice.tp("submit", "then", "--after", failing)
    assert said.code == 3 and f"nothing can come after {failing}, which is failed" in said.err, said
    assert alice.runs() == before


@pytest.mark.long
def test_after_a_run_that_slurm_forgot(make_cluster: Callable[..., Cluster]) -> None:
    """22.05 takes a dependency on a job it does not know, later ones refuse it: it is never asked for."""
    alice = Researcher(make_cluster(nodes=1, min_job_age=2))
    alice.experiment("exp", "exit 0")
    done = alice.run("exp")
    until(lambda: not alice.jobs(), "Slurm has forgotten the job", 150, 1)
    later = alice.submit("exp", "--after", done["run"])
    assert "Dependency=(null)" in alice.slurm(
        "scontrol", "show", "job", alice.record(later, "job.json")["id"]
    )
    assert alice.ended(later)["state"] == "completed"


def test_hold(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0")
    run = alice.submit("exp", "--hold")
    facts = alice.status(run)
    assert (facts["state"], facts["why"]) == ("queued", "waiting: JobHeldUser")
    assert alice.tp("job", "logs", run).code == 3
    alice.slurm("scontrol", "release", facts["job"])
    assert alice.ended(run)["state"] == "completed"


@pytest.mark.parametrize(("train", "code"), [("exit 0", 0), ("exit 9", 8)])
def test_wait(cluster: Cluster, train: str, code: int) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", train)
    said: Said = alice.tp("submit", "exp", "--wait")
    run = said.out.strip()
    assert said.code == code
    if code:
        assert f"error: {run} failed with 9: the command ended with exit code 9 on node 0" in said.err, said
    else:
        assert said.err.endswith(f"{run}: completed\n"), said


@pytest.mark.long
def test_waiting_outlives_a_controller_that_is_away(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=1, slurm_conf=("MessageTimeout=2",))
    alice = Researcher(small)
    alice.experiment("exp", "sleep 8; exit 4")
    run = alice.submit("exp")
    alice.running(run)
    waiting = small.popen(
        "login", ["tp", "--site", f"{alice.root}/site.yaml", "job", "wait", run], user="alice"
    )
    small.daemon("login", "slurmctld", "STOP")
    try:
        until(
            lambda: alice.tp("job", "status", run, "--json").out.count('"state": "unknown"'),
            "unknown",
            30,
            0.2,
        )
        assert waiting.poll() is None
    finally:
        small.daemon("login", "slurmctld", "CONT")
    assert waiting.wait(60) == 8
    assert alice.status(run)["code"] == 4
