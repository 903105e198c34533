"""Data that changed while a run was queued: seen on the first node before anything starts, and told to all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tuneplane.job.checks import data
from tuneplane.job.checks.columns import DataFile, written_files

TABLES = Path(__file__).parent / "tables"
PAIRS = (("chosen", "rejected"),)
SOUND = b'{"chosen": "a", "rejected": "b"}\n'
WRONG = b'{"chosen": "a"}\n'


def files(folder: Path, **contents: bytes) -> tuple[DataFile, ...]:
    """Data files of these contents, as JSON Lines."""
    made = []
    for key, content in contents.items():
        path = folder / f"{key} of 'mine' é.jsonl"
        path.write_bytes(content)
        made.append(DataFile(f"data.{key}", str(path), PAIRS))
    return tuple(made)


def option(*wanted: DataFile) -> tuple[str, str]:
    return "--columns", written_files(wanted)


@pytest.mark.parametrize("flavour", ["run", "old_run"])
def test_a_wrong_file_ends_the_run_before_it_starts(
    flavour: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(flavour)
    sound, wrong = files(tmp_path, train=SOUND, validation=SOUND + WRONG)
    assert run.go("touch", "began", options=option(sound, wrong)) == 125
    said = f"data.validation cannot be used: row 2 of `{wrong.path}` lacks `rejected`; it has `chosen`"
    verdict = run.verdict()
    assert (verdict["code"], verdict["reason"], verdict["message"]) == (125, "preflight", said)
    assert not (run.experiment / "began").exists() and said in run.log()


@pytest.mark.parametrize("flavour", ["run", "old_run", "bare_run"])
def test_sound_files_are_no_news(flavour: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """An image without Python looks at none."""
    run = request.getfixturevalue(flavour)
    assert run.go("touch", "began", options=option(*files(tmp_path, train=SOUND * 200))) == 0
    assert (run.experiment / "began").exists() and "columns" not in run.log()


def test_what_cannot_be_told_is_said_and_goes_on(run: Any, tmp_path: Path) -> None:
    secret = DataFile("data.train", str(TABLES / "encrypted.parquet"), PAIRS)
    assert run.go("true", options=option(secret, *files(tmp_path, validation=SOUND))) == 0
    assert f"tuneplane: `{secret.path}` is encrypted, so its columns are not checked\n" in run.log()


def test_a_missing_file_too(run: Any, tmp_path: Path) -> None:
    gone = DataFile("data.train", str(tmp_path / "gone.parquet"), PAIRS)
    assert run.go("true", options=option(gone)) == 125
    assert run.verdict()["message"] == (
        f"data.train cannot be used: `{gone.path}` cannot be read: No such file or directory"
    )


def test_only_the_first_node_looks_and_all_end(run: Any, tmp_path: Path) -> None:
    wrong = option(*files(tmp_path, train=WRONG))
    head, other = (run.start("touch", f"began-{rank}", rank=rank, nodes=2, options=wrong) for rank in (0, 1))
    assert run.end(head) == 125 and run.end(other) == 125
    verdict = run.verdict()
    assert (verdict["node"], verdict["reason"]) == (0, "preflight")
    assert "lacks `rejected`" in verdict["message"] and "lacks" not in run.log(1).split("node 0")[0]
    assert not list(run.experiment.glob("began-*"))


def test_an_option_that_cannot_be_read(run: Any) -> None:
    assert run.go("true", options=("--columns", "[")) == 125
    assert run.verdict()["message"].startswith("`--columns` cannot be read: ")


def test_a_file_that_gives_no_answer_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a filesystem that hangs; what comes after it waits no longer."""
    held, looked = threading.Event(), []

    def hang(file: DataFile) -> None:
        looked.append(file.key)
        held.wait(20)

    monkeypatch.setattr(data, "unfit", hang)
    said: list[str] = []
    wanted = files(tmp_path, train=SOUND, validation=WRONG)
    assert data.problem(wanted, said.append, 0.2) is None
    held.set()
    assert looked == ["data.train"]
    assert said == [
        f"reading the first rows of `{wanted[0].path}` gave no answer within 0.2 s, "
        "so the columns of the data are not checked"
    ]


def test_the_first_of_several_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    first, second = files(tmp_path, train=WRONG, validation=WRONG)
    problem = data.problem((first, second), said.append)
    assert problem and problem.startswith("data.train cannot be used: row 1 of ") and said == []
    assert data.problem((), said.append) is None


def test_a_bug_in_the_check_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda *_: 1 / 0)
    said: list[str] = []
    assert data.problem(files(tmp_path, train=SOUND), said.append) is None
    assert len(said) == 1 and "ZeroDivisionError" in said[0]
