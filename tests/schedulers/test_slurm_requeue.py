"""Runs once more, and which job of a run counts; played commands, real ones in `tests/cluster/test_requeue.py`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from builders import site

from tuneplane.errors import SchedulerError
from tuneplane.runs.folder import CANCEL_FILE, JOB_FILE, NEXT_FILE, REQUEUE_FILE, Run, read_run
from tuneplane.schedulers.slurm.query import explained, jobs
from tuneplane.schedulers.slurm.requeue import again, requeue
from tuneplane.sites.model import Site


class Slurm:
    """A run folder, and commands that are a few lines of sh; `asked` is what was called."""

    def __init__(self, place: Path) -> None:
        self.bin, self.folder = place / "bin", place / 'run "1"'
        self.bin.mkdir()
        (self.folder / "attempts/1").mkdir(parents=True)
        self.write("run.json", {"schema": 1, "plan": {"scheduler": "slurm"}})
        self.write(JOB_FILE, {"scheduler": "slurm", "id": "12", "cluster": "", "submitted": 1})
        self.rows()
        for name in ("scontrol", "sbatch"):
            self.play(name, f"echo '{name} is not played' >&2; exit 1")
        self.play("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")

    def write(self, name: str, data: Any) -> None:
        (self.folder / name).write_text(json.dumps(data))

    def play(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.bin}/asked"\n{script}\n')
        (self.bin / name).chmod(0o755)

    def rows(self, *rows: tuple[str, str, str]) -> None:
        """squeue shows (number, name, state) of jobs in the run's folder."""
        text = "".join(
            f"{job}\x1f{name}\x1f{state}\x1fNone\x1fN/A\x1f(null)\x1f{self.folder}\n"
            for job, name, state in rows
        )
        (self.bin / "rows").write_text(text)
        self.play("squeue", f'cat "{self.bin}/rows"')

    @property
    def asked(self) -> list[str]:
        lines = (self.bin / "asked").read_text().splitlines()
        return [line for line in lines if not line.startswith(("squeue", "sacct"))]

    @property
    def site(self) -> Site:
        return site(path=[str(self.bin), "/usr/bin", "/bin"])

    @property
    def run(self) -> Run:
        run = read_run(self.folder)
        assert run is not None
        return run

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / JOB_FILE).read_text())
        return found


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


# -- once more ----------------------------------------------------------------------------------------------


def test_the_new_job_is_held_until_it_may_have_the_run(slurm: Slurm) -> None:
    """When it is released, `job.next` names it and `job.json` too."""
    (slurm.folder / CANCEL_FILE).write_text("{}")
    slurm.play("sbatch", "echo 13")
    slurm.play("scontrol", f"cd {quote(str(slurm.folder))} && cp {NEXT_FILE} {JOB_FILE} {slurm.bin}/")
    again(slurm.run, slurm.site)
    assert slurm.asked == [
        f"sbatch --parsable --hold --chdir={slurm.folder} job.sbatch",
        "scontrol release 13",
    ]
    assert (slurm.bin / NEXT_FILE).read_text() == "13\n"
    assert json.loads((slurm.bin / JOB_FILE).read_text()) == slurm.job()
    assert slurm.job()["id"] == "13"
    assert slurm.job()["earlier"] == [{"scheduler": "slurm", "id": "12", "cluster": "", "submitted": 1}]
    assert not (slurm.folder / CANCEL_FILE).exists()


def test_a_refusal_changes_nothing(slurm: Slurm) -> None:
    slurm.play("sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid qos' >&2; exit 1")
    with pytest.raises(
        SchedulerError, match="Slurm did not take the job: Batch job submission failed: Invalid qos"
    ):
        again(slurm.run, slurm.site)
    assert slurm.job()["id"] == "12" and not (slurm.folder / NEXT_FILE).exists()


def test_a_job_that_sbatch_did_not_tell_of_is_looked_up(slurm: Slurm) -> None:
    slurm.rows(("12", "12", "FAILED"))
    row = f"13\\03713\\037PENDING\\037None\\037N/A\\037(null)\\037{slurm.folder}\\n"
    slurm.play("sbatch", f"printf '{row}' >>'{slurm.bin}/rows'; echo 'Socket timed out' >&2; exit 1")
    slurm.play("scontrol", "")
    again(slurm.run, slurm.site)
    assert slurm.job()["id"] == "13"


