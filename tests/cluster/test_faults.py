"""What breaks under a run ends it in a bounded time, with a record that names it, and nothing of it stays anywhere."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import report
from cluster.harness import Cluster, ClusterSpec
from cluster.harness.enter import Process
from cluster.harness.images import in_host, ray_sif, torch_sif
from cluster.harness.tools import until
from cluster.researcher import Researcher, player

pytestmark = pytest.mark.cluster

BOUND, DEFAULT_BOUND = 10.0, 60.0
"""Seconds of silence that are death: at the tests' site, and where a site says nothing."""
GRACE = 15.0
"""Seconds that the living may take to end once it is known who failed."""
SLACK = 5.0
"""What the rest takes on a busy machine: noticing, writing, Slurm's own ways."""


@pytest.fixture(scope="module")
def steady(suite: str) -> Iterator[Cluster]:
    """Slurm itself notices nothing for five minutes here, as it is by default."""
    with Cluster(ClusterSpec(suite=suite, slurmd_timeout=300)) as running:
        yield running


class Kind(NamedTuple):
    """A way of launching: its method, the program's words that wait, what shows that all of it is up."""

    method: str
    image: Callable[[], Path]
    up: tuple[str, ...]


KINDS = {
    "torchrun": Kind("toy/torchrun", torch_sif, tuple(f"up-{rank}" for rank in range(6))),
    "ray": Kind("toy/ray", lambda: ray_sif("2.60.0"), ("up",)),
}


def submitted(
    alice: Researcher, kind: str, *words: str, image: str = "", options: tuple[str, ...] = ()
) -> str:
    """Three nodes, the first of them the head and the batch host."""
    alice.experiment("exp", method=KINDS[kind].method)
    chosen = image or in_host(KINDS[kind].image())
    return alice.submit("exp", "--profile", "cpu:3", "--image", chosen, *options, "--", *(words or ("wait",)))


def up(alice: Researcher, kind: str, *words: str) -> str:
    """A run that waits on three nodes."""
    run = submitted(alice, kind, *words)
    alice.appears(run, *KINDS[kind].up, timeout=240)
    return run


def gone(alice: Researcher, hosts: list[str], since: float, within: float) -> float:
    """Wait until nothing of hers runs on these hosts; seconds since then."""
    left = {host: [one.argv for one in alice.cluster.processes(host, alice.user)] for host in hosts}

    def none() -> bool:
        left.update({h: [one.argv for one in alice.cluster.processes(h, alice.user)] for h in hosts})
        return not any(left.values())

    until(none, f"nothing is left on {', '.join(hosts)}", within, 0.1)
    return time.monotonic() - since


LOST = ("lost",)


class Expected(NamedTuple):
    """The record of an end: exit code, node and rank, and one of the reasons."""

    code: int | None
    node: int
    reasons: tuple[str, ...]
    rank: int | None = None


def check(
    alice: Researcher, run: str, names: tuple[str, str], since: float, expected: Expected, bound: float = BOUND,
    living: tuple[str, ...] = ("n1", "n2", "n3"),
) -> dict[str, Any]:  # fmt: skip
    """The run ends in time, as expected, and leaves nothing on the hosts that live; gives the verdict."""
    place, longest = alice.folder(f"runs/{run}/attempts/1/exit.json"), bound + GRACE + SLACK
    until(place.exists, f"{run} has a record of its end\n{alice.log(run)}", longest + 20, 0.1)
    ended = time.monotonic() - since
    left = gone(alice, list(living), since, 20)
    said = alice.folder(f"runs/{run}/attempts/1/verdict").stat().st_mtime
    judged = said - (time.time() - time.monotonic()) - since
    verdict: dict[str, Any] = alice.exit(run)["verdict"] or {}
    code = alice.exit(run)["code"]
    keys = ("node", "rank", "reason", "message")
    report.row("faults", *names, judged, ended, left, bound, code, *(verdict.get(key) for key in keys))
    assert judged < bound + SLACK and max(ended, left) < longest, f"{judged} {ended} {left}\n{alice.log(run)}"
    assert expected.code in (None, code), (code, verdict)
    assert (verdict["node"], verdict["host"]) == (expected.node, f"n{expected.node + 1}"), verdict
    assert verdict["reason"] in expected.reasons, verdict
    assert verdict.get("rank") == expected.rank, verdict
    return verdict


def idle(alice: Researcher) -> None:
    alice.cluster.wait_idle(timeout=240)
    alice.assert_nothing_left()


# ---- what a program does


