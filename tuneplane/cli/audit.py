"""`tp audit`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option

if TYPE_CHECKING:
    from tuneplane.audit.audit import Report
    from tuneplane.audit.model import Claims, Difference


@click.command()
@click.argument("word", metavar="RUN|SCRIPT", shell_complete=complete.runs)
@json_option
@click.pass_obj
def audit(chosen: Chosen, word: str, as_json: bool) -> None:
    """Compile a run's script again from what is published, and name every difference.

    RUN is a run's id or folder: while Slurm has the script, its copy is what is audited. SCRIPT is a file with one.

    Recipe and site file come from your own registry, never from the run folder. What only the submitter knows is
    shown as a claim. Exits with 4 on a difference, or when it cannot be compiled again; 5 when only the image differs.
    """
    from tuneplane.audit.audit import audit as judge
    from tuneplane.cli.output import emit_json, emit_table

    report = judge(word, chosen.load())
    if as_json:
        emit_json(_data(report))
    else:
        emit_table((), list(_rows(report)))
    report.check()


def _data(report: Report) -> Any:
    return _exact(
        {
            "verdict": report.verdict,
            "script": report.subject.source,
            "reasons": [reason.what for reason in report.reasons],
            "differences": [asdict(difference) for difference in report.differences],
            "published": {"recipe": report.own.recipe_from or None, "site": report.own.site_from or None},
            "not_published": report.own.not_published,
            "claims": dict(_claims(report.claims)),
            "notes": report.notes,
        }
    )


def _exact(data: Any) -> Any:
    """The data with bytes that are no UTF-8 shown as escapes: a script holds any."""
    if isinstance(data, dict):
        return {key: _exact(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_exact(item) for item in data]
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return data


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    claims, own = report.claims, report.own
    yield "verdict", report.verdict
    yield "script", report.subject.source
    if claims is not None:
        if own.recipe is not None:
            recipe = own.recipe
            name = f"{recipe.name} {recipe.version}, {recipe.framework} {recipe.framework_version}"
            yield "recipe", f"{name} ({own.recipe_from})"
        if own.site is not None:
            yield "site", f"{own.site_name} ({own.site_from})"
        yield from (("not published", text) for text in own.not_published)
        yield from (("claimed", f"{key}: {text}") for key, text in _claims(claims))
    yield from (("note", text) for text in report.notes)
    yield from (("difference", _sentence(item)) for item in report.differences)


def _claims(claims: Claims | None) -> Iterator[tuple[str, str]]:
    """What is taken on the submitter's word."""
    if claims is None:
        return
    command = claims.command
    yield "tp", claims.tool_version
    yield "command", shlex.join(command.words())
    yield "experiment", command.experiment_dir
    yield "files", f"sha256:{claims.files_digest}"
    if claims.image_path:
        digest = f"sha256:{claims.image_sha256}" if claims.image_sha256 else "digest unknown"
        yield "image", f"{claims.image_path} {digest}"
    for key, place in claims.places.items():
        state = f"commit {place.commit}" if place.commit else "there" if place.exists else "not there"
        yield key, f"{place.path or 'unknown'} ({state})"
    if claims.admitted:
        yield "admitted", f"serial {claims.admitted.get('serial')} of {claims.admitted.get('registry')}"


def _sentence(item: Difference) -> str:
    if item.expected == item.found:
        return f"{item.kind}, {item.where}: {item.found}"
    was = "was not there" if item.expected is None else f"was `{item.expected}`"
    now = "is gone" if item.found is None else f"is `{item.found}`"
    return f"{item.kind}, {item.where}: {was}, {now}"
