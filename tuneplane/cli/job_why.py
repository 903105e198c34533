"""`tp job why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli.asked import bound_of, find, run_argument
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option

if TYPE_CHECKING:
    from tuneplane.runs.folder import Run
    from tuneplane.runs.status import Status
    from tuneplane.runs.why.reason import Reason
    from tuneplane.sites.model import Site


@click.command("why")
@run_argument
@json_option
@click.pass_obj
def why(chosen: Chosen, run_word: str, as_json: bool) -> None:
    """Say why a run waits, failed or is lost, and what to do."""
    from tuneplane.cli.output import clean, emit_json

    site, run = find(chosen, run_word)
    status, reason = reason_of(site, run)
    evidence = reason.evidence
    if as_json:
        shown = {"line": evidence.line, "file": evidence.file} if evidence else None
        emit_json(
            {
                "run": run.id,
                "state": status.state,
                "kind": reason.kind,
                "sentence": reason.sentence,
                "action": reason.action,
                "evidence": shown,
                "attempt": status.attempt,
            }
        )
        return
    click.echo(clean(f"{run.id}: {reason.sentence}"))
    if evidence:
        click.echo(clean(f"  {evidence.file}: {evidence.line}"))
    if reason.action:
        click.echo(clean(f"  try      {reason.action}"))


def reason_of(site: Site, run: Run) -> tuple[Status, Reason]:
    """How the run stands, and why."""
    from tuneplane.cli.output import typed
    from tuneplane.runs.folder import with_job
    from tuneplane.runs.status import judge
    from tuneplane.runs.why.facts import gather
    from tuneplane.runs.why.judge import why as judged
    from tuneplane.schedulers import scheduler

    job = scheduler(site).explained(run, site)
    # the question may have found the job of a run that had none, or its successor
    run = with_job(run)
    status = judge(run, job, bound_of(site))
    return status, judged(gather(run, status, job, typed))
