"""`tp methods`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option, lang_option

if TYPE_CHECKING:
    from tuneplane.catalog.interface import Catalog
    from tuneplane.catalog.recipe import Recipe


@click.command()
@click.argument("method", required=False, shell_complete=complete.methods)
@click.option("--data", "data", metavar="KIND", help="Only methods that start from this kind of data.")
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
    if data and method:
        raise click.UsageError("--data lists methods, it does not go with one")
    catalog = catalog_of(chosen.load())
    if method:
        from tuneplane.catalog.recipe import resolve

        manifest = catalog.manifest(method)
        recipe = resolve(manifest, framework_version)
        versions = {name: version.status for name, version in manifest.framework.versions.items()}
        _show(recipe, versions, language(lang), as_json)
    else:
        _list(catalog, data, language(lang), as_json)


def _list(catalog: Catalog, data: str | None, lang: str, as_json: bool) -> None:
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.errors import UsageError, shown

    entries = list(catalog.entries.values())
    if data:
        kinds = sorted({entry.data for entry in entries})
        if data not in kinds:
            raise UsageError.of(
                f"there is no kind of data {shown(data)}", expected="one of " + ", ".join(kinds)
            )
        entries = [entry for entry in entries if entry.data == data]
    if as_json:
        emit_json(
            [
                {
                    "method": e.name,
                    "title": e.title.read(lang),
                    "summary": e.summary.read(lang),
                    "category": e.category,
                    "data": e.data,
                    "framework_versions": e.versions,
                    "default_framework_version": e.default,
                }
                for e in entries
            ]
        )
        return
    rows = [(e.name, e.default, e.data, e.summary.read(lang)) for e in entries]
    emit_table(("METHOD", "VERSION", "DATA", "WHAT IT DOES"), rows)


def _show(recipe: Recipe, versions: Mapping[str, str], lang: str, as_json: bool) -> None:
    from tuneplane.catalog.params import as_set, default_value, expectation
    from tuneplane.cli.output import emit_json, emit_table

    if as_json:
        import dataclasses

        emit_json({**dataclasses.asdict(recipe), "digest": recipe.digest, "versions": versions})
        return
    click.echo(f"{recipe.name}: {recipe.title.read(lang)}\n{recipe.summary.read(lang)}\n")
    marks = {"deprecated": " (deprecated)"}
    facts: list[tuple[str, Any]] = [
        ("framework", f"{recipe.framework} {recipe.framework_version}"),
        ("versions", ", ".join(name + marks.get(status, "") for name, status in versions.items())),
        ("runtime id", recipe.runtime_id or "none: name an image with --image"),
        ("recipe", f"{recipe.version}, sha256:{recipe.digest}"),
        ("launch", recipe.launch.kind),
        ("model", recipe.model),
        ("data", f"{recipe.data.kind}: train {recipe.data.train}, validation {recipe.data.validation}"),
    ]
    if recipe.data.doc:
        facts.append(("", recipe.data.doc.read(lang)))
    if recipe.pinned:
        facts.append(("pinned", ", ".join(f"{key} = {value}" for key, value in recipe.pinned.items())))
    if recipe.checkpoints:
        facts.append(("checkpoints", f"{recipe.checkpoints.pattern}, resume {recipe.checkpoints.resume}"))
    if recipe.metrics.names:
        facts.append(("metrics", ", ".join(recipe.metrics.names)))
    emit_table((), facts)
    if recipe.parameters:
        click.echo()
        rows = []
        for name, p in recipe.parameters.items():
            default = default_value(p)
            rows.append(
                (
                    name,
                    "-" if default is None else as_set(p, default),
                    expectation(p).replace("`", ""),
                    p.path,
                    p.doc.read(lang),
                )
            )
        emit_table(("PARAMETER", "DEFAULT", "TAKES", "UPSTREAM", "MEANING"), rows)
    for rule in recipe.rules:
        click.echo(f"\nrule: {rule.message.read(lang)}")
