"""Data to stdout as a table or as JSON, prose to stderr."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import click

from tuneplane.visible import visible


def emit_json(data: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, sort_keys=False))


def emit_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout; control characters in cells are escaped, so that a row stays a row."""
    from tabulate import tabulate

    cells = [[clean(cell) for cell in row] for row in rows]
    click.echo(tabulate(cells, headers=headers, tablefmt="plain", disable_numparse=True))


def site_words() -> list[str]:
    """The words that name the site again, when the command line in hand named one."""
    root = click.get_current_context().find_root()
    named = root.get_parameter_source("site") is click.core.ParameterSource.COMMANDLINE
    return ["--site", root.params["site"]] if named else []


def typed(*words: str) -> str:
    """The command line `tp WORDS` for the same site, as a shell reads it."""
    return shlex.join(["tp", *site_words(), *words])


def clean(text: str) -> str:
    """`text` on one line."""
    return "".join(c if visible(c) else c.encode("unicode_escape").decode() for c in text)


def note(text: str) -> None:
    """A line of prose on stderr."""
    click.echo(text, err=True)


def language(chosen: str | None) -> str:
    """`en` or `zh`: what was asked for, else what the locale says."""
    import os

    if chosen:
        return chosen
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "zh" if locale.startswith("zh") else "en"
