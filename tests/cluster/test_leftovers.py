"""After a run nothing of it is left on any node, however it ended."""

from __future__ import annotations

import pytest
from cluster.harness import Cluster
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
    stubborn) trap '' TERM INT; while :; do sleep 1; done ;;
esac
exec sleep 300
"""
ENDS = {"success": "completed", "failure": "failed", "cancel": "cancelled", "stubborn": "cancelled", "time": "timed-out"}


def check(alice: Researcher, end: str, *options: str) -> None:
    alice.experiment("exp", MESS)
    run = alice.submit("exp", "--profile", "one:2", "--time", "1m" if end == "time" else "10m", *options, "--", end)
    if end in ("cancel", "stubborn"):
        alice.running(run)
        listed = [alice.cluster.run(host, ["ls", "/tmp"]).stdout for host in ("n1", "n2")]
        assert [len(text.split()) for text in listed] == [1, 1]
        assert alice.tp("job", "cancel", run).code == 0
    assert alice.ended(run, 180)["state"] == ENDS[end]
    until(lambda: "COMPLETING" not in alice.slurm("squeue", "-ho%T", "--me"), "Slurm is done", 60, 0.2)
    alice.assert_nothing_left()


CASES = [pytest.param(end, marks=() if end in ("failure", "cancel") else pytest.mark.long) for end in ENDS]


@pytest.mark.parametrize("end", CASES)
def test_on_the_host(cluster: Cluster, end: str) -> None:
    check(Researcher(cluster), end)


@pytest.mark.parametrize("end", CASES)
def test_in_a_container(cluster: Cluster, python_image: str, end: str) -> None:
    check(Researcher(cluster, runtime="apptainer"), end, "--image", python_image)


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
        assert facts["state"] == "failed" and facts["code"] not in (0, None), facts
        assert f"{place} is there already" in alice.log(run)
    finally:
        for host in cluster.spec.compute:
            cluster.run(host, ["rm", "-f", place])
