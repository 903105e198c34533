"""The script as Slurm has it: which job is believed, and which of its two memories is asked.

The commands are played; what the real ones say is shown in `tests/cluster/test_audit.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import site

from tuneplane.schedulers import Kept
from tuneplane.schedulers.slurm.kept import kept
from tuneplane.sites.model import Site

HEADING = "Batch Script for 12\n" + "-" * 80 + "\n"
DISABLED = "echo 'Slurm accounting storage is disabled' >&2; exit 1"


class Slurm:
    """Played commands, each a few lines of sh; one that is not played says so."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "bin"
        self.bin.mkdir()
        self.run = place / 'run "1"'
        self.run.mkdir()
        for name in ("squeue", "scontrol", "sacct"):
            self.play(name, f"echo '{name} is not played' >&2; exit 1")

    def play(self, name: str, script: str) -> None:
        file = self.bin / name
        file.write_text(f'#!/bin/sh\necho "$0 $*" >>"{self.bin}/asked"\n{script}\n')
        file.chmod(0o755)

    def queue(self, *jobs: tuple[str, Path]) -> None:
        """squeue shows these jobs and their folders."""
        rows = "".join(
            f"{job}\x1f{job}\x1fPENDING\x1fNone\x1fN/A\x1f(null)\x1f{folder}\n" for job, folder in jobs
        )
        (self.bin / "rows").write_text(rows)
        self.play("squeue", f'cat "{self.bin}/rows"')

    def accounts(self, folder: str, script: str) -> None:
        """sacct knows job 12 in this folder, and says this of its script."""
        (self.bin / "row").write_text(f"12\x1f12\x1fCOMPLETED\x1fNone\x1fUnknown\x1f{folder}\n")
        (self.bin / "script").write_text(script)
        one, other = f'cat "{self.bin}/script"', f'cat "{self.bin}/row"'
        self.play("sacct", f'case " $* " in *--batch-script*) {one} ;; *) {other} ;; esac')

    @property
    def asked(self) -> str:
        return (self.bin / "asked").read_text().replace(f"{self.bin}/", "")

    @property
    def site(self) -> Site:
        return site(path=[str(self.bin), "/usr/bin", "/bin"])

    def kept(self, **job: str) -> Kept:
        return kept(self.run, job or {"id": "12"}, self.site)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


def test_while_the_controller_knows_the_job(slurm: Slurm) -> None:
    slurm.queue(("11", Path("/other")), ("12", slurm.run))
    slurm.play("scontrol", "printf '#!/bin/sh\\n世界\\n\\n'")
    assert slurm.kept() == Kept({"12": "#!/bin/sh\n世界\n\n".encode()})
    assert f"--user={os.getuid()}" in slurm.asked
    assert slurm.asked.endswith("scontrol write batch_script 12 -\n")


def test_the_job_is_found_by_its_folder(slurm: Slurm) -> None:
    """`job.json` is the submitter's: it names another job, or none."""
    slurm.queue(("11", Path("/other")), ("12", slurm.run), ("13", slurm.run))
    slurm.play("scontrol", 'echo "script of $3"')
    for job in ({"id": "11"}, {"id": "x; rm"}, {"no": "id"}):
        assert slurm.kept(**job).scripts == {"12": b"script of 12\n", "13": b"script of 13\n"}


def test_a_script_that_is_not_shown(slurm: Slurm) -> None:
    slurm.queue(("12", slurm.run))
    slurm.play("scontrol", "echo 'job script retrieval failed: Invalid user id' >&2; exit 1")
    why = "Slurm does not show its copy of job 12: job script retrieval failed: Invalid user id"
    assert slurm.kept() == Kept(note=why)


@pytest.mark.parametrize("end", ["", "\n"], ids=["later", "22.05"])
def test_what_the_accounting_stores(slurm: Slurm, end: str) -> None:
    slurm.queue()
    slurm.accounts(str(slurm.run).replace('"', "`"), f"{HEADING}#!/bin/sh\nexit\n{end}")
    assert slurm.kept() == Kept({"12": b"#!/bin/sh\nexit\n"})


@pytest.mark.parametrize("script", ["", HEADING, f"{HEADING}NONE\n", "12\n#!/bin/sh\n"])
def test_what_the_accounting_does_not_store(slurm: Slurm, script: str) -> None:
    slurm.queue()
    slurm.accounts(str(slurm.run).replace('"', "`"), script)
    why = "Slurm does not show its copy of job 12: the accounting stores no scripts"
    assert slurm.kept() == Kept(note=why)


def test_a_job_of_another_folder_in_the_accounting(slurm: Slurm) -> None:
    slurm.queue()
    slurm.accounts("/other", f"{HEADING}#!/bin/sh\nexit\n")
    assert slurm.kept() == Kept(note="Slurm shows no job of this run folder")


def test_without_accounting_and_without_a_job(slurm: Slurm) -> None:
    slurm.queue()
    slurm.play("sacct", DISABLED)
    assert slurm.kept() == Kept(note="Slurm shows no job of this run folder")
    assert slurm.kept(id="no number") == Kept(note="Slurm shows no job of this run folder")


def test_a_controller_that_does_not_answer(slurm: Slurm) -> None:
    note = "Slurm cannot be asked for its copy: squeue: squeue is not played"
    assert slurm.kept() == Kept(note=note)


def test_a_named_cluster(slurm: Slurm) -> None:
    slurm.queue(("12", slurm.run))
    slurm.play("scontrol", "echo x")
    assert slurm.kept(id="12", cluster="moon").scripts == {"12": b"x\n"}
    assert slurm.asked.count("--clusters=moon") == 2
