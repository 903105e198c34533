"""`tp new`."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option, lang_option


@click.command()
@click.argument("name")
@click.option(
    "--method",
    metavar="M",
    shell_complete=complete.methods,
    help="The method, such as pytorch/image-classification.",
)
@click.option(
    "--framework-version", metavar="V", help="The framework version; the method's default otherwise."
)
@click.option(
    "--from",
    "source",
    metavar="EXP",
    shell_complete=complete.experiments,
    help="Fork this experiment, or with --method take it to another method.",
)
@lang_option
@json_option
@click.pass_obj
def new(
    chosen: Chosen,
    name: str,
    method: str | None,
    framework_version: str | None,
    source: str | None,
    lang: str | None,
    as_json: bool,
) -> None:
    """Make the folder ./NAME with starter files, config.yaml and recipe.lock.json.

    With --from and another --method, what has its like there comes along, and the rest is listed on stderr.
    """
    from tuneplane.cli.output import emit_json, language
    from tuneplane.experiment.scaffold import scaffold
    from tuneplane.in_force import catalog_of

    if source is not None:
        _from(chosen, name, source, method, framework_version, language(lang), as_json)
        return
    if method is None:
        raise click.UsageError("--method METHOD or --from EXP is needed; `tp methods` lists the methods")
    folder = scaffold(name, catalog_of(chosen.load()), method, framework_version, language(lang))
    if as_json:
        emit_json({"experiment": name, "folder": str(folder)})
    else:
        _made(folder)


def _from(
    chosen: Chosen,
    name: str,
    source: str,
    method: str | None,
    framework_version: str | None,
    lang: str,
    as_json: bool,
) -> None:
    from tuneplane.catalog.recipe import resolve
    from tuneplane.cli.output import emit_json, tell
    from tuneplane.experiment.locate import find_experiment
    from tuneplane.experiment.scaffold import fork
    from tuneplane.in_force import catalog_of
    from tuneplane.standing import lock_of

    catalog = catalog_of(chosen.load())
    old = find_experiment(source)
    tell(old)
    lock = lock_of(old)
    if method is None or method == lock.method:
        folder = fork(name, old, catalog, lock.method, framework_version or lock.framework_version)
        facts: dict[str, object] = {}
    else:
        from tuneplane.cli.new_report import as_data, show
        from tuneplane.take_over import take_over

        recipe = resolve(catalog.manifest(method), framework_version)
        folder, made = take_over(name, old, lock, catalog, recipe, lang)
        facts = {"from": old.label, "method": method, **as_data(made)}
        if not as_json:
            show(made, old.label, lock.method)
    if as_json:
        emit_json({"experiment": name, "folder": str(folder), **facts})
    else:
        _made(folder)


def _made(folder: Path) -> None:
    import shlex

    from tuneplane.cli.output import typed

    config = shlex.quote(f"{folder}/config.yaml")
    click.echo(f"made {folder}/\nnext: edit {config}, then {typed('submit', str(folder))}")
