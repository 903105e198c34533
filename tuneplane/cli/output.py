"""Data to stdout as a table or as JSON, prose to stderr."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tuneplane.visible import visible

if TYPE_CHECKING:
    from tuneplane.experiment.locate import Experiment


def emit_json(data: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, sort_keys=False))


def emit_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout."""
    click.echo(table(headers, rows))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; control characters in cells are escaped, so that a row stays a row."""
    from tabulate import tabulate

    cells = [[clean(cell) for cell in row] for row in rows]
    return str(tabulate(cells, headers=headers, tablefmt="plain", disable_numparse=True))


def site_words(*more: str) -> list[str]:
    """The words that name the site again, and other global options, where the command line in hand named them."""
    root = click.get_current_context().find_root()
    line = click.core.ParameterSource.COMMANDLINE
    named = [name for name in ("site", *more) if root.get_parameter_source(name) is line]
    return [word for name in named for word in (f"--{name}", root.params[name])]


def typed(*words: str) -> str:
    """The command line `tp WORDS` for the same site, as a shell reads it."""
    more = ("registry",) if words[0] in ("catalog", "recipe") else ()
    return shlex.join(["tp", *site_words(*more), *words])


def clean(text: str) -> str:
    """`text` on one line."""
    return "".join(c if visible(c) else c.encode("unicode_escape").decode() for c in text)


def note(text: str) -> None:
    """A line of prose on stderr."""
    click.echo(text, err=True)


def tell(experiment: Experiment) -> None:
    """What became of an upgrade that had been interrupted."""
    for text in experiment.notes:
        note(f"note: {text}")


def language(chosen: str | None) -> str:
    """`en` or `zh`: what was asked for, else what the locale says."""
    import os

    if chosen:
        return chosen
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "zh" if locale.startswith("zh") else "en"
