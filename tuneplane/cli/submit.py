"""`tp submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import WithWords, experiment_argument, json_option, request_options

if TYPE_CHECKING:
    from tuneplane.plan.inputs import Request
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
@click.option(
    "--upgrade-recipe", is_flag=True, help="Upgrade the experiment to the recipe in force, then submit."
)
@click.option(
    "--framework-version", metavar="V", help="Goes with --upgrade-recipe: the framework version to go to."
)
@json_option
@click.pass_obj
def submit(
    chosen: Chosen,
    experiment: str,
    request: Request,
    upgrade_recipe: bool,
    framework_version: str | None,
    after: str | None,
    hold: bool,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Freeze an experiment into a run folder and hand its script to the scheduler."""
    from tuneplane.cli.output import emit_json, language, note, tell, typed
    from tuneplane.experiment.lock import deprecation
    from tuneplane.in_force import registry_warnings
    from tuneplane.submit import ready
    from tuneplane.submit import submit as hand_over

    wishes = _wishes(chosen, after, hold)
    if upgrade_recipe:
        _upgrade(chosen, experiment, request, wishes, framework_version, dry_run)
    elif framework_version:
        raise click.UsageError("--framework-version goes with --upgrade-recipe")
    checked = ready(experiment, chosen.load(), request, wishes, language(None))
    prepared = checked.prepared
    tell(prepared.experiment)
    for text in [
        *registry_warnings(prepared.named_site),
        *deprecation(prepared.recipe, prepared.experiment),
    ]:
        note(f"warning: {text}")
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
        from tuneplane.cli.asked import wait_for

        wait_for(checked.prepared.named_site.site, run)


def _upgrade(
    chosen: Chosen,
    experiment: str,
    request: Request,
    wishes: Wishes,
    framework_version: str | None,
    dry_run: bool,
) -> None:
    """Upgrade the experiment, once what it would be then can be submitted."""
    from tuneplane.cli.output import language
    from tuneplane.cli.recipe import planned
    from tuneplane.cli.recipe_report import report
    from tuneplane.submit import ready
    from tuneplane.upgrade import carry_out

    if dry_run:
        raise click.UsageError(
            "--upgrade-recipe writes: `tp recipe upgrade EXP --check` shows what it would do"
        )
    made = planned(chosen, experiment, framework_version)
    if made.writes:
        ready(experiment, chosen.load(), request, wishes, language(None), made.files)
        carry_out(made)
        report(made, False, True, err=True)


def _wishes(chosen: Chosen, after: str | None, hold: bool) -> Wishes:
    from tuneplane.runs.folder import find_run
    from tuneplane.schedulers import Wishes

    return Wishes(find_run(chosen.load().site, after) if after else None, hold)


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