def test_what_cannot_be_known_changes_nothing(slurm: Slurm) -> None:
    slurm.play("sbatch", "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1")
    with pytest.raises(SchedulerError, match="it is not known whether Slurm took a new job"):
        again(slurm.run, slurm.site)
    assert slurm.job()["id"] == "12"


def test_a_job_that_stays_held_is_said(slurm: Slurm) -> None:
    slurm.play("sbatch", "echo 13")
    with pytest.raises(SchedulerError, match=r"job 13 of .* is held: scontrol is not played") as raised:
        again(slurm.run, slurm.site)
    assert raised.value.problems[0].hint == "scontrol release 13"
    assert slurm.job()["id"] == "13"


# -- back into the queue ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "name"), [(("12", "12", "RUNNING"), "12"), (("12", "9_3", "RUNNING"), "9_3")]
)
def test_back_into_the_queue(slurm: Slurm, row: tuple[str, str, str], name: str) -> None:
    """A task of an array goes by its own name: its number is the whole array's for the last one."""
    slurm.rows(row)
    slurm.play("scontrol", f"cp {quote(str(slurm.folder))}/{REQUEUE_FILE} {slurm.bin}/wish")
    requeue(slurm.run, slurm.site)
    assert slurm.asked == [f"scontrol requeue {name}"]
    # the wish is there before Slurm ends the attempt
    assert json.loads((slurm.bin / "wish").read_text())["attempt"] == 1


def test_a_requeue_that_slurm_refuses_was_never_wished(slurm: Slurm) -> None:
    slurm.rows(("12", "12", "RUNNING"))
    slurm.play("scontrol", "echo 'Requested operation is presently disabled for job 12' >&2; exit 1")
    with pytest.raises(SchedulerError, match="scontrol requeue: Requested operation is presently disabled"):
        requeue(slurm.run, slurm.site)
    assert not (slurm.folder / REQUEUE_FILE).exists()


def test_only_a_running_job_goes_back(slurm: Slurm) -> None:
    slurm.rows(("12", "12", "PENDING"))
    with pytest.raises(SchedulerError, match="Slurm shows no running job"):
        requeue(slurm.run, slurm.site)


# -- which job counts ---------------------------------------------------------------------------------------


def state(slurm: Slurm) -> tuple[str, str]:
    found = jobs([slurm.run], slurm.site)[slurm.run.id]
    return found.state, slurm.job()["id"]


def test_the_successor_of_the_last_attempt_counts(slurm: Slurm) -> None:
    slurm.write("attempts/1/exit.json", {"code": 143, "next": "successor:13"})
    slurm.rows(("12", "12", "COMPLETED"), ("13", "13", "PENDING"))
    assert state(slurm) == ("queued", "13")
    assert slurm.job()["earlier"][0]["id"] == "12"


def test_a_successor_that_has_started_counts(slurm: Slurm) -> None:
    (slurm.folder / "job.id").write_text("13\n")
    slurm.rows(("12", "12", "COMPLETED"), ("13", "13", "RUNNING"))
    assert state(slurm) == ("running", "13")


def test_an_earlier_job_does_not_come_back(slurm: Slurm) -> None:
    """After `again`, `job.id` names the old job until the new one starts."""
    (slurm.folder / "job.id").write_text("12\n")
    slurm.write(JOB_FILE, {"scheduler": "slurm", "id": "13", "earlier": [{"id": "12"}]})
    slurm.rows(("12", "12", "FAILED"), ("13", "13", "PENDING"))
    assert state(slurm) == ("queued", "13")


def test_a_job_in_another_folder_is_no_successor(slurm: Slurm) -> None:
    slurm.write("attempts/1/exit.json", {"code": 143, "next": "successor:13"})
    slurm.rows(("12", "12", "RUNNING"))
    assert state(slurm) == ("running", "12")


def test_the_schedulers_own_words(slurm: Slurm) -> None:
    slurm.rows(("12", "12", "CANCELLED"))
    stored = str(slurm.folder).replace('"', "`")
    slurm.play("sacct", f"printf '12\\03712\\037CANCELLED by 0\\037None\\037Unknown\\037{stored}\\n'")
    found = explained(slurm.run, slurm.site)
    assert (found.end, found.word, found.by) == ("cancelled", "CANCELLED", "0")
