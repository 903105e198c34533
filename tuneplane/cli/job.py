"""`tp job`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option
from tuneplane.errors import RunEndedBadly, shown

if TYPE_CHECKING:
    from tuneplane.runs.folder import Run
    from tuneplane.runs.status import Status
    from tuneplane.sites.model import Site

POLL_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


def pauses() -> Iterator[float]:
    """Seconds between questions to the scheduler: short at first, for short runs, then sparing a controller that
    answers a whole cluster.
    """
    pause = POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.2, LONGEST_PAUSE_SECONDS)


@click.group()
def job() -> None:
    """Runs and how they stand. RUN is a run's id, the beginning of one, or its folder."""


def _run_argument(function: Any) -> Any:
    return click.argument("run_word", metavar="RUN", shell_complete=complete.runs)(function)


def _find(chosen: Chosen, word: str) -> tuple[Site, Run]:
    from tuneplane.runs.folder import find_run

    site = chosen.load().site
    return site, find_run(site, word)


def judged(site: Site, runs: list[Run]) -> list[tuple[Run, Status]]:
    """Each run with how it stands, with one question to the scheduler for all."""
    from tuneplane.runs.folder import read_run
    from tuneplane.runs.status import judge
    from tuneplane.schedulers import scheduler

    jobs = scheduler(site).jobs(runs, site) if runs else {}
    # the question may have found the job of a run that had none
    known = [run if run.job else read_run(run.folder) or run for run in runs]
    return [(run, judge(run, jobs[run.id])) for run in known]


def status_of(site: Site, run: Run) -> Status:
    """How the run stands."""
    return judged(site, [run])[0][1]


def wait_for(site: Site, run: Run) -> None:
    """Return when the run has completed. Raises RunEndedBadly when it ended otherwise."""
    from tuneplane.cli.output import note
    from tuneplane.runs.folder import read_run

    said = ""
    for pause in pauses():
        status = status_of(site, read_run(run.folder) or run)
        if status.state != said:
            said = status.state
            note(f"{run.id}: {said}")
        if status.state == "completed":
            return
        if _over(status):
            raise RunEndedBadly.of(
                f"{run.id} {_sentence(status)}", hint=shlex.join(["tp", "job", "logs", run.id])
            )
        time.sleep(pause)


def _over(status: Status) -> bool:
    """Whether waiting is in vain: a scheduler that did not answer may do so later."""
    return status.final or status.state == "new" or (status.state == "unknown" and status.asked)


def _sentence(status: Status) -> str:
    """How a run stands, to be read after its id: `failed with 7: …`, `cancelled while it ran`."""
    if status.why.startswith(status.state):
        return status.why
    code = f" with {status.code}" if status.state == "failed" and status.code is not None else ""
    return f"{status.state}{code}" + (f": {status.why}" if status.why else "")


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
@_run_argument
@json_option
@click.pass_obj
def status(chosen: Chosen, run_word: str, as_json: bool) -> None:
    """Show how a run stands, and why."""
    from tuneplane.cli.output import emit_json, emit_table

    site, run = _find(chosen, run_word)
    facts = _facts(*judged(site, [run])[0])
    if as_json:
        emit_json(facts)
        return
    for key in ("created", "started", "ended"):
        facts[key] = _when(facts[key])
    emit_table((), [(key, "-" if value in (None, "") else str(value)) for key, value in facts.items()])


@job.command("logs")
@_run_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--lines", "-n", type=click.IntRange(min=0), help="Only the last lines of each log.")
@click.option("--node", metavar="RANK", type=click.IntRange(min=0), help="Only this node's log.")
@click.option("--attempt", type=click.IntRange(min=1), help="The attempt; the newest by default.")
@click.pass_obj
def logs(
    chosen: Chosen,
    run_word: str,
    follow: bool,
    lines: int | None,
    node: int | None,
    attempt: int | None,
) -> None:
    """Print a run's logs.

    The script's own comes first, then each node's; with several nodes, lines carry their rank.
    """
    from tuneplane.errors import InputError
    from tuneplane.runs.folder import read_run
    from tuneplane.runs.logs import follow as following
    from tuneplane.runs.logs import logs_of, tail

    site, run = _find(chosen, run_word)

    asking, due = pauses(), 0.0

    def ended() -> bool:
        nonlocal due
        if time.monotonic() < due:
            return False
        found = status_of(site, read_run(run.folder) or run)
        due = time.monotonic() + next(asking)
        return _over(found)

    while follow and not run.attempts() and not ended():
        time.sleep(POLL_SECONDS)
    attempts = [path for path in run.attempts() if attempt is None or int(path.name) == attempt]
    if not attempts:
        what = f"{run.id} has no attempt {attempt}" if attempt else f"{run.id} has not started"
        raise InputError.of(what, hint=shlex.join(["tp", "job", "status", run.id]))
    nodes = run.plan["topology"]["nodes"]
    if node is not None and node >= nodes:
        raise InputError.of(f"{run.id} has no node {node}", "--node", f"0 to {nodes - 1}")
    many = nodes > 1

    def show(label: str, data: bytes) -> None:
        if node is None or label == str(node):
            prefix = f"{label}: ".encode() if many else b""
            for line in data.splitlines(keepends=True):
                click.echo(prefix + line, nl=False)

    offsets: dict[str, int] = {}
    for log in logs_of(attempts[-1]):
        data, offsets[log.label] = tail(log.path, lines)
        show(log.label, data)
    if follow:
        for label, data in following(run, attempts[-1], ended, offsets):
            show(label, data)


@job.command("wait")
@_run_argument
@click.pass_obj
def wait(chosen: Chosen, run_word: str) -> None:
    """Wait for a run's end; a run that did not complete exits with 8."""
    site, run = _find(chosen, run_word)
    wait_for(site, run)


@job.command("cancel")
@_run_argument
@click.pass_obj
def cancel(chosen: Chosen, run_word: str) -> None:
    """Ask a run to end."""
    from tuneplane.errors import InputError
    from tuneplane.schedulers import scheduler

    site, run = _find(chosen, run_word)
    found = status_of(site, run)
    if found.state not in ("queued", "running"):
        what = "has ended" if found.final else "has no job that is known to live"
        raise InputError.of(f"{shown(run.id)} {what}: {_sentence(found)}")
    scheduler(site).cancel(run, site)
    click.echo(f"asked {run.id} to end")