PROGRAMS = {
    "a rank exits 3": ("torchrun", ("wait", "3", "3"), Expected(3, 1, ("exited",), 3)),
    "the driver exits 3": ("ray", ("exit", "3"), Expected(3, 0, ("exited",))),
    "an actor's process exits 3": ("ray", ("actor", "3"), Expected(3, 0, ("exited",))),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.long if "actor" in case else ()) for case in PROGRAMS]
)
def test_a_program_that_fails(steady: Cluster, apptainer_suite: str, case: str) -> None:
    kind, words, expected = PROGRAMS[case]
    alice = player(steady)
    run = submitted(alice, kind, *words)
    ready = KINDS[kind].up if "driver" not in case else ("world.json",)
    alice.appears(run, *ready, timeout=240)
    verdict = check(alice, run, (kind, case), time.monotonic(), expected)
    if kind == "torchrun":
        assert "rank 3 gives up" in "\n".join(verdict["tail"]) + alice.log(run)
    assert alice.status(run)["code"] == 3
    idle(alice)


# ---- what a node does


def killed(cluster: Cluster, host: str, chosen: Callable[[Process], bool]) -> None:
    """Kill the processes of hers on a host that are chosen."""
    found = [one for one in cluster.processes(host, "alice") if one.name != "srun" and chosen(one)]
    assert found, cluster.processes(host, "alice")
    for one in found:
        try:
            os.kill(one.outer_pid, 9)
        except ProcessLookupError:
            continue


def contained(one: Process) -> bool:
    """All but the shell that the step started, which Slurm watches."""
    return not any(word.endswith("node.sh") for word in one.argv)


