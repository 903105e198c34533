"""`tp recipe`: the lock of an experiment against the catalog in force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import experiment_argument, json_option

if TYPE_CHECKING:
    from tuneplane.standing import Standing
    from tuneplane.upgrade import Upgrade

BEHIND = 4
"""Exit code when a lock is not that of the recipe in force."""


@click.group()
def recipe() -> None:
    """The recipe an experiment was made with, and the one in force."""


def _standings(chosen: Chosen, words: tuple[str, ...]) -> Iterator[Standing]:
    """How the named experiments stand, or all that can be named; of those one that is none stands as malformed."""
    from tuneplane.cli.output import tell
    from tuneplane.errors import InputError
    from tuneplane.experiment.locate import experiment_names
    from tuneplane.in_force import catalog_of
    from tuneplane.standing import MALFORMED, Standing, standing

    catalog = catalog_of(chosen.load())
    for word in words or experiment_names():
        try:
            found = standing(word, catalog)
        except InputError as error:
            if words:
                raise
            found = Standing(word, MALFORMED, problems=error.problems)
        if found.experiment:
            tell(found.experiment)
        yield found


@recipe.command("ls")
@json_option
@click.pass_obj
def ls(chosen: Chosen, as_json: bool) -> None:
    """List the experiments here and how they stand."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.cli.recipe_report import facts, state_of

    rows = [facts(found) for found in _standings(chosen, ())]
    if as_json:
        emit_json(rows)
        return
    emit_table(
        ("EXPERIMENT", "METHOD", "VERSION", "STATE"),
        [(r["experiment"], r["method"] or "-", r["framework_version"] or "-", state_of(r)) for r in rows],
    )


@recipe.command("status")
@click.argument("experiments", metavar="[EXP]...", nargs=-1, shell_complete=complete.experiments)
@json_option
@click.pass_obj
def status(chosen: Chosen, experiments: tuple[str, ...], as_json: bool) -> None:
    """Show how experiments stand and what changed.

    What changed since the lock was made; without EXP of all that can be named here. Exits with 4 when one would not be admitted.
    """
    from tuneplane.cli.output import emit_json
    from tuneplane.cli.recipe_report import changes, facts, show

    found = list(_standings(chosen, experiments))
    if as_json:
        emit_json([{**facts(each), **changes(each)} for each in found])
    else:
        for i, each in enumerate(found):
            if i:
                click.echo()
            show(each)
    if not all(each.admitted for each in found):
        raise click.exceptions.Exit(BEHIND)


@recipe.command("upgrade")
@experiment_argument
@click.option(
    "--framework-version", metavar="V", help="The framework version to go to; the lock's otherwise."
)
@click.option("--check", is_flag=True, help="Show what would be done; exits with 4 when there is something.")
@json_option
@click.pass_obj
def upgrade(
    chosen: Chosen, experiment: str, framework_version: str | None, check: bool, as_json: bool
) -> None:
    """Bring an experiment to the recipe in force.

    Parameters of `config.yaml` are renamed in place; starter files that were edited are left, with the new one beside
    as NAME.new. All of it is done or nothing.
    """
    from tuneplane.cli.recipe_report import report
    from tuneplane.upgrade import carry_out

    found = planned(chosen, experiment, framework_version)
    if not check:
        carry_out(found)
    report(found, as_json, done=not check)
    if check and found.writes:
        raise click.exceptions.Exit(BEHIND)


def planned(chosen: Chosen, experiment: str, framework_version: str | None) -> Upgrade:
    """The upgrade that is to be done."""
    from tuneplane.cli.output import language, note, tell
    from tuneplane.cli.recipe_report import UNKNOWN
    from tuneplane.experiment.locate import find_experiment
    from tuneplane.in_force import catalog_of
    from tuneplane.upgrade import plan_upgrade

    named_site = chosen.load()
    found = find_experiment(experiment)
    tell(found)
    made = plan_upgrade(found, catalog_of(named_site), named_site.site, framework_version, language(None))
    if not made.known and made.writes:
        note(f"note: {UNKNOWN}, and starter files that differ count as edited")
    return made
