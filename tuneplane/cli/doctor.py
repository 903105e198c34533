"""`tp doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option

if TYPE_CHECKING:
    from tuneplane.doctor.check import Check
    from tuneplane.runs.folder import Run
    from tuneplane.runs.status import Status
    from tuneplane.runs.why.reason import Reason
    from tuneplane.sites.model import Site


@click.command("doctor")
@click.option("--job", "as_job", is_flag=True, help="Try it with a small job on two nodes.")
@click.option(
    "--profile",
    metavar="NAME[:N]",
    shell_complete=complete.profiles,
    help="Goes with --job: where to try it.",
)
@click.option("--time", metavar="DURATION", help="Goes with --job: its time limit, 10m by default.")
@click.option("--image", metavar="FILE", type=click.Path(), help="Goes with --job: the image to try.")
@click.option("--wait/--no-wait", default=True, help="Goes with --job: wait for its end (the default).")
@json_option
@click.pass_obj
def doctor(
    chosen: Chosen,
    as_job: bool,
    profile: str | None,
    time: str | None,
    image: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Check what a run needs.

    Looks at this machine, the site file, the scheduler and the folders; with --job it tries the nodes, their image and
    the network between them. Exits with 6 when the site lacks something, 3 when it is the user's, 8 when the job failed.
    """
    if as_job:
        _try(chosen, profile, time, image, wait, as_json)
        return
    if profile or time or image:
        raise click.UsageError("--profile, --time and --image go with --job")
    _look(chosen, as_json)


def _look(chosen: Chosen, as_json: bool) -> None:
    from tuneplane.cli.output import clean, emit_json
    from tuneplane.doctor.check import exit_code

    checks = _checks(chosen)
    if as_json:
        emit_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            click.echo(clean(f"{check.level:<5} {check.name:<{width}}  {check.said}"))
            if check.level != "ok" and check.remedy:
                click.echo(clean(f"      try {' ' * (width - 4)}  {check.remedy}"))
    if code := exit_code(checks):
        raise click.exceptions.Exit(code)


def _checks(chosen: Chosen) -> list[Check]:
    """Every check; without a site file that can be read only those of the machine are left."""
    from tuneplane.doctor.check import Check, of_problems
    from tuneplane.doctor.folders import folders
    from tuneplane.doctor.machine import machine
    from tuneplane.doctor.queue import queue
    from tuneplane.errors import TuneplaneError

    try:
        named_site = chosen.load()
    except TuneplaneError as error:
        return of_problems("site file", error.problems)
    site = named_site.site
    read = Check("site file", f"{named_site.name}: {named_site.file}")
    return [read, *machine(site), *queue(site), *folders(named_site)]


def _try(
    chosen: Chosen, profile: str | None, time: str | None, image: str | None, wait: bool, as_json: bool
) -> None:
    from tuneplane.cli.asked import ended
    from tuneplane.cli.output import emit_json, note, typed
    from tuneplane.doctor.trial import results, start

    named_site = chosen.load()
    checked, run = start(named_site, profile, time, image)
    for text in checked.notes:
        note(f"note: {text}")
    note(f"submitted {run.id}: {typed('job', 'status', run.id)}")
    if not wait:
        click.echo(run.id)
        return
    status = ended(named_site.site, run, _told)
    nodes = results(run)
    reason = None if status.state == "completed" else _reason(named_site.site, run)
    if as_json:
        emit_json(_facts(run, status, reason, [node.said for node in nodes]))
    else:
        bad = status.node
        for node in nodes:
            if reason is None or (node.rank != bad and node.said is not None):
                click.echo(f"ok    {node.line()}")
            else:
                cause = f": {reason.sentence}" if node.rank == bad else ""
                click.echo(f"bad   node {node.rank}{cause or ': no result'}")
    if reason is not None:
        _fail(run, reason)


def _facts(run: Run, status: Status, reason: Reason | None, nodes: list[Any]) -> dict[str, Any]:
    return {
        "run": run.id,
        "state": status.state,
        "nodes": nodes,
        "kind": reason.kind if reason else "",
        "sentence": reason.sentence if reason else "",
        "action": reason.action if reason else "",
    }


def _fail(run: Run, reason: Reason) -> None:
    from tuneplane.errors import RunEndedBadly

    where = f"{reason.evidence.file}: {reason.evidence.line}" if reason.evidence else ""
    raise RunEndedBadly.of(f"{run.id}: {reason.sentence}", where, hint=reason.action)


def _told(status: Status) -> str:
    """Its state, and what it waits for."""
    return f"queued, {status.why}" if status.state == "queued" and status.why else status.state


def _reason(site: Site, run: Run) -> Reason:
    from tuneplane.cli.job_why import reason_of

    return reason_of(site, run)[1]
