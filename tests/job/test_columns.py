"""Data files that lack something or are none: what is said of each, by this Python and by the oldest one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from job.conftest import old_python

from tuneplane.job.checks.columns import DataFile, Unfit, read_files, unfit, written_files
from tuneplane.job.checks.rows import NotTold

REPOSITORY = Path(__file__).resolve().parents[2]
TABLES = Path(__file__).parent / "tables"
PAIRS = (("prompt", "chosen", "rejected"),)
EITHER = (("messages",), ("prompt", "response"))
TASKS = (("prompt", "data_source", "reward_model.ground_truth"),)
PAIR = b'{"prompt": "p", "chosen": "c", "rejected": "r"}\n'

Content = bytes | Callable[[Path], object]
FINE = ""


def pairs(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


CASES: dict[str, tuple[str, Content, tuple[tuple[str, ...], ...], str]] = {
    "all there": ("a.jsonl", PAIR * 3, PAIRS, FINE),
    "more than is needed": ("a.jsonl", pairs({"x": 1, "prompt": 1, "chosen": 2, "rejected": 3}), PAIRS, FINE),
    "one is missing": (
        "a.jsonl", PAIR * 6 + pairs({"prompt": "p", "chosen": "c"}), PAIRS,
        "row 7 of `FILE` lacks `rejected`; it has `prompt` and `chosen`",
    ),
    "several are missing": (
        "a.jsonl", pairs({"question": "q"}), PAIRS, "row 1 of `FILE` lacks `prompt`, `chosen` and `rejected`; it has `question`",
    ),
    "all are missing": (
        "a.jsonl", b"{}\n", PAIRS, "row 1 of `FILE` lacks `prompt`, `chosen` and `rejected`; it has no columns",
    ),
    "one is null": (
        "a.jsonl", PAIR + b'\n{"prompt": "p", "chosen": null, "rejected": "r", "x": null}\n', PAIRS,
        "row 3 of `FILE` lacks `chosen`; it has `prompt` and `rejected`, and null for `chosen`",
    ),
    "empty values are values": ("a.jsonl", b'{"prompt": "", "chosen": [], "rejected": 0}', PAIRS, FINE),
    "not looked at that far": ("a.jsonl", PAIR * 100 + b"{}\n", PAIRS, FINE),
    "just looked at": (
        "a.jsonl", PAIR * 99 + b'{"prompt": 1, "chosen": 1}\n', PAIRS,
        "row 100 of `FILE` lacks `rejected`; it has `prompt` and `chosen`",
    ),
    "one of two layouts": ("a.jsonl", pairs({"messages": []}, {"prompt": "p", "response": "r"}), EITHER, FINE),
    "neither of two layouts": (
        "a.jsonl", pairs({"prompt": "p", "answer": "a"}), EITHER,
        "row 1 of `FILE` lacks `messages`, or `response`; it has `prompt` and `answer`",
    ),
    "the other layout, half": (
        "a.jsonl", pairs({"text": "t"}), EITHER, "row 1 of `FILE` lacks `messages`, or `prompt` and `response`; it has `text`",
    ),
    "no layout": ("a.jsonl", pairs({"text": "t"}), (), FINE),
    "nested": ("a.jsonl", pairs({"prompt": [], "data_source": "s", "reward_model": {"ground_truth": 1}}), TASKS, FINE),
    "nested in a name with a dot": (
        "a.jsonl", pairs({"prompt": [], "data_source": "s", "reward_model.ground_truth": 1}), TASKS, FINE,
    ),
    "nested and missing inside": (
        "a.jsonl", pairs({"prompt": [], "data_source": "s", "reward_model": {"style": "rule"}}), TASKS,
        "row 1 of `FILE` lacks `reward_model.ground_truth`; it has `prompt`, `data_source` and `reward_model.style`",
    ),
    "nested and null inside": (
        "a.jsonl", pairs({"prompt": [], "data_source": "s", "reward_model": {"ground_truth": None}}), TASKS,
        "row 1 of `FILE` lacks `reward_model.ground_truth`; it has `prompt` and `data_source`, "
        "and null for `reward_model.ground_truth`",
    ),
    "a text where an object should be": (
        "a.jsonl", pairs({"prompt": [], "data_source": "s", "reward_model": "{}"}), TASKS,
        "row 1 of `FILE` lacks `reward_model.ground_truth`; it has `prompt`, `data_source` and `reward_model`",
    ),
    "many columns": (
        "a.jsonl", pairs({f"c{i}": i for i in range(40)}), EITHER,
        "row 1 of `FILE` lacks `messages`, or `prompt` and `response`; it has "
        + ", ".join(f"`c{i}`" for i in range(12)) + " and 28 more",
    ),
    "odd names": (
        "a.jsonl", pairs({"a\nb\x1b[31m": 1, "é世": 2, "x" * 100: 3}), (("p",),),
        "row 1 of `FILE` lacks `p`; it has `a\\nb\\x1b[31m`, `é世` and `" + "x" * 59 + "…`",
    ),
    "a row that is a list": ("a.jsonl", PAIR * 6 + b"[1]\n", PAIRS, "row 7 of `FILE` is a list, not an object"),
    "a row that is a text": ("a.jsonl", b'"x"\n', PAIRS, "row 1 of `FILE` is a text, not an object"),
    "a row that is a number": ("a.jsonl", b"1\n", PAIRS, "row 1 of `FILE` is a number, not an object"),
    "a row that is true": ("a.jsonl", PAIR + b"true\n", PAIRS, "row 2 of `FILE` is true or false, not an object"),
    "a row that is null": ("a.jsonl", PAIR + b"null\n", PAIRS, "row 2 of `FILE` is null, not an object"),
    "rows in a list of lists": ("a.json", b"[[1, 2], [3]]", PAIRS, "row 1 of `FILE` is a list, not an object"),
    "rows under a key": (
        "a.json", b'{"data": [%s]}' % PAIR, PAIRS, "row 1 of `FILE` lacks `prompt`, `chosen` and `rejected`; it has `data`",
    ),
    "an array": ("a.json", b"[%s]" % PAIR, PAIRS, FINE),
    "an array under the other name": ("a.jsonl", b"[%s]" % PAIR, PAIRS, FINE),
    "lines under the other name": ("a.json", PAIR * 2, PAIRS, FINE),
    "the third of an array": (
        "a.json", b"[%s,%s,\n{}]" % (PAIR, PAIR), PAIRS,
        "row 3 of `FILE` lacks `prompt`, `chosen` and `rejected`; it has no columns",
    ),
    "CRLF, a mark and blank lines": ("a.jsonl", b"\xef\xbb\xbf\r\n" + PAIR.replace(b"\n", b"\r\n\r\n") * 3, PAIRS, FINE),
    "no end of line": ("a.jsonl", PAIR.strip(), PAIRS, FINE),
    "broken": ("a.jsonl", PAIR + PAIR[:-3], PAIRS, "row 2 of `FILE` is not JSON at line 2, column 44"),
    "a comma behind": ("a.jsonl", PAIR.replace(b"\n", b",\n"), PAIRS, "row 1 of `FILE` is not JSON at line 1, column 48"),
    "no UTF-8": ("a.jsonl", PAIR + PAIR.replace(b"p", b"\xe9"), PAIRS, "`FILE` is not UTF-8 text in line 2"),
    "empty": ("a.jsonl", b"", PAIRS, "`FILE` has no rows"),
    "blank": ("a.json", b"\n \n", PAIRS, "`FILE` has no rows"),
    "an empty array": ("a.json", b"[]", PAIRS, "`FILE` has no rows"),
    "gzip": ("a.jsonl.gz", gzip.compress(PAIR * 3), PAIRS, FINE),
    "gzip without its name": ("a.jsonl", gzip.compress(PAIR * 3), PAIRS, FINE),
    "gzip only by name": ("a.jsonl.gz", PAIR, PAIRS, FINE),
    "gzip, and one is missing": (
        "a.jsonl.gz", gzip.compress(pairs({"prompt": 1, "chosen": 1})), PAIRS,
        "row 1 of `FILE` lacks `rejected`; it has `prompt` and `chosen`",
    ),
    "gzip cut off": ("a.jsonl.gz", gzip.compress(PAIR * 3)[:-12], PAIRS, "`FILE` is compressed and cannot be decompressed"),
    "gzip damaged": ("a.jsonl", b"\x1f\x8b" + b"x" * 40, PAIRS, "`FILE` is compressed and cannot be decompressed"),
    "a pointer": (
        "a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", PAIRS,
        "`FILE` is a pointer of Git LFS, not the file itself",
    ),
    "a folder": ("a.parquet", Path.mkdir, PAIRS, "`FILE` is a folder, not a file"),
    "a pipe": ("a.jsonl", lambda path: os.mkfifo(path), PAIRS, "`FILE` is not a regular file"),
    "a device": ("a.json", lambda path: path.symlink_to("/dev/zero"), PAIRS, "`FILE` is not a regular file"),
    "a link": ("a.json", lambda path: (path.with_name("b").write_bytes(PAIR), path.symlink_to("b")), PAIRS, FINE),
    "nothing": ("a.json", lambda path: None, PAIRS, "`FILE` cannot be read: No such file or directory"),
    "CSV": ("a.csv", b"prompt,chosen,rejected\na,b,c\n", PAIRS, FINE),
    "CSV with quotes, a mark and blank lines": (
        "a.csv", b'\xef\xbb\xbf\r\n"prompt","chosen","rejected"\r\n"a\nb",b,c\r\n', PAIRS, FINE,
    ),
    "CSV without one": ("a.csv", b"prompt,chosen\na,b\n", PAIRS, "`FILE` lacks `rejected`; it has `prompt` and `chosen`"),
    "CSV with another separator": (
        "a.csv", b"prompt;chosen;rejected\na;b;c\n", PAIRS,
        "`FILE` lacks `prompt`, `chosen` and `rejected`; it has `prompt;chosen;rejected`",
    ),
    "CSV, nested": (
        "a.csv", b"prompt,data_source,reward_model\na,b,{}\n", TASKS,
        "`FILE` lacks `reward_model.ground_truth`; it has `prompt`, `data_source` and `reward_model`",
    ),
    "CSV without rows": ("a.csv", b"prompt,chosen,rejected\n\n", PAIRS, "`FILE` has no rows"),
    "CSV of nothing": ("a.csv", b"", PAIRS, "`FILE` has no rows"),
    "CSV in another encoding": ("a.csv", "prompt,é\n".encode("latin-1") * 2, PAIRS, "`FILE` is not CSV in UTF-8"),
    "CSV with NUL": ("a.csv", b"prompt\0,x\na,b\n", PAIRS, "`FILE` is not CSV in UTF-8"),
    "CSV, large": ("a.csv", b"prompt,chosen,rejected\n" + "é,b,c\n".encode() * 20_000, PAIRS, FINE),
    "CSV, compressed": ("a.csv.gz", gzip.compress(b"prompt,chosen\na,b\n"), PAIRS, "`FILE` lacks `rejected`; it has `prompt` and `chosen`"),
    "Parquet": ("a.parquet", (TABLES / "pyarrow.parquet").read_bytes(), TASKS, FINE),
    "Parquet without one": (
        "a.parquet", (TABLES / "polars.parquet").read_bytes(), TASKS,
        "`FILE` lacks `data_source`; it has `prompt` and `reward_model`",
    ),
    "Parquet without one inside": (
        "a.parquet", (TABLES / "duckdb.parquet").read_bytes(), (("prompt", "reward_model.answer"),),
        "`FILE` lacks `reward_model.answer`; it has `prompt`, `reward_model.style`, `reward_model.ground_truth` and `extra_info`",
    ),
    "Parquet without rows": ("a.parquet", (TABLES / "no-rows.parquet").read_bytes(), TASKS, "`FILE` has no rows"),
    "Parquet that is none": ("a.parquet", PAIR, PAIRS, "`FILE` is not a Parquet file"),
}  # fmt: skip
UNTOLD: dict[str, tuple[str, bytes, str]] = {
    "a suffix of no format": ("a.txt", b"x", "has no suffix of a known format"),
    "no suffix": ("a", PAIR, "has no suffix of a known format"),
    "a suffix in capitals": ("a.JSONL", PAIR, "has no suffix of a known format"),
    "an encrypted footer": ("a.parquet", (TABLES / "encrypted.parquet").read_bytes(), "is encrypted"),
    "a header without an end": ("a.csv", b"a," * 50_000, "has a longer header than is read"),
    "a row without an end": (
        "a.jsonl",
        b'{"a": "' + b"x" * (17 << 20),
        "has a first row of more than 16 MiB",
    ),
}


def put(folder: Path, name: str, content: Content) -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(tmp_path: Path, name: str) -> None:
    file, content, layouts, said = CASES[name]
    path = put(tmp_path, file, content)
    found = unfit(DataFile("data.train", str(path), layouts))
    assert (found.sentence if found else "") == (
        f"data.train cannot be used: {said}".replace("FILE", str(path)) if said else ""
    )


@pytest.mark.parametrize("name", UNTOLD)
def test_what_is_not_told(tmp_path: Path, name: str) -> None:
    file, content, why = UNTOLD[name]
    path = put(tmp_path, file, content)
    with pytest.raises(NotTold) as caught:
        unfit(DataFile("data.train", str(path), PAIRS))
    assert str(caught.value) == why


def test_the_nearest_layout_and_what_is_there(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", pairs({"prompt": "p", "reply": "r", "x": None}))
    found = unfit(DataFile("data.validation", str(path), EITHER))
    assert found and found.sentence.startswith("data.validation cannot be used: row 1 of ")
    assert found[1:] == (("messages",), ("prompt", "reply"))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert unfit(DataFile("data.train", "/x/a.json", PAIRS)) == Unfit(
        "data.train cannot be used: `/x/a.json` cannot be read: Permission denied"
    )


def test_files_as_an_option() -> None:
    files = (DataFile("data.train", "/a b/é.jsonl", EITHER), DataFile("data.train.1", "/c", PAIRS))
    text = written_files(files)
    assert text.isascii() and read_files(text) == files
    assert written_files(()) == "" and read_files("[]") == ()


@pytest.mark.parametrize(
    "text",
    ["", "{", "1", "[1]", "[[1, 2]]", '["ab"]', '[["a", "b", [[1]]]]', '[["a", "b", [1]]]', '[[1, "b", []]]'],
)
def test_an_option_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError):
        read_files(text)


def test_the_oldest_python_says_the_same(tmp_path: Path) -> None:
    python = old_python()
    if python is None:
        pytest.skip("there is no Python 3.8 here")
    files = []
    for i, (file, content, layouts, _) in enumerate(CASES.values()):
        folder = tmp_path / str(i)
        folder.mkdir()
        files.append(DataFile("data.train", str(put(folder, file, content)), layouts))
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from tuneplane.job.checks.columns import read_files, unfit\n"
        "found = [unfit(file) for file in read_files(sys.stdin.read())]\n"
        "print(json.dumps([item and item.sentence for item in found]))\n"
    )
    done = subprocess.run(
        [python, "-c", code, str(REPOSITORY)],
        input=written_files(tuple(files)),
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [found and found.sentence for found in map(unfit, files)]
    assert json.loads(done.stdout) == ours
