"""After a run nothing of it is left on any node, however it ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.harness import Cluster, ClusterSpec
from cluster.harness.tools import until
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster

# writes into every place that is its own, and leaves a program of a session of its own behind
MESS = """
touch "$HOME/x" "$TMPDIR/x" "$XDG_CACHE_HOME/x"
mkdir -p "$TMPDIR/a/b" && chmod 500 "$TMPDIR/a"
setsid sleep 300 &
case $1 in
    success) exit 0 ;;
    failure) [ "$TUNEPLANE_NODE_RANK" = 0 ] || exit 5 ;;
    stubborn) trap '' TERM INT; touch "$TUNEPLANE_OUTPUT_DIR/$TUNEPLANE_NODE_RANK"; while :; do sleep 1; done ;;
esac
touch "$TUNEPLANE_OUTPUT_DIR/$TUNEPLANE_NODE_RANK"
exec sleep 300
"""
ENDS = {
    "success": "completed",
    "failure": "failed",
    "cancel": "cancelled",
    "stubborn": "cancelled",
    "time": "timed-out",
}


@pytest.fixture(scope="module")
def patient(suite: str) -> Iterator[Cluster]:
    """A cluster with Slurm's own KillWait, in which a supervisor can end a command that ignores TERM."""
    with Cluster(ClusterSpec(suite=suite, nodes=2, kill_wait=30)) as running:
        yield running


def check(alice: Researcher, end: str, *options: str) -> None:
    alice.experiment("exp", MESS)
    run = alice.submit(
        "exp", "--profile", "one:2", "--time", "1m" if end == "time" else "10m", *options, "--", end
    )
    if end in ("cancel", "stubborn"):
        alice.running(run)
        marks = [alice.folder(f"runs/{run}/output/{rank}") for rank in (0, 1)]
        until(lambda: all(mark.exists() for mark in marks), "both nodes have made their mess", 30)
        place = f"tp-{run[-8:]}-1-{{}}\n"
        assert [alice.cluster.run(f"n{rank + 1}", ["ls", "/tmp"]).stdout for rank in (0, 1)] == [
            place.format(0),
            place.format(1),
        ]
        assert alice.tp("job", "cancel", run).code == 0
    assert alice.ended(run, 180)["state"] == ENDS[end]
    until(lambda: "COMPLETING" not in alice.slurm("squeue", "-ho%T", "--me"), "Slurm is done", 60, 0.2)
    alice.assert_nothing_left()


CASES = [pytest.param(end, marks=() if end in ("failure", "cancel") else pytest.mark.long) for end in ENDS]


@pytest.mark.parametrize("end", CASES)
def test_on_the_host(patient: Cluster, end: str) -> None:
    check(Researcher(patient), end)


@pytest.mark.parametrize("end", CASES)
def test_in_a_container(patient: Cluster, python_image: str, end: str) -> None:
    check(Researcher(patient, runtime="apptainer"), end, "--image", python_image)


@pytest.mark.long
def test_a_scratch_folder_of_somebody_else(cluster: Cluster) -> None:
    """The folder's name cannot be known before the run has one; who knows it and is quick gains nothing."""
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0")
    run = alice.submit("exp", "--hold")
    place = f"/tmp/tp-{run[-8:]}-1-0"
    try:
        for host in cluster.spec.compute:
            cluster.run(host, ["ln", "-s", "/shared/home/bob", place], user="bob", check=True)
        alice.slurm("scontrol", "release", alice.record(run, "job.json")["id"])
        facts = alice.ended(run)
        assert (facts["state"], facts["code"]) == ("failed", 1), facts
        assert facts["why"].startswith(
            "its scratch folder is there already or cannot be made on node 0 (n"
        ), facts
    finally:
        for host in cluster.spec.compute:
            cluster.run(host, ["rm", "-f", place])