def vanish(cluster: Cluster, host: str) -> float:
    """A power cut: nobody is told, no connection is closed; gives the moment."""
    cluster.cut(host)
    since = time.monotonic()
    cluster.kill(host)
    return since


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_workers_container_is_killed(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    alice = player(steady)
    run = up(alice, kind)
    since = time.monotonic()
    killed(steady, "n3", contained)
    check(alice, run, (kind, "a worker's container is killed"), since, Expected(125, 2, LOST))
    idle(alice)


@pytest.mark.long
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_process_of_ray_is_killed(steady: Cluster, apptainer_suite: str, name: str) -> None:
    host = "n3" if name == "raylet" else "n1"
    alice = player(steady)
    run = up(alice, "ray")
    since = time.monotonic()
    killed(steady, host, lambda one: one.name == name)
    expected = Expected(None, int(host[1]) - 1, ("ray", "signal", "exited"))
    check(alice, run, ("ray", f"{name} is killed on {host}"), since, expected)
    idle(alice)


@pytest.mark.parametrize("kind", [pytest.param("torchrun"), pytest.param("ray", marks=pytest.mark.long)])
def test_a_worker_node_disappears(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    alice = player(steady)
    run = up(alice, kind)
    since = vanish(steady, "n3")
    try:
        expected = Expected(125, 2, LOST)
        check(alice, run, (kind, "a worker node disappears"), since, expected, living=("n1", "n2"))
    finally:
        steady.restart("n3")
        idle(alice)
    facts = alice.ended(run)
    assert facts["state"] == "failed" and "n3" in facts["why"], facts


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_node_disappears_with_the_default_bound(
    steady: Cluster, apptainer_suite: str, kind: str
) -> None:
    alice = player(steady, network={"interface": "eth0"})
    run = up(alice, kind)
    since = vanish(steady, "n3")
    try:
        case = (kind, "a worker node disappears, defaults")
        check(alice, run, case, since, Expected(125, 2, LOST), DEFAULT_BOUND, ("n1", "n2"))
    finally:
        steady.restart("n3")
        idle(alice)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_host_disappears(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    """Nobody is left who could write a record; those who live end all the same."""
    alice = player(steady)
    run = up(alice, kind)
    since = vanish(steady, "n1")
    try:
        left = gone(alice, ["n2", "n3"], since, BOUND + GRACE + SLACK)
        report.row(
            "faults",
            kind,
            "the batch host disappears",
            None,
            None,
            left,
            BOUND,
            None,
            0,
            None,
            "no record",
            None,
        )
        assert not alice.folder(f"runs/{run}/attempts/1/exit.json").exists()
    finally:
        steady.restart("n1")
        idle(alice)


@pytest.mark.long
def test_the_verdict_of_a_lost_batch_host(make_cluster: Callable[..., Cluster]) -> None:
    """Once Slurm has noticed, too; what the survivors said of the head stands in the record."""
    small = make_cluster(nodes=2, slurmd_timeout=30)
    alice = player(small, runtime="host")
    alice.experiment("exp", "exec sleep 600")
    run = alice.submit("exp", "--profile", "one:2")
    alice.running(run)
    since = vanish(small, "n1")
    gone(alice, ["n2"], since, BOUND + GRACE + SLACK)
    facts = alice.ended(run, 180)
    report.row(
        "times", "the verdict of a run that lost its batch host, SlurmdTimeout=30", time.monotonic() - since
    )
    assert facts["state"] == "failed" and "n1" in facts["why"], facts
    said = alice.tp("job", "why", run)
    assert said.code == 0 and "n1" in said.out, said


# ---- what is wrong with a node before anything runs on it


@contextmanager
def broken(cluster: Cluster, host: str, script: str, mend: str) -> Iterator[None]:
    cluster.run(host, ["sh", "-ec", script], check=True)
    try:
        yield
    finally:
        cluster.run(host, ["sh", "-ec", mend], check=True)


@pytest.mark.parametrize("kind", [pytest.param("ray", marks=pytest.mark.long), "torchrun"])
def test_an_image_is_missing_on_one_node(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    alice = player(steady)
    image = in_host(KINDS[kind].image())
    for host in ("login", "n1", "n2"):
        steady.run(host, ["sh", "-ec", f"mkdir -p /opt/images; touch /opt/images/x.sif; mount --bind {image} /opt/images/x.sif"], check=True)  # fmt: skip
    try:
        since = time.monotonic()
        run = submitted(alice, kind, image="/opt/images/x.sif")
        expected = Expected(5, 2, ("preflight", "could-not-start"))
        verdict = check(alice, run, (kind, "an image is missing on one node"), since, expected)
        assert "/opt/images/x.sif" in verdict["message"], verdict
    finally:
        for host in ("login", "n1", "n2"):
            steady.run(host, ["umount", "/opt/images/x.sif"])
        idle(alice)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_room_in_tmp_on_one_node(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    alice = player(steady)
    steady.fill("n3")
    try:
        since = time.monotonic()
        run = submitted(alice, kind)
        verdict = check(
            alice, run, (kind, "/tmp is full on one node"), since, Expected(None, 2, ("preflight",))
        )
        assert "/tmp" in verdict["message"] or "scratch folder" in verdict["message"], verdict
    finally:
        steady.empty("n3")
        idle(alice)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_does_not_resolve(steady: Cluster, apptainer_suite: str, kind: str) -> None:
    """The node does not know its own name; addresses are numbers, so that hurts nobody or is refused by name."""
    alice = player(steady)
    script = "cp /etc/hosts /etc/hosts.whole; grep -v ' n3$' /etc/hosts.whole >/etc/hosts"
    with broken(steady, "n3", script, "cat /etc/hosts.whole >/etc/hosts"):
        since = time.monotonic()
        run = submitted(alice, kind)
        verdict = check(
            alice, run, (kind, "a node's name does not resolve"), since, Expected(None, 2, ("preflight",))
        )
        assert "n3" in verdict["message"], verdict
    idle(alice)


LISTEN = """
import socket, sys, time
held = socket.socket()
held.bind(("0.0.0.0", int(sys.argv[1])))
held.listen()
print("held", flush=True)
time.sleep(600)
"""


CELLS = {"torchrun": 1, "ray": 2}
"""Cells of 64 ports that a node of each kind claims here."""


def guesses(job: str, cells: int) -> tuple[int, int]:
    """The first ports of the ranges that the first attempt of a job claims, and when it cannot have that one."""
    from tuneplane.job.team.ports import LOWEST, WIDTH, ephemeral_floor

    guess = int.from_bytes(hashlib.sha256(f"{job}/1".encode()).digest()[:8], "big")
    places = (ephemeral_floor() - LOWEST) // WIDTH - cells + 1
    first, second = (LOWEST + (guess + step) % places * WIDTH for step in (0, 1))
    return first, second


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_is_taken(steady: Cluster, apptainer_suite: str, kind: str, offset: int) -> None:
    """Another program listens on the first or the second port of the first guess, on the head and on a worker."""
    alice = player(steady)
    run = submitted(alice, kind, options=("--hold",))
    job = alice.record(run, "job.json")["id"]
    first, second = guesses(job, CELLS[kind])
    port = first + offset
    words = ["python3", "-c", LISTEN, str(port)]
    held = [steady.popen(host, words, user="bob", stdout=-1) for host in ("n1", "n3")]
    try:
        for one in held:
            assert one.stdout is not None and one.stdout.readline() == "held\n"
        alice.slurm("scontrol", "release", job)
        alice.appears(run, *KINDS[kind].up, timeout=240)
        head = alice.record(run, "attempts/1/head.json")
        assert head["first"] == second, (head, port)
        went = f"goes on with {second} after {first}"
        report.row("faults", kind, f"port {offset} of the first range is taken", *[None] * 7, went)
        assert alice.tp("job", "cancel", run).code == 0
        alice.ended(run)
    finally:
        for one in held:
            one.kill_all()
            one.wait()
        idle(alice)
