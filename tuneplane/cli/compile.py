"""`tp compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import WithWords, experiment_argument, request_options

if TYPE_CHECKING:
    from tuneplane.plan.inputs import Request


@click.command(cls=WithWords, name="compile")
@experiment_argument
@request_options
@click.pass_obj
def compile_(chosen: Chosen, experiment: str, request: Request) -> None:
    """Print the very script that `tp submit` of the same would write.

    Neither cluster nor files are needed: what is missing is a warning here, and ends the script in its checks.
    """
    from tuneplane.cli.output import language, note, tell
    from tuneplane.experiment.lock import deprecation
    from tuneplane.in_force import registry_warnings
    from tuneplane.prepare import prepare
    from tuneplane.render.script import render

    prepared = prepare(experiment, chosen.load(), request, language(None))
    tell(prepared.experiment)
    text = render(prepared.plan, prepared.named_site.site)
    said = [*registry_warnings(prepared.named_site), *deprecation(prepared.recipe, prepared.experiment)]
    for sentence in [*said, *prepared.warnings]:
        note(f"warning: {sentence}")
    click.echo(text, nl=False)
