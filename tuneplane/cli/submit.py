"""`tp submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli.options import experiment_argument, json_option, request_options

if TYPE_CHECKING:
    from tuneplane.plan.build import Request


@click.command()
@experiment_argument
@request_options
@click.option("--wait", is_flag=True, help="Wait for the end; a run that did not complete exits with 8.")
@json_option
@click.pass_obj
def submit(site: str | None, experiment: str, request: Request, wait: bool, as_json: bool) -> None:
    """Freeze an experiment into a run folder and hand its script to the scheduler."""
    from tuneplane.cli.output import emit_json, note
    from tuneplane.submit import submit as hand_over

    run = hand_over(experiment, site, request)
    if as_json:
        emit_json({"run": run.id, "folder": str(run.folder), "job": (run.job or {}).get("id")})
    else:
        click.echo(run.id)
        note(f"submitted {experiment}: tp job logs {run.id} -f")
    if wait:
        from tuneplane.cli.job import wait_for
        from tuneplane.sites.load import load_site

        wait_for(load_site(site).site, run)
