"""`tp audit` while Slurm has the job: its own copy is what counts, and the run folder's is held against it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cluster.harness import Cluster, ClusterSpec
from cluster.researcher import Researcher, Said

pytestmark = pytest.mark.cluster

CONFIG = {"env": {"WORLD": "世界 $(id) it's"}, "args": ["a b", ""], "resources": {"time": "5m"}}


def audited(alice: Researcher, run: str, **how: Any) -> tuple[Said, dict[str, Any]]:
    said = alice.tp("audit", run, "--json", **how)
    return said, json.loads(said.out) if said.out else {}


def edited(alice: Researcher, run: str, old: str, new: str) -> str:
    """Edit job.sbatch in the run folder, as its owner can; gives the script as it was."""
    script = alice.folder(f"runs/{run}/job.sbatch").read_text()
    assert script.count(old) == 1
    alice.write(f"runs/{run}/job.sbatch", script.replace(old, new))
    return script


def test_the_controllers_copy(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0", config=CONFIG)
    run = alice.submit("exp", "--hold")
    job = alice.record(run, "job.json")["id"]
    said, report = audited(alice, run)
    assert (said.code, said.err, report["verdict"], report["notes"]) == (0, "", "untouched", []), said
    assert report["script"] == f"Slurm's copy of job {job}"
    script = edited(alice, run, "--time=0-00:05:00", "--time=0-00:09:00")
    said, report = audited(alice, run)
    assert (said.code, report["verdict"]) == (4, "differs")
    [found] = report["differences"]
    number = script.split("\n").index("#SBATCH --time=0-00:05:00") + 1
    assert found == {
        "kind": "job.sbatch",
        "where": f"directive, line {number} --time",
        "expected": "#SBATCH --time=0-00:05:00",
        "found": "#SBATCH --time=0-00:09:00",
    }
    # nor does it help to say that the run is another job, or none
    other = alice.submit("exp", "--hold")
    for record in (alice.record(other, "job.json"), {}):
        alice.write(f"runs/{run}/job.json", json.dumps(record))
        assert audited(alice, run)[1]["differences"] == [found]
    alice.slurm("scancel", job)
    alice.slurm("scancel", alice.record(other, "job.json")["id"])


def test_a_job_that_was_submitted_from_an_edited_script(cluster: Cluster) -> None:
    """The run folder is put right again afterwards: what Slurm took is what runs."""
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 0", config=CONFIG)
    run = alice.submit("exp", "--hold")
    alice.slurm("scancel", alice.record(run, "job.json")["id"])
    folder = f"{alice.root}/runs/{run}"
    script = edited(alice, run, "umask 027", "umask 000")
    job = alice.slurm("sbatch", "--parsable", "--hold", f"--chdir={folder}", f"{folder}/job.sbatch").strip()
    alice.write(f"runs/{run}/job.sbatch", script)
    said, report = audited(alice, run)
    assert said.code == 4
    kinds = {(item["kind"], item["expected"], item["found"]) for item in report["differences"]}
    assert (f"job {job}", "umask 027", "umask 000") in kinds
    alice.slurm("scancel", job)


@pytest.mark.long
def test_the_accountings_copy(suite: str) -> None:
    """When the controller has forgotten the job, where the accounting stores scripts; others are not shown it."""
    spec = ClusterSpec(
        suite=suite,
        nodes=1,
        accounting=True,
        min_job_age=2,
        slurm_conf=("AccountingStoreFlags=job_script",),
    )
    with Cluster(spec) as cluster:
        for words in (["add", "account", "lab"], ["add", "user", "alice", "account=lab"]):
            cluster.run("login", ["sacctmgr", "--immediate", *words], check=True)
        alice = Researcher(cluster)
        alice.experiment("exp", "exit 0", config=CONFIG)
        run = alice.submit("exp")
        job = alice.record(run, "job.json")["id"]
        alice.ended(run)
        from cluster.harness.tools import until

        until(lambda: not alice.jobs(), "the controller has forgotten the job", 90)
        said, report = audited(alice, run)
        assert (said.code, report["verdict"], report["script"]) == (
            0,
            "untouched",
            f"Slurm's copy of job {job}",
        ), said
        edited(alice, run, "umask 027", "umask 000")
        said, report = audited(alice, run)
        assert [item["kind"] for item in report["differences"]] == ["job.sbatch"] and said.code == 4
