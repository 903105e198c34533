"""The end of a log: what is shown of it, and the rank that torchrun names.

The logs in `summaries/` are those of the second node of two with two ranks each, torch 2.13; `alone` is one rank on
one node; `accelerate` is accelerate 1.15 with two ranks on one node.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tuneplane.job.failure import READ_BYTES, RankEnd, first_rank, tail

SUMMARIES = Path(__file__).parent / "summaries"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "node-0.log"


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("exit", RankEnd(3, 1, 3, None)),
        ("kill", RankEnd(3, 1, 137, "SIGKILL")),
        ("raise", RankEnd(3, 1, 1, None)),
        ("record", RankEnd(3, 1, 1, None)),
        ("two", RankEnd(2, 0, 5, None)),
        ("alone", RankEnd(0, 0, 137, "SIGKILL")),
        ("accelerate", RankEnd(0, 0, 137, "SIGKILL")),
    ],
)
def test_the_rank_that_failed_first(name: str, end: RankEnd) -> None:
    assert first_rank(str(SUMMARIES / f"{name}.log")) == end


def test_the_last_summary_counts_whatever_stands_around_it(log: Path) -> None:
    """Of two runs of torchrun in one log the last, also behind much output and before what others write."""
    first, last = ((SUMMARIES / f"{name}.log").read_bytes() for name in ("two", "kill"))
    for noise in (1, READ_BYTES):
        log.write_bytes(first + b"\xff noise\n" * noise + last + b"tuneplane: the command ended\n\xe9")
        assert first_rank(str(log)) == RankEnd(3, 1, 137, "SIGKILL")


def test_a_summary_inside_a_traceback_does_not_count(log: Path) -> None:
    inner = (SUMMARIES / "kill.log").read_text().replace("\n", "\n  ")
    log.write_text((SUMMARIES / "record.log").read_text().replace("ValueError", inner))
    assert first_rank(str(log)) == RankEnd(3, 1, 1, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Root Cause (first", "Root Cause (second"),
        ("rank      : 3 (local_rank: 1)", "rank      : ?"),
        ("exitcode  : 3 (pid", "exitcode  : N/A (pid"),
        ("exitcode  : 3 (pid", "exitcode  : 0 (pid"),
    ],
)
def test_without_a_whole_summary_no_rank_is_named(log: Path, old: str, new: str) -> None:
    text = (SUMMARIES / "exit.log").read_text()
    assert text.count(old) == 1
    log.write_text(text.replace(old, new))
    assert first_rank(str(log)) is None


def test_a_summary_too_far_from_the_end_is_not_looked_for(log: Path) -> None:
    log.write_bytes((SUMMARIES / "exit.log").read_bytes() + b"x\n" * (READ_BYTES // 2))
    assert first_rank(str(log)) is None


def test_a_signal_without_a_name(log: Path) -> None:
    log.write_text((SUMMARIES / "kill.log").read_text().replace(": -9 (", ": -40 ("))
    assert first_rank(str(log)) == RankEnd(3, 1, 168, "signal 40")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", []),
        (b"\n \n\n", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\n\n  two \n\n", ["one", "  two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" 1%\r 50%\r100%\nend\n", ["100%", "end"]),
        (b"begin\r 50%\r    \r", [" 50%"]),
        (b"\x1b[31mred\x1b[0m\tcol\x00\x7f\n", ["\\x1b[31mred\\x1b[0m\\tcol\\x00\\x7f"]),
        ("é 世 \u202e\n".encode() + b"\xff\xe9\n", ["é 世 \\u202e", "\\xff\\xe9"]),
        (b"".join(b"%d\n" % n for n in range(100)), [str(n) for n in range(80, 100)]),
        (b"x" * 4090 + b"\nabcde\n", ["abcde"]),
        (b"x" * 4089 + b"\nabcde\n", ["x" * 4089, "abcde"]),
        (b"a\n" + b"x" * 5000 + b"the end\n", ["x" * 4088 + "the end"]),
        (b"a\n" + b"x" * 200_000 + b"the end", ["x" * 4088 + "the end"]),
        (b"cut" * 50_000 + b"\nwhole\n", ["whole"]),
        ("é".encode() * 5000, ["é" * 2047]),
    ],
)  # fmt: skip
def test_the_tail(log: Path, written: bytes, shown: list[str]) -> None:
    log.write_bytes(written)
    assert tail(str(log)) == shown
    assert sum(len(line.encode()) + 1 for line in shown) <= 4096


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe", "nul\0"):
        assert tail(str(path)) == [] and first_rank(str(path)) is None


@pytest.mark.torch
@pytest.mark.parametrize(
    ("does", "end"),
    [
        ("sys.exit(3)", RankEnd(1, 1, 3, None)),
        ("os.kill(os.getpid(), 9)", RankEnd(1, 1, 137, "SIGKILL")),
    ],
)
def test_the_torch_at_hand_writes_it_so(
    tmp_path: Path, log: Path, torch_python: Path, does: str, end: RankEnd
) -> None:
    program = tmp_path / "train.py"
    program.write_text(f"import os, sys, time\nif os.environ['RANK'] == '1': {does}\ntime.sleep(30)\n")
    words = [torch_python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    with log.open("wb") as output:
        done = subprocess.run(words, stdout=output, stderr=output, check=False, timeout=90)
    assert done.returncode == 1 and first_rank(str(log)) == end
