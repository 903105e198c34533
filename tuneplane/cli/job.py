"""`tp job`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli.asked import find, judged, run_argument, wait_for
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.job_end import cancel, requeue
from tuneplane.cli.job_logs import logs
from tuneplane.cli.job_why import why
from tuneplane.cli.options import json_option

if TYPE_CHECKING:
    from tuneplane.runs.folder import Run
    from tuneplane.runs.status import Status


@click.group()
def job() -> None:
    """Runs and how they stand. RUN is a run's id, the beginning of one, or its folder."""


def _facts(run: Run, status: Status) -> dict[str, Any]:
    provenance = run.plan["provenance"]
    return {
        "run": run.id,
        "state": status.state,
        "code": status.code,
        "why": status.why,
        "attempt": status.attempt,
        "experiment": provenance["experiment"],
        "method": provenance["method"],
        "profile": run.plan["topology"]["profile"],
        "job": (run.job or {}).get("id"),
        "created": run.record["created"],
        "started": status.started,
        "ended": status.ended,
        "folder": str(run.folder),
    }


def _when(seconds: int | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"


@job.command("ls")
@json_option
@click.pass_obj
def ls(chosen: Chosen, as_json: bool) -> None:
    """List your runs at the site, the newest first."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.runs.folder import all_runs

    site = chosen.load().site
    runs = sorted(all_runs(site), key=lambda run: (-run.record["created"], run.id))
    rows = [_facts(run, status) for run, status in judged(site, runs)]
    if as_json:
        emit_json(rows)
        return
    cells = [
        (
            r["run"],
            r["state"],
            "-" if r["code"] is None else str(r["code"]),
            r["method"],
            r["profile"],
            _when(r["created"]),
        )
        for r in rows
    ]
    emit_table(("RUN", "STATE", "EXIT", "METHOD", "PROFILE", "CREATED"), cells)


@job.command("status")
@run_argument
@json_option
@click.pass_obj
def status(chosen: Chosen, run_word: str, as_json: bool) -> None:
    """Show how a run stands, and why."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.runs.history import history, in_words

    site, run = find(chosen, run_word)
    run, found = judged(site, [run])[0]
    facts, attempts = _facts(run, found), history(run)
    if as_json:
        emit_json({**facts, "attempts": attempts, "earlier_jobs": (run.job or {}).get("earlier", [])})
        return
    if words := in_words(attempts):
        facts["attempts"] = words
    for key in ("created", "started", "ended"):
        facts[key] = _when(facts[key])
    emit_table((), [(key, "-" if value in (None, "") else str(value)) for key, value in facts.items()])


@job.command("wait")
@run_argument
@click.pass_obj
def wait(chosen: Chosen, run_word: str) -> None:
    """Wait for a run's end; a run that did not complete exits with 8."""
    site, run = find(chosen, run_word)
    wait_for(site, run)


for command in (why, logs, cancel, requeue):
    job.add_command(command)
