"""`tp validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import WithWords, experiment_argument, json_option, request_options

if TYPE_CHECKING:
    from tuneplane.plan.inputs import Request


@click.command(cls=WithWords)
@experiment_argument
@request_options
@json_option
@click.pass_obj
def validate(chosen: Chosen, experiment: str, request: Request, as_json: bool) -> None:
    """Check an experiment as `tp submit` would, without submitting it."""
    from tuneplane.cli.output import emit_json, language, note, tell
    from tuneplane.experiment.lock import deprecation
    from tuneplane.in_force import registry_warnings
    from tuneplane.prepare import prepare
    from tuneplane.render.script import render

    prepared = prepare(experiment, chosen.load(), request, language(None))
    tell(prepared.experiment)
    prepared.insist()
    for text in [
        *registry_warnings(prepared.named_site),
        *deprecation(prepared.recipe, prepared.experiment),
    ]:
        note(f"warning: {text}")
    render(prepared.plan, prepared.named_site.site)
    provenance, made = prepared.plan.provenance, prepared.plan.topology
    if as_json:
        emit_json(
            {
                "experiment": provenance.experiment,
                "method": provenance.method,
                "framework_version": provenance.framework_version,
                "recipe_digest": provenance.recipe_digest,
                "site": provenance.site,
                "profile": made.profile,
                "nodes": made.nodes,
                "gpus_per_node": made.gpus_per_node,
                "files_digest": provenance.files_digest,
                "left_out": [{"path": path, "reason": reason} for path, reason in prepared.files.left_out],
            }
        )
        return
    for path, reason in prepared.files.left_out:
        note(f"not frozen: {path} ({reason})")
    click.echo(
        f"{provenance.experiment} is valid: {provenance.method} on {provenance.framework} "
        f"{provenance.framework_version}, {made.profile} at {provenance.site}"
    )
