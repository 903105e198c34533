"""Small files written whole, and read only when they are whole."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tuneplane.files import read_json, write_json, write_whole


def test_old_content_or_new(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_whole(file, b"old", 0o600)
    write_whole(file, b"new", 0o440)
    assert file.read_bytes() == b"new" and file.stat().st_mode & 0o777 == 0o440
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_whole(tmp_path / "f", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError):
        write_whole(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "f", b"new")
    assert os.listdir(tmp_path) == []


def test_json_comes_back_in_ascii(tmp_path: Path) -> None:
    data = {"é": ["世", 1, None, {"a": True}]}
    write_json(tmp_path / "f", data)
    assert read_json(tmp_path / "f") == data
    assert (tmp_path / "f").read_bytes().isascii() and (tmp_path / "f").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a": 1', b"\0\0\0\0", b"\xff\xfe", b"[" * 100_000, b'{"a": 1} x', b"NUL"]
)
def test_damaged_json_is_no_record(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    assert read_json(tmp_path / "f") is None


def test_what_is_not_there_is_no_record(tmp_path: Path) -> None:
    assert read_json(tmp_path / "gone") is None and read_json(tmp_path) is None
    (tmp_path / "f").write_text(json.dumps(3))
    assert read_json(tmp_path / "f") == 3
