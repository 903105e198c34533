"""Copies of images on the nodes' own disks: made once however many jobs begin at once, and never believed blindly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.harness.tools import until
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster

FOLDER = "/local/images"
OWN = f"{FOLDER}/tuneplane-images-1001"
COPYING = "tuneplane: copying the image to this node"
SHARED = "tuneplane: the shared image is used, not a copy on this node"


@pytest.fixture
def disk(cluster: Cluster) -> Iterator[str]:
    """A folder for copies on every node, as an admin makes it: everybody's, and sticky."""
    for host in cluster.spec.compute:
        cluster.run(host, ["install", "-d", "-m", "1777", FOLDER], check=True)
    yield FOLDER
    for host in cluster.spec.compute:
        cluster.run(host, ["rm", "-rf", "/local"], check=True)


def staged(cluster: Cluster, folder: str, **changes: Any) -> Researcher:
    """A researcher at a site that copies images; her experiment `exp` runs on n1."""
    alice = Researcher(cluster)
    runtime = {"kind": "apptainer", "gpu": "none", "staging": {"folder": folder, "keep_free": "0"}}
    alice.rewrite_site(runtime=runtime, **changes)
    # the container itself says which file it is of
    train = 'printf "%s\\n" "$APPTAINER_CONTAINER"'
    alice.experiment("exp", train, config={"resources": {"nodelist": "n1"}})
    return alice


def log_of(alice: Researcher, run: str, state: str = "completed") -> str:
    """All logs of a run that ended so."""
    facts = alice.ended(run)
    assert facts["state"] == state, (facts, alice.log(run))
    return alice.log(run)


def names(cluster: Cluster, place: str = OWN) -> list[str]:
    return sorted(cluster.run("n1", ["ls", "-A", place]).stdout.split())


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.long)])
def test_jobs_that_begin_at_once_copy_once(
    cluster: Cluster, python_image: str, disk: str, count: int
) -> None:
    alice = staged(cluster, disk)
    runs = [alice.submit("exp", "--hold", "--image", python_image) for _ in range(count)]
    jobs = [alice.record(run, "job.json")["id"] for run in runs]
    alice.slurm("scontrol", "release", ",".join(jobs))
    logs = [log_of(alice, run) for run in runs]
    assert sum(log.count(COPYING) for log in logs) == 1
    [lock, copy] = names(cluster)
    assert lock == f"{copy.removesuffix('.sif')}.lock"
    assert all(f"{OWN}/{copy}\n" in log and SHARED not in log for log in logs)
    said = cluster.run("n1", ["stat", "-c", "%U %a", OWN, f"{OWN}/{copy}"]).stdout.split("\n")
    assert said[:2] == ["alice 700", "alice 400"]
    # a later one takes it as it is
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert COPYING not in log and f"{OWN}/{copy}\n" in log
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_copy_that_is_damaged_is_made_again(cluster: Cluster, python_image: str, disk: str) -> None:
    alice = staged(cluster, disk)
    log_of(alice, alice.submit("exp", "--image", python_image))
    [_, copy] = names(cluster)
    damage = (
        f"chmod u+w {OWN}/{copy}; printf x | dd of={OWN}/{copy} bs=1 seek=30000000 conv=notrunc status=none"
    )
    cluster.run("n1", ["sh", "-c", damage], user="alice", check=True)
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert "the copy on this node is removed and made again" in log and log.count(COPYING) == 1
    assert f"{OWN}/{copy}\n" in log


@pytest.mark.long
def test_a_full_disk(cluster: Cluster, python_image: str, disk: str) -> None:
    """Before the copy begins, and in its midst."""
    small = "/local/small"
    make = f"mkdir -p {small} && mount -t tmpfs -o size=20m,mode=1777 tmpfs {small}"
    cluster.run("n1", ["sh", "-ec", make], check=True)
    try:
        alice = staged(cluster, small)
        log = log_of(alice, alice.submit("exp", "--image", python_image))
        assert f"{SHARED}: {small}/tuneplane-images-1001 has " in log and " bytes free, needed are " in log
        assert f"{python_image}\n" in log and COPYING not in log
        # `df` says that there is room: somebody else takes it
        alice.wrapper("df", 'printf "Avail\\n900000000\\n"')
        alice.wrapper("fallocate", "exit 1")
        alice.rewrite_site(path=alice.wrapped())
        log = log_of(alice, alice.submit("exp", "--image", python_image))
        assert log.count(COPYING) == 1 and f"{SHARED}: copying stopped at " in log, log
        assert f"{python_image}\n" in log
        assert [
            name for name in names(cluster, f"{small}/tuneplane-images-1001") if ".lock" not in name
        ] == []
    finally:
        cluster.run("n1", ["umount", small], check=True)


SLOW = 'case "$*" in *bs=4M*) echo slow >&2; sleep 30 ;; esac\nexec "$real" "$@"'
"""A `dd` that takes its time with the copy alone."""


