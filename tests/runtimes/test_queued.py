"""Which runs in the queue name an image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import site

from tuneplane.errors import SchedulerError
from tuneplane.runtimes import queued
from tuneplane.runtimes.queued import naming
from tuneplane.schedulers import Queued, scheduler

SHA = "a" * 64


class Queue:
    """A scheduler with these jobs."""

    def __init__(self, *jobs: Queued) -> None:
        self.jobs = jobs

    def everyone(self, _: object) -> list[Queued]:
        return list(self.jobs)


def run(place: Path, name: str, record: Any) -> str:
    (place / name).mkdir()
    text = record if isinstance(record, str) else json.dumps(record)
    (place / name / "run.json").write_text(text)
    return str(place / name)


def image(sha256: str | None) -> dict[str, Any]:
    return {"plan": {"image": {"path": "/i.sif", "sha256": sha256}}}


def test_everybodys_jobs_that_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        Queued("12", "wei", run(tmp_path, "b-run", image(SHA))),
        Queued("11", "ana", run(tmp_path, "a-run", image(SHA))),
        Queued("13", "wei", run(tmp_path, "other", image("b" * 64))),
        Queued("14", "wei", run(tmp_path, "unknown", image(None))),
        Queued("15", "wei", run(tmp_path, "host", {"plan": {"image": None}})),
        Queued("16", "wei", run(tmp_path, "older", {})),
        Queued("17", "wei", run(tmp_path, "list", [])),
        # not of tuneplane
        Queued("18", "bob", str(tmp_path / "none")),
        Queued("19", "bob", ""),
        # damaged, or the user's alone
        Queued("20", "bob", run(tmp_path, "half", "{")),
        Queued("21", "eva", run(tmp_path, "hidden", image(SHA))),
    ]
    real = Path.stat

    def stat(path: Path, **more: Any) -> Any:
        if path.parent.name == "hidden":
            raise PermissionError(13, "Permission denied")
        return real(path, **more)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(queued, "scheduler", lambda _: Queue(*jobs))
    assert naming(site(), SHA) == (["a-run of ana, job 11", "b-run of wei, job 12"], 2)


def test_a_scheduler_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Queue):
        def everyone(self, _: object) -> list[Queued]:
            raise SchedulerError.of("squeue says nothing")

    monkeypatch.setattr(queued, "scheduler", lambda _: Silent())
    with pytest.raises(SchedulerError):
        naming(site(), SHA)


def test_on_a_site_without_a_queue() -> None:
    here = site(scheduler="local", runtime={"kind": "host"})
    assert scheduler(here).everyone(here) == [] and naming(here, SHA) == ([], 0)
