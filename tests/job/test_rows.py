"""Rows of JSON by content: in every way of writing them, and read on from every place where reading may stop."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.job.checks import rows
from tuneplane.job.checks.rows import Malformed, NotTold, first_rows

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6)


def read(data: bytes, most: int = 100) -> list[tuple[int, Any]]:
    return list(first_rows(io.BytesIO(data), most))


def refused(data: bytes) -> tuple[int, str, list[Any]]:
    """Row, sentence and the rows before it."""
    before = []
    with pytest.raises(Malformed) as caught:
        for _, row in first_rows(io.BytesIO(data), 100):
            before.append(row)
    return caught.value.row, caught.value.why, before


def written(objects: list[Any], way: str) -> tuple[bytes, list[int]]:
    """The objects as text, and the numbers of their rows."""
    escaped = len(way) % 2 == 0
    texts = [json.dumps(item, ensure_ascii=escaped) for item in objects]
    lines = [*range(1, len(objects) + 1)]
    if way == "lines":
        return "".join(f"{text}\n" for text in texts).encode(errors="surrogatepass"), lines
    if way == "crlf and a mark":
        return ("\ufeff" + "\r\n".join(texts)).encode(errors="surrogatepass"), lines
    if way == "blank lines":
        return "".join(f"\n \n{text}\t" for text in texts).encode(errors="surrogatepass"), [
            2 * line + 1 for line in lines
        ]
    if way == "nothing between":
        return "".join(texts).encode(errors="surrogatepass"), [1] * len(texts)
    if way == "array":
        return f" [{', '.join(texts)}] ".encode(errors="surrogatepass"), lines
    return json.dumps(objects, indent=2, ensure_ascii=escaped).encode(errors="surrogatepass"), lines


WAYS = ["lines", "crlf and a mark", "blank lines", "nothing between", "array", "indented array"]


def decodable(objects: list[Any], way: str) -> bool:
    try:
        written(objects, way)[0].decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=40)
@given(objects=OBJECTS, size=st.sampled_from([1, 2, 3, 7, 64, 1 << 18]))
def test_every_way_of_writing_them(way: str, objects: list[Any], size: int) -> None:
    """size: bytes of the first piece that is read."""
    if not decodable(objects, way):
        return
    data, numbers = written(objects, way)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_FIRST_BYTES", size)
        assert read(data) == list(zip(numbers, objects, strict=True))
        assert read(data, 2) == list(zip(numbers, objects, strict=True))[:2]


@given(data=st.binary(max_size=60) | st.text('{}[]",: \n\\u01ae-trfn', max_size=60).map(str.encode))
def test_anything_ends_in_rows_or_in_a_sentence(data: bytes) -> None:
    """Whatever the size of the pieces, with the same end."""
    ends = []
    for size in (1, 5, 1 << 18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "_FIRST_BYTES", size)
            try:
                ends.append(repr(read(data)))
            except Malformed as error:
                ends.append(f"{error.row}: {error.why}")
    assert len(set(ends)) == 1


@pytest.mark.parametrize(
    ("data", "row", "why", "before"),
    [
        (b'{"a": 1}\n{"a": \n', 2, "is not JSON at line 3, column 1, where the file ends", 1),
        (b'{"a": 1},\n{"a": 2}\n', 1, "is not JSON at line 1, column 9", 1),
        (b'{"a": 1}\n\n{"a": "x\n"}', 3, "is not JSON at line 3, column 9", 1),
        (b'{"a": "x', 1, "is not JSON at line 1, column 7", 0),
        (b"{'a': 1}", 1, "is not JSON at line 1, column 2", 0),
        (b"prompt\n", 1, "is not JSON at line 1, column 1", 0),
        (b"[", 1, "is not JSON at line 1, column 2, where the file ends", 0),
        (b'[{"a": 1}', 1, "is not JSON at line 1, column 10, where the file ends", 1),
        (b'[{"a": 1},]', 2, "is not JSON at line 1, column 11", 1),
        (b'[{"a": 1}\n{"a": 2}]', 1, "is not JSON at line 2, column 1", 1),
        (b'[{"a": 1}]\n[{"a": 2}]\n', 1, "is not JSON at line 2, column 1", 1),
        (b"[]\n[]\n", 0, "is not JSON at line 2, column 1", 0),
        (b'{"a": 1}\n\n{"a": "\xe9"}', 0, "is not UTF-8 text in line 3", 1),
        ('{"a": 1}\n'.encode("utf-16"), 0, "is not UTF-8 text in line 1", 0),
        (b'{"a": 1}\n\xe4\xb8', 0, "is not UTF-8 text in line 2", 1),
        (b"[" * 200_000, 1, "nests too deep to be read", 0),
    ],
)
def test_what_is_malformed(data: bytes, row: int, why: str, before: int) -> None:
    found = refused(data)
    assert (*found[:2], len(found[2])) == (row, why, before)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"", []),
        (b" \r\n\t", []),
        (b"\xef\xbb\xbf", []),
        (b"[]", []),
        (b"[ ]\n", []),
        (b"1\nnull\ntrue\n", [1.0, None, True]),
        (b'"x"\n[1]\n', ["x", [1.0]]),
        (b"[1, 2]\n[3]\n", [[1.0, 2.0], [3.0]]),
        (b"[[1], [2]]", [[[1.0], [2.0]]]),
        (b'[{"a": 1}, 2, null]', [{"a": 1.0}, 2.0, None]),
        (
            b'{"a": NaN, "b": -Infinity}',
            [{"a": pytest.approx(float("nan"), nan_ok=True), "b": -float("inf")}],
        ),
        (b'{"n": ' + b"9" * 5000 + b"}", [{"n": float("inf")}]),
        (b'{"a": 1, "a": 2}', [{"a": 2.0}]),
    ],
)
def test_what_is_read_as_it_is(data: bytes, values: list[Any]) -> None:
    assert [value for _, value in read(data)] == values


def test_nothing_behind_the_rows_is_looked_at() -> None:
    file = io.BytesIO(b'{"a": 1}\n' * 100 + b"\xff" * (4 << 20))
    assert len(list(first_rows(file, 100))) == 100
    assert file.tell() == rows._FIRST_BYTES


def test_a_large_file_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_BYTES", 1000)
    monkeypatch.setattr(rows, "_FIRST_BYTES", 100)
    line = json.dumps({"a": "x" * 290}).encode() + b"\n"
    assert len(line) == 300
    for data, count in (
        (line * 3, 3),
        (line * 3 + b" " * 100, 3),
        (line * 3 + b" " * 100 + b"?", 3),
        (line * 4, 3),
    ):
        file = io.BytesIO(data)
        assert len(list(first_rows(file, 100))) == count
        assert file.tell() <= 1001
    assert [row for row, _ in read(b"[" + b",".join([line] * 5) + b"]")] == [1, 2, 3]


@pytest.mark.parametrize("start", [b'{"a": "', b'[{"a": "', b'{"a": 1, "b": ['])
def test_a_first_row_that_is_too_large_is_nobodys_fault(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_BYTES", 2 << 20)
    with pytest.raises(NotTold, match="has a first row of more than 2 MiB"):
        read(start + b" " * (3 << 20))
