"""One run is one job, whatever stands between `tp` and Slurm, and whoever dies on the way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster.harness import Cluster
from cluster.harness.tools import until
from cluster.researcher import Researcher, Said

pytestmark = pytest.mark.cluster


def one_to_one(alice: Researcher, taken: int) -> None:
    """`taken` of her runs are jobs: each its own, and no job is anything else."""
    runs = {
        run: alice.record(run, "job.json")
        for run in alice.runs()
        if alice.folder(f"runs/{run}/job.json").exists()
    }
    pairs = {(record["id"], f"{alice.root}/runs/{run}") for run, record in runs.items()}
    mine = [(job, place) for job, place in alice.jobs() if place.startswith(f"{alice.root}/runs/")]
    assert len(pairs) == len(runs) == taken
    assert Counter(mine) == Counter(pairs)


def wrapped(cluster: Cluster, script: str, **slurm: object) -> Researcher:
    """A researcher at a site with a wrapper around sbatch, and an experiment `exp`."""
    alice = Researcher(cluster, slurm=slurm)
    alice.wrapper("sbatch", script)
    alice.rewrite_site(path=alice.wrapped())
    alice.experiment("exp", "exit 3")
    return alice


ACCEPTED = {
    "fails afterwards": '"$real" "$@" >/dev/null; exit 1',
    "fails afterwards with the id": '"$real" "$@"; exit 1',
    "is killed afterwards": '"$real" "$@" >/dev/null; kill -9 $$',
    "says nothing": '"$real" "$@" >/dev/null',
    "prints a banner": 'echo "Welcome to the 1st cluster of 2026"; echo; "$real" "$@"; echo 4242; echo "done."',
    "prints a number before": 'echo 1; "$real" "$@"',
    "prints a number after": '"$real" "$@"; echo 1',
    "prints a sentence": 'set -- "${@/--parsable/--no-kill}"; "$real" "$@"',
    "warns on stderr": 'echo "sbatch: error: your quota is low" >&2; "$real" "$@"',
    "ends its lines with returns": '"$real" "$@" | sed "s/$/\\r/"',
}
FIRST = ("fails afterwards", "prints a banner", "prints a number after")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(text, id=name, marks=() if name in FIRST else pytest.mark.long)
        for name, text in ACCEPTED.items()
    ],
)
def test_a_wrapper_that_hands_the_job_over(cluster: Cluster, script: str) -> None:
    alice = wrapped(cluster, script)
    run = alice.submit("exp")
    one_to_one(alice, 1)
    facts = alice.ended(run)
    assert (facts["state"], facts["code"]) == ("failed", 3)
    one_to_one(alice, 1)


def test_a_wrapper_that_fails_before(cluster: Cluster) -> None:
    alice = wrapped(cluster, 'echo "sbatch: error: no more jobs today" >&2; exit 1')
    said = alice.tp("submit", "exp")
    [run] = alice.runs()
    place = f"{alice.root}/runs/{run}"
    assert said == Said(7, "", f"error: Slurm did not take the job: no more jobs today\n  at       {place}\n")
    facts = alice.status(run)
    assert (facts["state"], facts["why"], facts["job"]) == ("new", "sbatch: no more jobs today", None)
    assert alice.tp("job", "wait", run).code == 8
    one_to_one(alice, 0)


def test_garbage_with_status_0_stays_uncertain(cluster: Cluster) -> None:
    alice = wrapped(cluster, 'printf "12 34\\n-5\\n07x\\n\\377\\n"')
    said = alice.tp("submit", "exp")
    [run] = alice.runs()
    assert said.code == 7 and f"it is not known whether Slurm took {run}: sbatch ended with 0" in said.err, (
        said
    )
    facts = alice.status(run)
    assert (facts["state"], facts["job"]) == ("uncertain", None)
    assert alice.tp("job", "cancel", run).code != 0
    one_to_one(alice, 0)


@pytest.mark.long
def test_a_number_that_is_no_job_is_never_believed(cluster: Cluster) -> None:
    alice = wrapped(cluster, "echo 1")
    run = alice.submit("exp")
    assert alice.status(run)["state"] == "unknown"
    assert alice.tp("job", "cancel", run).code != 0


@pytest.mark.long
def test_a_wrong_number_is_put_right_by_the_job_itself(cluster: Cluster) -> None:
    alice = wrapped(cluster, '"$real" "$@" >/dev/null; echo 1')
    run = alice.submit("exp")
    until(lambda: alice.status(run)["state"] == "failed", "it ended with its own code", 30, 0.3)
    assert alice.status(run)["code"] == 3
    one_to_one(alice, 1)


def test_id_and_cluster(make_cluster: Callable[..., Cluster]) -> None:
    counted = make_cluster(nodes=1, accounting=True)
    alice = wrapped(counted, f'echo "$("$real" "$@");{counted.name}"')
    run = alice.submit("exp")
    record = alice.record(run, "job.json")
    assert record["cluster"] == counted.name and record["id"].isdigit()
    facts = alice.ended(run)
    assert (facts["state"], facts["code"]) == ("failed", 3)
    held = alice.submit("exp", "--hold")
    assert alice.tp("job", "cancel", held).code == 0
    assert alice.ended(held)["state"] == "cancelled"
    one_to_one(alice, 2)


def stopped(small: Cluster, alice: Researcher) -> Said:
    """What `tp submit` says while the controller does not answer."""
    small.daemon("login", "slurmctld", "STOP")
    try:
        return alice.tp("submit", "exp")
    finally:
        small.daemon("login", "slurmctld", "CONT")


def test_sbatch_hangs_while_the_controller_is_stopped(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=1, slurm_conf=("MessageTimeout=4",))
    alice = wrapped(small, '"$real" "$@"; sleep 1000', submit_timeout=2)
    said = stopped(small, alice)
    [run] = alice.runs()
    assert (
        said.code == 7 and f"it is not known whether Slurm took {run}: it did not answer in time" in said.err
    ), said
    # no process of the wrapper is left to submit it later
    until(lambda: not small.processes("login", "alice"), "nothing of hers runs on the login host", 5)
    # the controller may have taken it from the socket all the same: then this very run is that job
    facts = alice.status(run)
    assert facts["state"] in ("uncertain", "queued", "running", "failed")
    until(lambda: alice.status(run)["state"] in ("uncertain", "failed"), f"{run} is over or nowhere", 30, 0.5)
    one_to_one(alice, 0 if alice.status(run)["state"] == "uncertain" else 1)


@pytest.mark.long
def test_sbatch_gives_up_and_the_controller_takes_the_job_later(make_cluster: Callable[..., Cluster]) -> None:
    """sbatch ends with 1, `Socket timed out on send/recv operation`: that is no refusal."""
    small = make_cluster(nodes=1, slurm_conf=("MessageTimeout=4",))
    alice = Researcher(small)
    alice.experiment("exp", "exit 3")
    said = stopped(small, alice)
    [run] = alice.runs()
    assert said.code == 7 and f"it is not known whether Slurm took {run}: " in said.err, said
    facts = until(
        lambda: (facts := alice.status(run))["state"] == "failed" and facts, "the controller took it", 30, 0.5
    )
    assert facts["code"] == 3 and facts["job"]
    one_to_one(alice, 1)


@pytest.mark.long
def test_nobody_can_be_asked(make_cluster: Callable[..., Cluster]) -> None:
    """The job is taken, its answer is lost, and squeue fails: uncertain, until Slurm can be asked again."""
    small = make_cluster(nodes=1)
    alice = wrapped(small, '"$real" "$@" >/dev/null; exit 1')
    alice.wrapper(
        "squeue",
        "echo 'squeue: error: slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
    )
    said = alice.tp("submit", "exp", "--hold")
    [run] = alice.runs()
    assert said.code == 7 and "it is not known whether" in said.err
    assert alice.status(run)["state"] == "uncertain"
    assert [row["state"] for row in alice.ls()] == ["uncertain"]
    assert alice.tp("job", "cancel", run).code != 0
    alice.wrapper("squeue", 'exec "$real" "$@"')
    facts = alice.status(run)
    assert facts["state"] == "queued" and facts["job"], facts
    one_to_one(alice, 1)


def test_tp_is_killed_between_acceptance_and_record(cluster: Cluster) -> None:
    alice = wrapped(cluster, '"$real" "$@"; kill -9 "$PPID"')
    assert alice.tp("submit", "exp").code == -9
    [run] = alice.runs()
    facts = alice.ended(run)
    assert (facts["state"], facts["code"]) == ("failed", 3)
    one_to_one(alice, 1)


@pytest.mark.long
def test_tp_is_killed_before_sbatch(cluster: Cluster) -> None:
    alice = wrapped(cluster, 'kill -9 "$PPID"; exit 1')
    assert alice.tp("submit", "exp").code == -9
    [run] = alice.runs()
    facts = alice.status(run)
    assert (facts["state"], facts["why"]) == ("uncertain", "tp ended before Slurm had answered")
    one_to_one(alice, 0)


@pytest.mark.long
def test_a_run_that_ended_and_was_forgotten_before_anybody_knew_its_job(
    make_cluster: Callable[..., Cluster],
) -> None:
    small = make_cluster(nodes=1, min_job_age=2)
    alice = wrapped(small, '"$real" "$@"; kill -9 "$PPID"')
    assert alice.tp("submit", "exp").code == -9
    [run] = alice.runs()
    until(lambda: alice.folder(f"runs/{run}/attempts/1/exit.json").exists(), "it has ended", 30)
    until(lambda: not alice.jobs(), "Slurm has forgotten the job", 150, 1)
    facts = alice.status(run)
    assert (facts["state"], facts["code"]) == ("failed", 3)
    assert facts["job"] == alice.folder(f"runs/{run}/job.id").read_text().strip()


@pytest.mark.long
def test_a_wrapper_that_submits_twice(cluster: Cluster) -> None:
    """`tp` cannot keep it from doing so; the second job finds the run taken."""
    alice = wrapped(cluster, '"$real" "$@" >/dev/null; exec "$real" "$@"')
    alice.experiment("slow", 'echo here >>"$TUNEPLANE_OUTPUT_DIR/starts"; sleep 3')
    run = alice.submit("slow")
    until(lambda: run not in alice.slurm("squeue", "--noheader", "--format=%Z"), "both are over", 60, 0.3)
    assert alice.output(run, "starts") == b"here\n"
    assert len(alice.jobs()) >= 2
    assert alice.status(run)["state"] == "completed"
    [refused] = [path for path in alice.folder(f"runs/{run}").glob("slurm-*.out") if path.read_text()]
    assert f"the run is job {alice.folder(f'runs/{run}/job.id').read_text().strip()}" in refused.read_text()


def burst(alice: Researcher, hosts: list[str], count: int) -> None:
    """`count` submissions of one experiment at once from each host."""
    with ThreadPoolExecutor(len(hosts) * 4) as pool:
        said = list(pool.map(lambda host: alice.tp("submit", "exp", "--json", host=host), hosts * count))
    assert {one.code for one in said} == {0}, said
    answers = [json.loads(one.out) for one in said]
    assert len({one["run"] for one in answers}) == len({one["job"] for one in answers}) == len(said)
    one_to_one(alice, len(said))


def test_two_login_hosts_submit_the_same_at_once(make_cluster: Callable[..., Cluster]) -> None:
    both = make_cluster(nodes=1, login2=True)
    alice = Researcher(both)
    alice.experiment("exp", "exit 0")
    burst(alice, ["login", "login2"], 6)
    for run in alice.runs():
        assert alice.ended(run)["state"] == "completed"


@pytest.mark.long
def test_two_login_hosts_with_a_wrapper_that_loses_answers(make_cluster: Callable[..., Cluster]) -> None:
    both = make_cluster(nodes=1, login2=True)
    alice = wrapped(both, '"$real" "$@" >/dev/null; exit "$((RANDOM % 2))"')
    burst(alice, ["login", "login2"], 20)
