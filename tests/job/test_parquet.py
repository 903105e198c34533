"""Footers of Parquet files that pyarrow 26.0.1, Polars 2.1.0, DuckDB 2.0.1 and fastparquet 2026.9.0 wrote."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.job.checks import parquet
from tuneplane.job.checks.parquet import Table, read_table
from tuneplane.job.checks.rows import Malformed, NotTold

TABLES = Path(__file__).parent / "tables"
MODEL = {"style": {}, "ground_truth": {}}
SOUND = (TABLES / "pyarrow.parquet").read_bytes()
FOOTER = int.from_bytes(SOUND[-8:-4], "little")


def table(data: bytes) -> Table:
    return read_table(io.BytesIO(data))


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        (
            "pyarrow",
            {
                "prompt": {"list": {"element": {"role": {}, "content": {}}}},
                "data_source": {},
                "reward_model": MODEL,
                "答案": {},
            },
            1,
        ),
        ("groups", {"messages": {}}, 20),
        ("polars", {"prompt": {}, "reward_model": MODEL}, 1),
        (
            "duckdb",
            {"prompt": {}, "reward_model": MODEL, "extra_info": {"key_value": {"key": {}, "value": {}}}},
            1,
        ),
        ("fastparquet", {"prompt": {}, "answer": {}}, 1),
    ],
)
def test_what_a_footer_says(name: str, columns: dict[str, Any], rows: int) -> None:
    assert table((TABLES / f"{name}.parquet").read_bytes()) == Table(columns, rows)


def test_no_rows() -> None:
    found = table((TABLES / "no-rows.parquet").read_bytes())
    assert found.rows == 0 and list(found.columns) == ["prompt", "data_source", "reward_model", "答案"]


def test_the_same_as_pyarrow() -> None:
    """Where it is installed."""
    pq = pytest.importorskip("pyarrow.parquet")

    def leaves(columns: dict[str, Any], before: str = "") -> list[str]:
        return [
            leaf
            for name, below in columns.items()
            for leaf in (leaves(below, f"{before}{name}.") if below else [before + name])
        ]

    for file in TABLES.glob("*.parquet"):
        if file.stem != "encrypted":
            theirs = pq.ParquetFile(file)
            ours = table(file.read_bytes())
            assert leaves(ours.columns) == [column.path for column in theirs.schema]
            assert ours.rows == theirs.metadata.num_rows


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not a Parquet file"),
        (b"PAR1", "is not a whole Parquet file: its end is missing"),
        (b'{"prompt": "x"}\n', "is not a Parquet file"),
        (SOUND[:-1], "is not a whole Parquet file: its end is missing"),
        (SOUND[: len(SOUND) // 2], "is not a whole Parquet file: its end is missing"),
        (SOUND[-FOOTER - 7 :], "is not a whole Parquet file: its footer is longer than the file"),
        (b"PAR1\xff\xff\xff\xffPAR1", "is not a whole Parquet file: its footer is longer than the file"),
    ],
)
def test_what_is_no_whole_file(data: bytes, why: str) -> None:
    with pytest.raises(Malformed) as caught:
        table(data)
    assert (caught.value.why, caught.value.row) == (why, 0)


def test_an_encrypted_footer_is_not_told() -> None:
    with pytest.raises(NotTold, match=r"is encrypted\Z"):
        table((TABLES / "encrypted.parquet").read_bytes())


def test_a_large_footer_is_read_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 row groups follow the schema; should the schema be cut, nothing is told."""
    data = (TABLES / "groups.parquet").read_bytes()
    monkeypatch.setattr(parquet, "_MAX_FOOTER", 64)
    assert int.from_bytes(data[-8:-4], "little") > 1000
    assert table(data) == Table({"messages": {}}, 20)
    monkeypatch.setattr(parquet, "_MAX_FOOTER", 20)
    with pytest.raises(NotTold, match="has a footer that cannot be read here"):
        table(data)


@given(st.binary(max_size=80))
def test_any_footer_ends_in_a_table_or_is_not_told(footer: bytes) -> None:
    _try(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@given(st.integers(0, FOOTER - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_footer_ends_in_a_table_or_is_not_told(at: int, damage: bytes) -> None:
    start = len(SOUND) - 8 - FOOTER + at
    end = min(start + len(damage), len(SOUND) - 8)
    _try(SOUND[:start] + damage[: end - start] + SOUND[end:])


def _try(data: bytes) -> None:
    try:
        assert isinstance(table(data), Table)
    except NotTold as error:
        assert str(error) == "has a footer that cannot be read here"


def test_a_schema_without_an_end() -> None:
    """Lists that say that they are longer than the file, groups in groups: bounded, and not told."""
    for footer in (b"\x15\x02\x29\xfc\xff\xff\xff\x7f", b"\x15\x02\x19" + b"\x19" * 5000, b"\x1c" * 5000):
        _try(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
