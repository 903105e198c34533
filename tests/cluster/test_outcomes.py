"""How runs stand, and how they ended: also when Slurm knows little, nothing, or something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.harness.tools import until
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster


def ends_with(alice: Researcher, train: str, *options: str) -> dict[str, Any]:
    alice.experiment("exp", train)
    return alice.run("exp", *options)


def brief(facts: dict[str, Any]) -> tuple[str, int | None, str]:
    return facts["state"], facts["code"], facts["why"]


def forget(cluster: Cluster) -> None:
    """Restart the controller without its state: it knows no job any more."""
    cluster.daemon("login", "slurmctld", "TERM")
    until(lambda: "slurmctld" not in {p.name for p in cluster.processes("login")}, "no slurmctld", 20)
    cluster.run("login", ["slurmctld", "-c"], check=True)
    cluster.wait_idle()


def seven(alice: Researcher) -> dict[str, Any]:
    facts = ends_with(alice, 'exit "$((TUNEPLANE_NODE_RANK * 7))"', "--profile", "one:2")
    host = alice.record(facts["run"], "attempts/1/node-1.json")["host"]
    assert brief(facts) == ("failed", 7, f"the command ended with exit code 7 on node 1 ({host})")
    return facts


def accounted(cluster: Cluster, job: str) -> bool:
    said = cluster.run("login", ["sacct", "-nXPj", job, "-o", "State,End"]).stdout.strip()
    return bool(said) and "Unknown" not in said and not said.startswith(("RUNNING", "PENDING"))


def test_exit_7_without_accounting_and_after_slurm_forgot(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=2)
    alice = Researcher(small)
    facts = seven(alice)
    assert [job for job, _ in alice.jobs()] == [facts["job"]]
    forget(small)
    assert alice.jobs() == []
    assert alice.status(facts["run"]) == facts


def test_exit_7_with_accounting_and_after_slurm_forgot(make_cluster: Callable[..., Cluster]) -> None:
    counted = make_cluster(nodes=2, accounting=True)
    alice = Researcher(counted)
    facts = seven(alice)
    until(lambda: accounted(counted, facts["job"]), "the job is in the accounting", 30)
    forget(counted)
    assert alice.jobs() == []
    assert alice.status(facts["run"]) == facts


@pytest.mark.long
def test_exit_7_after_minjobage(make_cluster: Callable[..., Cluster]) -> None:
    alice = Researcher(make_cluster(nodes=2, min_job_age=2))
    facts = seven(alice)
    until(lambda: not alice.jobs(), "Slurm has forgotten the job", 150, 1)
    assert alice.status(facts["run"]) == facts


@pytest.mark.parametrize(
    ("train", "code", "why"),
    [
        ("kill -9 $$", 137, "the command was killed by SIGKILL on node 0 (n1)"),
        pytest.param("kill -TERM $$", 143, "the command was killed by SIGTERM on node 0 (n1)", marks=pytest.mark.long),
        pytest.param("exit 255", 255, "the command ended with exit code 255 on node 0 (n1)", marks=pytest.mark.long),
        pytest.param("exit 143", 143, "the command ended with exit code 143 on node 0 (n1)", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_train_sh_that_ends_badly(cluster: Cluster, train: str, code: int, why: str) -> None:
    alice = Researcher(cluster)
    assert brief(ends_with(alice, train, "--profile", "one:1")) == ("failed", code, why)
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_train_sh_that_kills_its_supervisor(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    facts = ends_with(alice, 'kill -9 "$PPID"; while :; do :; done')
    assert facts["state"] == "failed" and facts["code"] == 137, facts
    assert "before a supervisor could say why" in facts["why"]
    alice.assert_nothing_left()


@pytest.mark.long
def test_the_job_script_is_killed(cluster: Cluster) -> None:
    """Nothing of the job can leave a record of its end; Slurm still says that it failed."""
    alice = Researcher(cluster)
    alice.experiment("exp", "exec sleep 60")
    run = alice.submit("exp")
    alice.running(run)
    scripts = [
        process
        for process in cluster.processes("n1", "alice")
        if len(process.argv) > 2 and process.argv[-1].endswith("slurm_script")
    ]
    assert scripts
    for process in scripts:
        cluster.run("n1", ["kill", "-9", str(process.pid)], check=True)
    facts = alice.ended(run)
    assert facts["state"] == "failed", facts
    until(lambda: not cluster.processes("n1", "alice"), "nothing of it runs", 30)


def test_a_job_nobody_knows_any_more_is_unknown(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=1)
    alice = Researcher(small)
    alice.experiment("exp")
    run = alice.submit("exp", "--hold")
    assert alice.status(run)["state"] == "queued"
    forget(small)
    expected = "unknown", None, "the scheduler does not know the job, and it left no record of its end"
    assert brief(alice.status(run)) == expected
    said = alice.tp("job", "cancel", run)
    assert said.code != 0
    said = alice.tp("job", "wait", run)
    assert said.code == 8, said


def test_cancelled(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "trap 'exit 0' TERM; sleep 300 & wait")
    queued = alice.submit("exp", "--hold")
    assert alice.tp("job", "cancel", queued).code == 0
    assert brief(alice.ended(queued)) == ("cancelled", None, "Slurm says CANCELLED")
    run = alice.submit("exp", "--profile", "one:2")
    alice.running(run)
    assert alice.status(run)["state"] == "running"
    assert alice.tp("job", "cancel", run).code == 0
    facts = alice.ended(run)
    assert facts["state"] == "cancelled" and facts["code"], facts
    said = alice.tp("job", "cancel", run)
    assert said.code == 3 and "has ended: cancelled" in said.err, said
    alice.assert_nothing_left()


@pytest.mark.long
def test_cancelled_behind_our_back(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exec sleep 300")
    run = alice.submit("exp")
    alice.running(run)
    cluster.run("login", ["scancel", alice.status(run)["job"]], check=True)
    facts = alice.ended(run)
    assert (facts["state"], facts["why"]) == ("cancelled", "cancelled while it ran")
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_time_limit(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exec sleep 300")
    run = alice.submit("exp", "--time", "1m")
    facts = alice.ended(run, 150)
    assert (facts["state"], facts["why"]) == ("timed-out", "the time limit was reached"), facts
    assert alice.tp("job", "wait", run).code == 8
    alice.assert_nothing_left()


# -- whose job it is ----------------------------------------------------------------------------------------


def claim(researcher: Researcher, run: str, job: str) -> None:
    """Write another job's id into a run's record."""
    record = researcher.record(run, "job.json") | {"id": job}
    researcher.write(f"runs/{run}/job.json", json.dumps(record))


def test_a_foreign_job_is_not_believed_and_not_cancelled(cluster: Cluster) -> None:
    alice, bob = Researcher(cluster), Researcher(cluster, user="bob")
    for researcher in (alice, bob):
        researcher.experiment("exp", "exec sleep 300")
    theirs, own = bob.submit("exp"), alice.submit("exp")
    mine = alice.submit("exp", "--hold")
    try:
        for run, researcher in ((theirs, bob), (own, alice)):
            researcher.running(run)
            claim(alice, mine, researcher.record(run, "job.json")["id"])
            assert alice.status(mine)["state"] == "unknown"
            said = alice.tp("job", "cancel", mine)
            assert said.code != 0, said
            assert researcher.status(run)["state"] == "running"
            assert {row["run"]: row["state"] for row in alice.ls()} == {own: "running", mine: "unknown"}
    finally:
        cluster.run("login", ["scancel", "--user=alice"])
        cluster.run("login", ["scancel", "--user=bob"])
        cluster.wait_idle()


@pytest.mark.long
def test_a_job_id_that_slurm_used_again(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=1, min_job_age=2, slurm_conf=("FirstJobId=100", "MaxJobId=103"))
    alice = Researcher(small)
    alice.experiment("exp", "exit 5")
    alice.experiment("later", "exec sleep 300")
    old = alice.run("exp")
    held = alice.submit("exp", "--hold")
    lost = alice.record(held, "job.json")["id"]
    small.run("login", ["scancel", lost], check=True)
    until(lambda: not alice.jobs(), "Slurm has forgotten the jobs", 150, 1)
    later = [alice.submit("later", "--hold") for _ in range(3)]
    again = {alice.record(run, "job.json")["id"]: run for run in later}
    assert old["job"] in again or lost in again, again
    assert alice.status(old["run"]) == old
    assert alice.status(held)["state"] == "unknown"
    assert alice.tp("job", "cancel", held).code != 0
    assert [alice.status(run)["state"] for run in later] == ["queued"] * 3


# -- many runs ----------------------------------------------------------------------------------------------

ODD_NAMES = [
    "a|b|c",
    "'quo\"ted'",
    "$(touch x)`y`",
    " blank ",
    "世界 é",
    "1\x1fRUNNING\x1fNone\x1f/",
    "%j",
    "-n",
]


def test_odd_names_of_other_jobs(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 3")
    odd = []
    for name in ODD_NAMES:
        words = [
            "sbatch",
            "--parsable",
            "--hold",
            f"--job-name={name}",
            f"--comment={name}",
            "--wrap",
            "true",
        ]
        odd.append(cluster.run("login", words, user="alice", cwd=alice.root, check=True).stdout.strip())
    try:
        done = alice.run("exp")
        queued = alice.submit("exp", "--hold")
        assert [(row["run"], row["state"], row["code"]) for row in alice.ls()] == sorted(
            [(queued, "queued", None), (done["run"], "failed", 3)],
            key=lambda row: (-alice.record(row[0])["created"], row[0]),
        )
        assert alice.tp("job", "cancel", queued).code == 0
    finally:
        cluster.run("login", ["scancel", *odd])


COUNT = 'echo "$*" >>"$HOME/asked-{name}"; exec "$real" "$@"'


def test_one_question_for_any_number_of_runs(make_cluster: Callable[..., Cluster]) -> None:
    counted = make_cluster(nodes=1, accounting=True)
    alice = Researcher(counted)
    alice.rewrite_site(path=alice.wrapped())
    for name in ("squeue", "sacct", "scontrol"):
        alice.wrapper(name, COUNT.replace("{name}", name))
    alice.experiment("exp", "exit 0")
    assert alice.ls() == []
    for _ in range(4):
        alice.submit("exp")
    for run in alice.runs():
        assert alice.ended(run)["state"] == "completed"
    # running ones: 22.05 may record no folder of a job that was cancelled before it started
    alice.experiment("slow", "exec sleep 300")
    live = [alice.submit("slow") for _ in range(4)]
    for run in live:
        alice.running(run)

    def asked(name: str) -> int:
        place = alice.folder(f"/shared/home/alice/asked-{name}")
        return len(place.read_text().splitlines()) if place.exists() else 0

    def costs() -> tuple[int, ...]:
        before = [asked(name) for name in ("squeue", "sacct", "scontrol")]
        assert sorted(row["state"] for row in alice.ls()) == sorted(["completed", still] * 4)
        return tuple(
            asked(name) - then for name, then in zip(("squeue", "sacct", "scontrol"), before, strict=True)
        )

    still = "running"
    assert costs() == (1, 0, 0)
    counted.run("login", ["scancel", *(alice.record(run, "job.json")["id"] for run in live)], check=True)

    def all_accounted() -> None:
        for run in alice.runs():
            until(lambda run=run: accounted(counted, alice.record(run, "job.json")["id"]), "accounted", 30)  # type: ignore[misc]

    all_accounted()
    forget(counted)
    # a controller that begins anew makes the accounting of 22.05 look again
    all_accounted()
    still = "cancelled"
    assert costs() == (1, 1, 0)
