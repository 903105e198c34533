"""`tp methods`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option, lang_option

if TYPE_CHECKING:
    from tuneplane.catalog.interface import Catalog, Entry
    from tuneplane.catalog.manifest import Manifest
    from tuneplane.catalog.recipe import Recipe


def _kinds(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from tuneplane.catalog.kinds import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command()
@click.argument("method", required=False, shell_complete=complete.methods)
@click.option(
    "--data",
    "data",
    metavar="KIND",
    shell_complete=_kinds,
    help="What can be started from this kind of data; a word that is none lists them.",
)
@click.option("--framework-version", metavar="V", help="The framework version to show.")
@lang_option
@json_option
@click.pass_obj
def methods(
    chosen: Chosen,
    method: str | None,
    data: str | None,
    framework_version: str | None,
    lang: str | None,
    as_json: bool,
) -> None:
    """List the methods, or show METHOD with its parameters."""
    from tuneplane.cli.output import language
    from tuneplane.in_force import catalog_of

    if framework_version and not method:
        raise click.UsageError("--framework-version goes with a METHOD")
    if data is not None and method:
        raise click.UsageError("--data lists methods, it does not go with one")
    if data is not None:
        _check_kind(data, language(lang))
    catalog = catalog_of(chosen.load())
    if method:
        from tuneplane.catalog.recipe import resolve

        manifest = catalog.manifest(method)
        _show(manifest, resolve(manifest, framework_version), language(lang), as_json)
    else:
        _list(catalog, data, language(lang), as_json)


def _check_kind(data: str, lang: str) -> None:
    """Raises UsageError for a kind that does not exist, with those that do and what they are."""
    from tuneplane.catalog.kinds import KINDS
    from tuneplane.cli.cells import columns, table
    from tuneplane.errors import UsageError, nearest, shown

    if data in KINDS:
        return
    close = nearest(data, KINDS)
    what = f"there is no kind of data {shown(data)}" + (f", did you mean `{close}`?" if close else "")
    rows = [(name, kind.line.read(lang)) for name, kind in KINDS.items()]
    click.echo("\n".join(table(rows, columns())), err=True)
    raise UsageError.of(what, expected="one of those above")


def _list(catalog: Catalog, data: str | None, lang: str, as_json: bool) -> None:
    from tuneplane.cli.cells import columns
    from tuneplane.cli.methods_list import listing, of_kind
    from tuneplane.cli.output import emit_json

    every = list(catalog.entries.values())
    entries = [entry for entry in every if data in (None, entry.data)]
    if as_json:
        emit_json([_line(entry, lang) for entry in entries])
    elif data is None:
        click.echo("\n".join(listing(entries, lang, columns())))
    else:
        free = [entry.name for entry in every if entry.data == "any"]
        click.echo("\n".join(of_kind(data, entries, free, lang, columns())))


def _line(entry: Entry, lang: str) -> dict[str, Any]:
    return {
        "method": entry.name,
        "title": entry.title.read(lang),
        "summary": entry.summary.read(lang),
        "use": entry.use.read(lang) if entry.use else "",
        "category": entry.category,
        "data": entry.data,
        "framework_versions": entry.versions,
        "default_framework_version": entry.default,
    }


def _show(manifest: Manifest, recipe: Recipe, lang: str, as_json: bool) -> None:
    from tuneplane.cli.methods_show import differences, page

    if not as_json:
        from tuneplane.cli.cells import columns

        click.echo("\n".join(page(manifest, recipe, lang, columns())))
        return
    import dataclasses

    from tuneplane.cli.output import emit_json

    emit_json(
        {
            **dataclasses.asdict(recipe),
            "digest": recipe.digest,
            "versions": {name: version.status for name, version in manifest.framework.versions.items()},
            "differences": {
                name: [dataclasses.asdict(change) for change in changes]
                for name, changes in differences(manifest, recipe).items()
            },
        }
    )
