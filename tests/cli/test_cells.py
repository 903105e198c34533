"""Text in a terminal's cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.cli.cells import columns, indented, padded, table, width, wrapped


@pytest.mark.parametrize(
    ("text", "cells"),
    [("", 0), ("abc", 3), ("世界", 4), ("é", 1), ("e\u0301", 1), ("，", 2), ("ｱ", 1), ("Ａ", 2), ("→…·", 3), ("한글", 4)],
)  # fmt: skip
def test_width(text: str, cells: int) -> None:
    assert width(text) == cells
    assert padded(text, 8) == text + " " * (8 - cells)


@pytest.mark.parametrize(
    ("text", "cells", "lines"),
    [
        ("", 10, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("one two", 3, ["one", "two"]),
        ("averylongword in it", 6, ["averylongword", "in it"]),
        ("在每个节点上运行", 8, ["在每个节", "点上运行"]),
        ("在每个节点，上运行", 10, ["在每个节", "点，上运行"]),
        ("用 train.sh，镜像由您（可）选", 12, ["用", "train.sh，镜", "像由您（可）", "选"]),
        ("在 torchrun 下", 12, ["在 torchrun", "下"]),
    ],
)
def test_wrapped(text: str, cells: int, lines: list[str]) -> None:
    assert wrapped(text, cells) == lines


@given(st.text("ab 世界，。（）.x", max_size=60), st.integers(4, 30))
def test_nothing_is_lost_and_lines_are_short(text: str, cells: int) -> None:
    lines = wrapped(text, cells)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width(line) <= cells or " " not in line for line in lines if not set(line) & set("（。，）"))


def test_indented() -> None:
    assert indented("one two", 4, 9) == ["    one", "    two"]
    assert indented("- one two", 1, 9, hang=2) == [" - one", "   two"]


def test_table() -> None:
    rows = [("METHOD", "K", "WHAT"), ("a/b", "x", "one two three four five"), ("世/界", "yy", "六")]
    assert table(rows, 30) == [
        "METHOD  K   WHAT",
        "a/b     x   one two three four",
        "            five",
        "世/界   yy  六",
    ]
    assert table([], 80) == [] and table([("a", "b")], 80) == ["a  b"]
    assert table([("a", "one two three four five")], 10) == ["a  one two three four", "   five"]


@pytest.mark.parametrize(("set", "found"), [("80", 80), ("20", 40), ("500", 140)])
def test_columns(monkeypatch: pytest.MonkeyPatch, set: str, found: int) -> None:
    monkeypatch.setenv("COLUMNS", set)
    assert columns() == found
