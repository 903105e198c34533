"""Reading sbatch's answer; what happens around it is shown on a real Slurm in `tests/cluster/test_submission.py`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tuneplane.runs.folder import Run
from tuneplane.schedulers.slurm.commands import Answer, ask
from tuneplane.schedulers.slurm.record import accept, claimed, note
from tuneplane.schedulers.slurm.rows import stored
from tuneplane.schedulers.slurm.submit import named_jobs
from tuneplane.schedulers.slurm.submit import refused as is_refused
from tuneplane.sites.load import load_site
from tuneplane.sites.model import Site


@pytest.fixture
def site() -> Site:
    return load_site("local").site


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("12\n", {"12": ""}),
        ("12;moon\n", {"12": "moon"}),
        ("Welcome\n\n 12 \r\nbye\n", {"12": ""}),
        ("1\n12;moon-2.x\n", {"1": "", "12": "moon-2.x"}),
        ("Submitted batch job 12\n0\n-5\n07\n1 2\n12;\n12;a b\n١٢\n", {}),
        ("", {}),
    ],
)
def test_ids_among_a_banner(text: str, jobs: dict[str, str]) -> None:
    assert named_jobs(text) == jobs


@pytest.mark.parametrize(
    ("status", "err", "refused"),
    [
        (1, "sbatch: error: Batch job submission failed: Invalid partition name specified", True),
        (1, "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", False),
        (
            1,
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            False,
        ),
        (1, "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", False),
        (0, "", False),
        (-9, "", False),
        (None, "", False),
    ],
)
def test_a_refusal_is_one_that_cannot_have_been_taken(status: int | None, err: str, refused: bool) -> None:
    assert is_refused(Answer(status, "", err)) == refused


def test_the_accounting_writes_quotes_otherwise() -> None:
    assert stored(Path('/a/it\'s "b" `c`')) == "/a/it's `b` `c`"


@pytest.mark.parametrize(
    ("text", "job"), [("12\n", "12"), ("", ""), ("12 13\n", ""), ("x\n", ""), ("١٢\n", "")]
)
def test_the_jobs_own_word(tmp_path: Path, text: str, job: str) -> None:
    run = Run(tmp_path, {})
    assert claimed(run) == ""
    (tmp_path / "job.id").write_text(text)
    assert claimed(run) == job


def test_an_accepted_run_is_no_longer_in_doubt(tmp_path: Path) -> None:
    run = Run(tmp_path, {})
    note(run, "uncertain", "why")
    accept(run, "12", "moon")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json"]


def test_a_command_that_takes_too_long_ends_with_its_children(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    began = time.monotonic()
    answer = ask(site, ["sh", "-c", f"echo said; (sleep 1; touch {mark}) & wait"], seconds=0.3)
    assert (answer.status, answer.out, answer.last_words) == (None, "said\n", "it did not answer in time")
    assert time.monotonic() - began < 0.9
    time.sleep(1.2)
    assert not mark.exists()


def test_a_command_that_is_not_there(site: Site) -> None:
    answer = ask(site, ["no-such-command"])
    assert (answer.status, answer.err) == (None, "cannot run no-such-command: No such file or directory")
