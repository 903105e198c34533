"""`tp catalog`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli.chosen import Chosen, registry_for
from tuneplane.cli.options import json_option

if TYPE_CHECKING:
    from tuneplane.registry.layout import Publication
    from tuneplane.registry.refresh import Outcome
    from tuneplane.sites.load import NamedSite


@click.group()
def catalog() -> None:
    """The published catalog: refresh it, look at it, roll it back."""


def _when(seconds: int | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _facts(publication: Publication | None) -> dict[str, Any]:
    keys = ("serial", "digest", "action", "published_at", "by")
    return {key: getattr(publication, key, None) for key in keys}


def _report(outcome: Outcome, as_json: bool, verbose: bool, more: dict[str, Any] | None = None) -> None:
    """One line when something was published or asked for; nothing else, so that cron stays silent."""
    from tuneplane.cli.output import emit_json, note

    for text in outcome.notes:
        note(f"note: {text}")
    p = outcome.publication
    if as_json:
        emit_json({"published": outcome.made, **_facts(p), **(more or {})})
    elif outcome.made or verbose:
        what = (
            f"published serial {p.serial} ({p.action})"
            if outcome.made
            else f"nothing new, serial {p.serial} stays"
        )
        click.echo(f"{_when(int(time.time()))} {what} sha256:{p.digest}")


@catalog.command("refresh")
@click.option("--force", is_flag=True, help="Publish also a source that was rolled back.")
@click.option("--verbose", "-v", is_flag=True, help="A line also when nothing was published.")
@json_option
@click.pass_obj
def refresh(chosen: Chosen, force: bool, verbose: bool, as_json: bool) -> None:
    """Check all recipes and site files, publish what is new.

    Made for cron: silent unless something was published. Exits with 75 when another publisher is at work.
    """
    from tuneplane.registry.content import build
    from tuneplane.registry.refresh import refresh as publish
    from tuneplane.to_publish import sources

    named_site, catalog, texts = sources(chosen.site, chosen.registry)
    outcome = publish(registry_for(named_site), build(catalog, texts), force=force)
    _report(outcome, as_json, verbose)


@catalog.command("status")
@json_option
@click.pass_obj
def status(chosen: Chosen, as_json: bool) -> None:
    """Show what is published, and whether it is admitted.

    Since when and by whom, when it was last checked, and who is publishing now. What would be refused is shown, too, and
    why it would be.
    """
    from tuneplane.cli.output import emit_json, emit_table, note
    from tuneplane.in_force import catalog_of, registry_warnings

    named_site = chosen.load()
    said = [f"warning: {text}" for text in registry_warnings(named_site)]
    if named_site.registry is None:
        facts = {"registry": None, **_facts(None), "entries": len(catalog_of(named_site).entries)}
        said = [f"note: the site {named_site.name} has no registry, its recipe folders are the catalog"]
    else:
        facts, problems = _status(named_site)
        # a refusal says more than the warning of the same
        said = [text for text in said if not any(f"warning: {p}".startswith(text) for p in problems)]
        said += [f"warning: {text}" for text in problems]
    if as_json:
        emit_json(facts)
    else:
        told = {key: value for key, value in facts.items() if key != "checked_seconds_ago"}
        for key in told.keys() & {"published_at", "checked_at"}:
            told[key] = _when(told[key])
        rows = [(key.replace("_", " "), "-" if value is None else str(value)) for key, value in told.items()]
        emit_table((), rows)
    for text in said:
        note(text)


def _status(named_site: NamedSite) -> tuple[dict[str, Any], list[str]]:
    """What can be said of a registry, whatever is wrong with it, and why a submission would be refused."""
    from tuneplane.cli.output import typed
    from tuneplane.errors import LockError, Problem
    from tuneplane.registry import admission, trust
    from tuneplane.registry.catalog import PublishedCatalog
    from tuneplane.registry.courtesy import holder

    registry = registry_for(named_site)
    problems: list[Problem] = []

    def attempt(look: Any, *args: Any) -> Any:
        try:
            return look(*args)
        except LockError as error:
            problems.extend(error.problems)
            return None

    attempt(trust.check_there, registry)
    publication = None
    if not problems:
        attempt(trust.check, registry)
        publication = attempt(admission.latest, registry)
    entries = attempt(lambda: len(PublishedCatalog(registry, publication).names)) if publication else None
    if publication:
        attempt(admission.check_fresh, named_site)
    record, who = admission.checked(registry), holder(registry)
    facts = {
        "registry": str(registry.root),
        **_facts(publication),
        "entries": entries,
        "checked_at": record.get("at"),
        "checked_by": f"{record['by']}@{record['host']}" if record else None,
        "checked_seconds_ago": admission.age(registry),
        "publisher": str(who) if who else None,
    }
    again = {"tp catalog refresh": typed("catalog", "refresh")}
    return facts, ["\n".join(replace(p, hint=again.get(p.hint, p.hint)).lines()) for p in problems]


@catalog.command("ls")
@json_option
@click.pass_obj
def ls(chosen: Chosen, as_json: bool) -> None:
    """List all publications, the newest first."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.registry.reading import history
    from tuneplane.registry.trust import check_there

    registry = registry_for(chosen.load())
    check_there(registry)
    found = history(registry)
    if as_json:
        emit_json([_facts(publication) for publication in found])
        return
    rows = [(str(p.serial), p.action, _when(p.published_at), p.by, p.digest[:16]) for p in found]
    emit_table(("SERIAL", "ACTION", "PUBLISHED", "BY", "DIGEST"), rows)


@catalog.command("rollback")
@click.argument("serial", type=click.IntRange(min=1), required=False)
@json_option
@click.pass_obj
def rollback(chosen: Chosen, serial: int | None, as_json: bool) -> None:
    """Publish an earlier catalog again, or SERIAL's.

    What was published last is held back: a refresh publishes it again only once its source changes, or with --force.
    """
    from tuneplane.registry.refresh import rollback as publish

    _report(publish(registry_for(chosen.load()), serial), as_json, True)


@catalog.command("gc")
@json_option
@click.pass_obj
def gc(chosen: Chosen, as_json: bool) -> None:
    """Name what is old, remove what was named before.

    Only starter files and drivers go; the texts of recipes and sites stay for every serial. The site's `keep_published`
    says what is too old.
    """
    from tuneplane.durations import parse_duration
    from tuneplane.registry.removal import collect

    named_site = chosen.load()
    outcome, removed = collect(registry_for(named_site), parse_duration(named_site.site.keep_published))
    named = outcome.publication.details.get("remove", []) if outcome.made else []
    _report(outcome, as_json, False, {"named": named, "removed": removed})
    if not as_json:
        for digest in named:
            click.echo(f"named sha256:{digest}: a later run removes its files")
        for digest in removed:
            click.echo(f"removed the files of sha256:{digest}")
