"""`tp job cancel` and `tp job requeue`."""

from __future__ import annotations

import click

from tuneplane.cli.asked import find, run_argument, sentence, status_of
from tuneplane.cli.chosen import Chosen
from tuneplane.errors import shown


@click.command("cancel")
@run_argument
@click.pass_obj
def cancel(chosen: Chosen, run_word: str) -> None:
    """Ask a run to end."""
    from tuneplane.errors import InputError
    from tuneplane.schedulers import scheduler

    site, run = find(chosen, run_word)
    found = status_of(site, run)
    if found.state not in ("queued", "running"):
        what = "has ended" if found.final else "has no job that is known to live"
        raise InputError.of(f"{shown(run.id)} {what}: {sentence(found)}")
    scheduler(site).cancel(run, site)
    click.echo(f"asked {run.id} to end")


@click.command("requeue")
@run_argument
@click.pass_obj
def requeue(chosen: Chosen, run_word: str) -> None:
    """Start a run once more, as a new attempt.

    A running one goes back into the queue and goes on from its newest checkpoint; one that has ended becomes a new job.
    """
    from tuneplane.cli.output import note, typed
    from tuneplane.errors import InputError
    from tuneplane.runs.comeback import refusal
    from tuneplane.runs.folder import read_run
    from tuneplane.schedulers import scheduler

    site, run = find(chosen, run_word)
    found = status_of(site, run)
    run = read_run(run.folder) or run
    if why := refusal(run, found):
        raise InputError.of(f"{shown(run.id)} {why}", hint=typed("job", "status", run.id))
    if found.state == "running":
        scheduler(site).requeue(run, site)
        note(f"{run.id} goes back into the queue after attempt {found.attempt}")
    else:
        scheduler(site).again(run, site)
        run = read_run(run.folder) or run
        note(f"{run.id} is job {(run.job or {}).get('id')} now, attempt {found.attempt + 1}")
    click.echo(run.id)
