"""The reporter that rides into the container, each case in a fresh copy of the module."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "tuneplane" / "report.py"


class Scalar:
    """Stands in for a tensor or an array of one element."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def fresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report_under_test", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RANK", "TUNEPLANE_NODE_RANK", "TUNEPLANE_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "a run's \u7ed3\u679c"
    (folder / "attempts" / "1").mkdir(parents=True)
    monkeypatch.setenv("TUNEPLANE_RUN_DIR", str(folder))
    return folder


@pytest.fixture
def report(run_dir: Path) -> Any:
    module = fresh()
    yield module
    module.finish()


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not strict JSON")


def lines(run_dir: Path, attempt: int = 1) -> list[dict[str, Any]]:
    text = (run_dir / "attempts" / str(attempt) / "metrics.jsonl").read_text("utf-8")
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse_constant) for line in text.splitlines()]


def steps(run_dir: Path) -> list[Any]:
    return [line["step"] for line in lines(run_dir)]


def test_init_and_log_lines(report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.time, "time", lambda: 1760000000.25)
    report.init({"lr": 1e-3, "betas": (0.9, float("inf")), "none": None, "path": Path("/x")})
    report.log({"train/loss": 0.5}, step=7)
    report.finish()
    assert lines(run_dir) == [
        {
            "t": 1760000000.25,
            "hparams": {"lr": 1e-3, "betas": [0.9, "Infinity"], "none": None, "path": "/x"},
            "attempt": 1,
        },
        {"t": 1760000000.25, "step": 7, "metrics": {"train/loss": 0.5}},
    ]


def test_init_without_hparams(report: Any, run_dir: Path) -> None:
    report.init()
    assert lines(run_dir)[0]["hparams"] == {}


def test_nested_hparams_and_names_that_are_no_text(report: Any, run_dir: Path) -> None:
    report.init({"optimizer": {"eps": Scalar(1e-8), 3: [True, "\u4e2d"]}})
    assert lines(run_dir)[0]["hparams"] == {"optimizer": {"eps": 1e-8, "3": [True, "\u4e2d"]}}


def test_attempt_picks_the_folder_and_makes_it(
    report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEPLANE_ATTEMPT", "3")
    report.init()
    assert lines(run_dir, attempt=3)[0]["attempt"] == 3


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (3, 3),
        (2**70, 2**70),
        (0.25, 0.25),
        (True, True),
        ("warm-up", "warm-up"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Scalar(0.5), 0.5),
        (Scalar(float("nan")), "NaN"),
        (Scalar(4), 4),
    ],
)
def test_values(report: Any, run_dir: Path, value: Any, kept: Any) -> None:
    report.log({"m": value})
    got = lines(run_dir)[0]["metrics"]["m"]
    assert got == kept and type(got) is type(kept)


@pytest.mark.parametrize("bad", [None, [1], object(), Scalar([1, 2]), Scalar(ValueError("many"))])
def test_a_bad_value_is_left_out_and_noted_once(
    report: Any, run_dir: Path, capfd: pytest.CaptureFixture[str], bad: Any
) -> None:
    report.log({"bad": bad, "good": 1})
    report.log({"bad": bad, "good": 2})
    assert [line["metrics"] for line in lines(run_dir)] == [{"good": 1}, {"good": 2}]
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("tuneplane.report: metric `bad` is left out: ")


def test_steps_go_on_from_the_last(report: Any, run_dir: Path) -> None:
    report.log({"a": 1})
    report.log({"a": 1})
    report.log({"a": 1}, step=10)
    report.log({"a": 1})
    report.finish()
    report.log({"a": 1})
    report.log({"a": 1}, step=20)
    assert steps(run_dir) == [0, 1, 10, 11, 12, 20]


def test_a_step_that_is_no_number_is_null(report: Any, run_dir: Path) -> None:
    report.log({"a": 1}, step=4)
    report.log({"a": 1}, step="last")
    report.log({"a": 1})
    assert steps(run_dir) == [4, None, 5]


@pytest.mark.parametrize(("rank", "writes"), [("0", True), ("", True), ("1", False), ("10", False)])
def test_only_rank_0_writes(
    report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch, rank: str, writes: bool
) -> None:
    monkeypatch.setenv("RANK", rank)
    report.init()
    report.log({"a": 1})
    assert (run_dir / "attempts" / "1" / "metrics.jsonl").exists() is writes


@pytest.mark.parametrize(("node_rank", "writes"), [("0", True), ("2", False)])
def test_without_ranks_only_the_head_node_writes(
    report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch, node_rank: str, writes: bool
) -> None:
    monkeypatch.setenv("TUNEPLANE_NODE_RANK", node_rank)
    report.log({"a": 1})
    assert (run_dir / "attempts" / "1" / "metrics.jsonl").exists() is writes


@pytest.mark.parametrize("value", [None, ""])
def test_outside_a_job_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], value: Any
) -> None:
    monkeypatch.delenv("TUNEPLANE_RUN_DIR", raising=False)
    if value is not None:
        monkeypatch.setenv("TUNEPLANE_RUN_DIR", value)
    monkeypatch.chdir(tmp_path)
    report = fresh()
    report.init({"a": 1})
    report.log({"a": object()})
    report.finish()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_made_is_noted_once(
    report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "file").write_text("")
    monkeypatch.setenv("TUNEPLANE_RUN_DIR", str(run_dir / "file"))
    report.init()
    report.log({"a": 1})
    report.finish()
    err = capfd.readouterr().err
    assert err.count("\n") == 1 and "training goes on" in err


@pytest.mark.parametrize("attempt", ["two", "1.5"])
def test_a_bad_attempt_is_noted(
    report: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], attempt: str
) -> None:
    monkeypatch.setenv("TUNEPLANE_ATTEMPT", attempt)
    report.log({"a": 1})
    assert "tuneplane.report: " in capfd.readouterr().err


def test_not_even_a_lost_stderr_reaches_training(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.sys, "stderr", None)
    report.log(None)
    report.init(5)


def test_writing_resumes_after_a_full_disk(
    report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = os.write
    report.log({"a": 1})
    with monkeypatch.context() as full:
        full.setattr(report.os, "write", lambda fd, data: real(fd, data[:9]))
        report.log({"a": 2})
    report.log({"a": 3})
    text = (run_dir / "attempts" / "1" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(text[0])["metrics"], json.loads(text[2])["metrics"]] == [{"a": 1}, {"a": 3}]
    assert len(text) == 3 and len(text[1]) == 9
    assert "wrote 9 of" in capfd.readouterr().err


def test_one_write_for_each_line(report: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = os.write, []
    monkeypatch.setattr(report.os, "write", lambda fd, data: seen.append(data) or real(fd, data))
    report.init({"a": "b\nc"})
    report.log({"text": "x\ny"}, step=1)
    assert len(seen) == 2
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in seen)


def test_two_processes_append_whole_lines(run_dir: Path) -> None:
    code = (
        "import sys; from tuneplane import report\nfor i in range(300): report.log({sys.argv[1] * 40: i})\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parents[1])}
    workers = [subprocess.Popen([sys.executable, "-c", code, name], env=env) for name in "xy"]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert len(lines(run_dir)) == 600
