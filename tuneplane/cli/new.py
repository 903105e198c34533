"""`tp new`."""

from __future__ import annotations

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
    "--from", "source", metavar="EXP", shell_complete=complete.experiments, help="Fork this experiment."
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
    """Make the folder ./NAME with starter files, config.yaml and recipe.lock.json."""
    import shlex

    from tuneplane.cli.output import emit_json, language, tell, typed
    from tuneplane.experiment.scaffold import fork, scaffold
    from tuneplane.in_force import catalog_of

    catalog = catalog_of(chosen.load())
    if source is None:
        if method is None:
            raise click.UsageError("--method METHOD or --from EXP is needed; `tp methods` lists the methods")
        folder = scaffold(name, catalog, method, framework_version, language(lang))
    else:
        from tuneplane.experiment.locate import find_experiment
        from tuneplane.standing import lock_of

        old = find_experiment(source)
        tell(old)
        lock = lock_of(old)
        if method is not None and method != lock.method:
            raise click.UsageError(f"{source} is {lock.method}: a fork keeps its method")
        folder = fork(name, old, catalog, lock.method, framework_version or lock.framework_version)
    if as_json:
        emit_json({"experiment": name, "folder": str(folder)})
    else:
        config = shlex.quote(f"{folder}/config.yaml")
        click.echo(f"made {folder}/\nnext: edit {config}, then {typed('submit', str(folder))}")
