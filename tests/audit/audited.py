"""Runs that nobody has started, scripts copied elsewhere, and what an audit of them finds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.world import World

from tuneplane.cli.chosen import Chosen
from tuneplane.plan.inputs import Request
from tuneplane.prepare import prepare
from tuneplane.render.script import render
from tuneplane.runs.folder import Run, create

Found = list[tuple[str, str, str | None, str | None]]


def submitted(
    world: World, experiment: str, site: str | None = None, registry: str | None = None, **asked: Any
) -> Path:
    """The run folder that `tp submit` would hand over; also where it would refuse, for want of an image or data."""
    with world._inside({}):
        named = Chosen(site, registry).load()
        made = prepare(experiment, named, Request(**asked))
        run = create(
            named.site, made.plan, render(made.plan, named.site), made.files, made.helper, made.admitted
        )
    return run.folder


def audited(world: World, word: Path | str, *options: str, **environment: str) -> dict[str, Any]:
    """The audit's data, with the exit code under `code` and what it said on stderr under `err`."""
    said = world.tp(*options, "audit", str(word), "--json", **environment)
    data: dict[str, Any] = json.loads(said.out) if said.out else {}
    return {"code": said.code, "err": said.err, **data}


def found(report: dict[str, Any]) -> Found:
    """(kind, where, expected, found) of every difference."""
    return [tuple(item.values()) for item in report["differences"]]  # type: ignore[misc]


def rewrite(file: Path, *changes: tuple[str, str] | Callable[[str], str]) -> None:
    """Put each second text for the first, which must be there once, whatever the file's mode."""
    text = file.read_bytes().decode()
    for change in changes:
        if callable(change):
            text = change(text)
        else:
            assert text.count(change[0]) == 1, (change[0], text.count(change[0]))
            text = text.replace(*change)
    write(file, text.encode())


def write(file: Path, data: bytes) -> None:
    """Write a file whatever its mode, which stays."""
    mode = file.stat().st_mode if file.exists() else 0o644
    file.unlink(missing_ok=True)
    file.write_bytes(data)
    os.chmod(file, mode & 0o777)


__all__ = ["Found", "Run", "audited", "found", "rewrite", "submitted", "write"]
