"""Logs: node by node, their tails, and following them to the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.runs import logs
from tuneplane.runs.folder import Run
from tuneplane.runs.logs import follow, logs_of, tail


def test_the_scripts_log_then_the_nodes_by_rank(tmp_path: Path) -> None:
    for name in (
        "node-10.log",
        "node-2.log",
        "node-0.log",
        "job.log",
        "node-x.log",
        "exit.json",
        "node-1.log.gz",
    ):
        (tmp_path / name).write_text(name)
    assert [(log.label, log.path.name) for log in logs_of(tmp_path)] == [
        ("job", "job.log"), ("0", "node-0.log"), ("2", "node-2.log"), ("10", "node-10.log")]  # fmt: skip
    assert logs_of(tmp_path / "gone") == []


@given(
    st.lists(
        st.sampled_from([b"\n", b"a\n", b"\r\n", b"50%\r", b"long " * 20 + b"\n", b"\xff\n", b"x"]),
        max_size=12,
    ).map(b"".join),
    st.integers(0, 6),
)
@settings(max_examples=60, deadline=None)
def test_a_tail_is_the_last_lines(tmp_path_factory: pytest.TempPathFactory, data: bytes, lines: int) -> None:
    file = tmp_path_factory.getbasetemp() / "tail.log"
    file.write_bytes(data)
    every = data.split(b"\n")
    whole = [line + b"\n" for line in every[:-1]] + ([every[-1]] if every[-1] else [])
    assert (
        tail(file, lines)
        == (b"".join(whole[len(whole) - lines :] if lines < len(whole) else whole), len(data))
        if lines
        else (b"", len(data))
    )
    assert tail(file, None) == (data, len(data))


def test_a_tail_of_a_large_log(tmp_path: Path) -> None:
    data = b"".join(b"%07d\n" % number for number in range(50_000))
    (tmp_path / "log").write_bytes(data)
    assert tail(tmp_path / "log", 2) == (b"0049998\n0049999\n", len(data))
    assert tail(tmp_path / "log", 20_000)[0] == data[-160_000:]
    assert tail(tmp_path / "gone", 3) == (b"", 0)


def steps(attempt: Path, parts: list[dict[str, bytes]]) -> Iterator[bool]:
    """Append one part at each question whether the run has ended; it has at the last."""
    for i, part in enumerate(parts):
        for name, data in part.items():
            with (attempt / name).open("ab") as file:
                file.write(data)
        yield i == len(parts) - 1


def followed(
    attempt: Path, parts: list[dict[str, bytes]], offsets: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, bytes]]:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0)
    answers = steps(attempt, parts)
    return list(follow(Run(attempt, {}), attempt, lambda: next(answers), offsets))


def test_whole_lines_are_handed_on_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [{"node-0.log": b"a\nb"}, {"node-0.log": b"b\nc"}, {"node-1.log": b"x\n"}, {"node-0.log": b"c"}]
    assert followed(tmp_path, parts, {}, monkeypatch) == [
        ("0", b"a\n"),
        ("0", b"bb\n"),
        ("1", b"x\n"),
        ("0", b"cc"),
    ]


def test_following_goes_on_where_the_tail_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.log").write_bytes(b"seen\n")
    offsets = {"job": 5}
    assert followed(tmp_path, [{}, {"job.log": b"new\n"}], offsets, monkeypatch) == [("job", b"new\n")]
    assert offsets == {"job": 9}


def test_what_is_written_just_before_the_end_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert followed(tmp_path, [{"node-0.log": b"last words"}], {}, monkeypatch) == [("0", b"last words")]
    assert followed(tmp_path, [{}], {"0": 10}, monkeypatch) == []
