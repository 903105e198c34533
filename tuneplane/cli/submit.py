"""`tp submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli import complete
from tuneplane.cli.options import WithWords, experiment_argument, json_option, request_options

if TYPE_CHECKING:
    from tuneplane.plan.build import Request
    from tuneplane.schedulers import Wishes
    from tuneplane.submit import Ready


@click.command(cls=WithWords)
@experiment_argument
@request_options
@click.option(
    "--after", metavar="RUN", shell_complete=complete.runs, help="Start when this run has completed."
)
@click.option("--hold", is_flag=True, help="Queue it held.")
@click.option("--dry-run", is_flag=True, help="Show what would be frozen and submitted, and submit nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end; a run that did not complete exits with 8.")
@json_option
@click.pass_obj
def submit(
    site: str | None,
    experiment: str,
    request: Request,
    after: str | None,
    hold: bool,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Freeze an experiment into a run folder and hand its script to the scheduler."""
    from tuneplane.cli.output import emit_json, language, note, typed
    from tuneplane.submit import ready
    from tuneplane.submit import submit as hand_over

    wishes = _wishes(site, after, hold)
    checked = ready(experiment, site, request, wishes, language(None))
    for text in checked.notes:
        note(f"note: {text}")
    if dry_run:
        _show(checked, as_json)
        return
    run = hand_over(checked, wishes)
    if as_json:
        emit_json({"run": run.id, "folder": str(run.folder), "job": (run.job or {}).get("id")})
    else:
        click.echo(run.id)
        note(f"submitted {experiment}: {typed('job', 'logs', run.id, '-f')}")
    if wait:
        from tuneplane.cli.job import wait_for

        wait_for(checked.prepared.named_site.site, run)


def _wishes(site: str | None, after: str | None, hold: bool) -> Wishes:
    from tuneplane.runs.folder import find_run
    from tuneplane.schedulers import Wishes
    from tuneplane.sites.load import load_site

    return Wishes(find_run(load_site(site).site, after) if after else None, hold)


def _show(checked: Ready, as_json: bool) -> None:
    """What a submission would freeze and hand over."""
    from tuneplane.cli.output import emit_json, emit_table

    prepared, plan = checked.prepared, checked.prepared.plan
    site = prepared.named_site.site
    verdict = ""
    if site.scheduler == "slurm":
        from tuneplane.schedulers.slurm.limits import estimate

        verdict = estimate(site, checked.script)
    frozen = [file.path for file in prepared.files.files]
    if as_json:
        emit_json(
            {
                "experiment": plan.provenance.experiment,
                "method": plan.provenance.method,
                "profile": plan.topology.profile,
                "frozen": frozen,
                "left_out": [{"path": path, "reason": reason} for path, reason in prepared.files.left_out],
                "directives": {line.name: line.value for line in plan.directives},
                "scheduler_says": verdict,
                "script": checked.script,
            }
        )
        return
    rows = [("frozen", path) for path in frozen]
    rows += [("left out", f"{path} ({reason})") for path, reason in prepared.files.left_out]
    rows += [
        ("directive", f"--{d.name}" + ("" if d.value is None else f"={d.value}")) for d in plan.directives
    ]
    rows += [("scheduler", verdict)] if verdict else []
    emit_table((), rows)