@pytest.mark.long
def test_a_job_that_is_cancelled_while_it_copies(cluster: Cluster, python_image: str, disk: str) -> None:
    alice = staged(cluster, disk)
    alice.wrapper("dd", SLOW)
    alice.rewrite_site(path=alice.wrapped())
    run = alice.submit("exp", "--image", python_image)
    until(lambda: COPYING in alice.log(run), "it copies", 60)
    assert alice.tp("job", "cancel", run).code == 0
    assert alice.ended(run)["state"] == "cancelled"
    alice.assert_nothing_left()
    assert [name for name in names(cluster) if name.endswith(".sif")] == []
    alice.rewrite_site(path=["/usr/local/bin", "/usr/bin", "/bin"])
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert log.count(COPYING) == 1 and f"{OWN}/" in log


@pytest.mark.long
def test_a_copy_that_was_killed_is_not_taken(cluster: Cluster, python_image: str, disk: str) -> None:
    """Of a job that had no time to clear away: what it left is no copy."""
    alice = staged(cluster, disk)
    alice.wrapper("dd", SLOW)
    alice.rewrite_site(path=alice.wrapped())
    run = alice.submit("exp", "--image", python_image)
    until(lambda: COPYING in alice.log(run), "it copies", 60)
    # the shells that would clear away first
    for process in sorted(cluster.processes("n1", "alice"), key=lambda one: one.name != "bash"):
        with suppress(ProcessLookupError):
            os.kill(process.outer_pid, signal.SIGKILL)
    assert alice.ended(run)["state"] == "failed"
    until(lambda: not cluster.processes("n1", "alice"), "nothing of it runs", 60)
    left = names(cluster)
    assert any(".part" in name for name in left) and not any(name.endswith(".sif") for name in left)
    alice.rewrite_site(path=["/usr/local/bin", "/usr/bin", "/bin"])
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert log.count(COPYING) == 1


# ---- what others put there

PLANTS = {
    "folder": "mkdir -m 777 {place} && cp /bin/true {place}/evil && chmod -R a+rwX {place}",
    "file": "cp /bin/true {place}",
    "link": "mkdir -m 777 -p /tmp/bob && ln -s /tmp/bob {place}",
}


def planted(cluster: Cluster, what: str, place: str) -> None:
    cluster.run("n1", ["sh", "-ec", PLANTS[what].format(place=place)], user="bob", check=True)


def untouched(cluster: Cluster, what: str, place: str) -> None:
    """It is bob's as it was, and nobody put anything there."""
    asked = f"stat -c %U {place}; [ ! -d {place} ] || ls -A {place}/ "
    said = cluster.run("n1", ["sh", "-c", asked]).stdout.split()
    assert said == ["bob", *(["evil"] if what == "folder" else [])]


@pytest.fixture
def tidy(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.run("n1", ["sh", "-c", "rm -rf /tmp/bob /tmp/tp-*"])


CASES = [pytest.param(what, marks=() if what == "folder" else pytest.mark.long) for what in PLANTS]


@pytest.mark.parametrize("what", CASES)
def test_a_planted_folder_for_copies(
    cluster: Cluster, python_image: str, disk: str, tidy: None, what: str
) -> None:
    """The shared image is used, and nothing of what bob put there."""
    alice = staged(cluster, disk)
    for place in (OWN, f"{FOLDER}/tuneplane-images"):
        planted(cluster, what, place)
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert f"{SHARED}: it is not a folder of this user alone" in log
    assert "not used, since it is not a folder of root alone" in log
    assert COPYING not in log and f"{python_image}\n" in log
    for place in (OWN, f"{FOLDER}/tuneplane-images"):
        untouched(cluster, what, place)


@pytest.mark.parametrize("what", CASES)
def test_a_planted_scratch_folder(cluster: Cluster, python_image: str, tidy: None, what: str) -> None:
    """Its name is known once the run has one; the job ends, and says why."""
    alice = Researcher(cluster, runtime="apptainer")
    alice.experiment("exp", 'touch "$TUNEPLANE_OUTPUT_DIR/ran"', config={"resources": {"nodelist": "n1"}})
    run = alice.submit("exp", "--hold", "--image", python_image)
    place = f"/tmp/tp-{run[-8:]}-1-0"
    planted(cluster, what, place)
    alice.slurm("scontrol", "release", alice.record(run, "job.json")["id"])
    facts = alice.ended(run)
    assert (facts["state"], facts["code"]) == ("failed", 1), facts
    assert facts["why"] == "its scratch folder is there already or cannot be made on node 0 (n1)"
    assert not alice.folder(f"runs/{run}/output/ran").exists()
    untouched(cluster, what, place)


@pytest.mark.long
def test_roots_copy_is_taken_and_bobs_is_not(
    cluster: Cluster, python_image: str, disk: str, tidy: None
) -> None:
    """What root laid out for everybody is used once it is held against its samples."""
    alice = staged(cluster, disk)
    log_of(alice, alice.submit("exp", "--image", python_image))
    [_, copy] = names(cluster)
    place = f"{FOLDER}/tuneplane-images"
    lay = f"install -d -m 755 {place} && install -m 644 {python_image} {place}/{copy} && rm -rf {OWN}"
    cluster.run("n1", ["sh", "-ec", lay], check=True)
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert f"{place}/{copy}\n" in log and COPYING not in log
    cluster.run("n1", ["chown", "bob", f"{place}/{copy}"], check=True)
    log = log_of(alice, alice.submit("exp", "--image", python_image))
    assert log.count(COPYING) == 1 and f"{OWN}/{copy}\n" in log
