"""What `tp recipe` prints."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli.output import clean, emit_json, note, table, typed

if TYPE_CHECKING:
    from tuneplane.experiment.difference import Difference
    from tuneplane.standing import Standing
    from tuneplane.upgrade import Upgrade

UNKNOWN = "the recipe it was made with is not known here: only the lock's fields are compared"
_CHANGES = ("WHAT", "HOW", "BEFORE", "NOW")


def report(made: Upgrade, as_json: bool, done: bool, err: bool = False) -> None:
    """What was done, or would be. err: as prose on stderr, where stdout is for something else."""
    label, lock, recipe = made.experiment.label, made.lock, made.recipe
    if as_json:
        moves = [{"file": m.file, "line": m.line, "how": m.how, "what": m.what} for m in made.moves]
        emit_json(
            {
                "experiment": made.experiment.name,
                "folder": str(made.experiment.folder),
                "method": lock.method,
                "from": lock.framework_version,
                "to": recipe.framework_version,
                "upgraded": done and bool(made.writes),
                "to_do": [] if done else [write.path for write in made.writes],
                "known": made.known,
                **_difference(made.difference),
                "moves": moves,
            }
        )
        return
    if not made.writes:
        click.echo(f"{clean(label)} is at the recipe in force", err=err)
        return
    other = recipe.framework_version != lock.framework_version
    version = f"{recipe.framework} {lock.framework_version}" + other * f" to {recipe.framework_version}"
    click.echo(clean(f"{label}: {lock.method} on {version}"), err=err)
    if rows := _rows(made.difference):
        click.echo(table(_CHANGES, rows) + "\n", err=err)
    moved = [(f"{m.file}:{m.line}" if m.line else m.file, m.how, m.what) for m in made.moves]
    click.echo(table(("FILE", "HOW", "WHAT"), moved), err=err)
    if done:
        click.echo(f"\nupgraded {clean(label)}", err=err)
        return
    more = ["--framework-version", recipe.framework_version] if other else []
    click.echo(f"\nnothing is written yet: {typed('recipe', 'upgrade', label, *more)}", err=err)


def facts(found: Standing) -> dict[str, Any]:
    """One line of a list of experiments."""
    deprecated = found.recipe if found.recipe and found.recipe.status == "deprecated" else None
    return {
        "experiment": found.name,
        "folder": str(found.experiment.folder) if found.experiment else None,
        "method": found.lock.method if found.lock else None,
        "framework_version": found.lock.framework_version if found.lock else None,
        "state": found.state,
        "sunset": deprecated.sunset if deprecated else None,
    }


def state_of(row: dict[str, Any]) -> str:
    """The state of a row of `facts`, in words."""
    return f"{row['state']} until {row['sunset']}" if row["state"] == "deprecated" else str(row["state"])


def changes(found: Standing) -> dict[str, Any]:
    """What goes with it when one is looked at."""
    return {
        "problems": [
            {"what": p.what, "where": p.where, "expected": p.expected, "try": _typed(p.hint)}
            for p in found.problems
        ],
        "known": found.origin is not None,
        **_difference(found.difference),
        "digests": dict(found.digests),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    import dataclasses

    return {
        "changes": [dataclasses.asdict(change) for change in difference.changes],
        "texts": list(difference.texts),
        "starter": [{"file": change.what, "how": change.how} for change in difference.starter],
    }


def _rows(difference: Difference) -> list[tuple[str, str, str, str]]:
    rows = [(c.what, c.how, _short(c.what, c.before), _short(c.what, c.now)) for c in difference.changes]
    rows += [(key, "text", "", "") for key in difference.texts]
    return rows + [(f"starter {change.what}", change.how, "", "") for change in difference.starter]


def _short(what: str, text: str) -> str:
    return (text[:12] + "…" if what in ("recipe.digest", "keys") and text else text) or "-"


def show(found: Standing) -> None:
    """One experiment: its state, what changed, and what to type."""
    lock = found.lock
    what = f" ({lock.method} on {lock.fields['framework.kind']} {lock.framework_version})" if lock else ""
    click.echo(clean(f"{found.name}: {state_of(facts(found))}{what}"))
    if found.digests:
        click.echo("in force: " + ", ".join(f"{key} {text[:12]}…" for key, text in found.digests.items()))
    if found.state != "stale":
        for problem in found.problems:
            click.echo(problem.what + (f", at {problem.where}" if problem.where else ""))
    if rows := _rows(found.difference):
        click.echo(table(_CHANGES, rows))
    hints = {_typed(problem.hint) for problem in found.problems if problem.hint}
    for hint in sorted(hints):
        click.echo(f"next: {hint}")
    if found.recipe is not None and found.origin is None:
        note(f"note: {found.name}: {UNKNOWN}")


def _typed(hint: str) -> str:
    """What to type, for the site and registry that were named."""
    return typed(*shlex.split(hint)[1:]) if hint.startswith("tp ") else hint
