"""`tp explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli.options import experiment_argument, json_option, request_options
from tuneplane.errors import UsageError, nearest, shown

if TYPE_CHECKING:
    from tuneplane.plan.build import Request
    from tuneplane.plan.model import Plan


@click.command()
@experiment_argument
@click.argument("key", required=False)
@request_options
@json_option
@click.pass_obj
def explain(site: str | None, experiment: str, key: str | None, request: Request, as_json: bool) -> None:
    """Show for each key, or for KEY alone, its value, which source set it, and what lost.

    Keys are parameters, `env.NAME` and the script's directives as `slurm.NAME`.
    """
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.prepare import prepare

    rows = _rows(prepare(experiment, site, request).plan)
    if key is not None:
        known = [row["key"] for row in rows]
        close = nearest(key, known)
        rows = [row for row in rows if row["key"] == key or row["key"] == f"env.{key}"]
        if not rows:
            raise UsageError.of(
                f"there is no key {shown(key)}" + (f", did you mean `{close}`?" if close else "")
            )
    if as_json:
        emit_json(rows)
        return
    emit_table(("KEY", "VALUE", "SET BY", "LOST"), [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    source = row["source"] + (f" ({row['where']})" if row["where"] and row["where"] != row["source"] else "")
    lost = "; ".join(f"{item['value']} by {item['source']}" for item in row["lost"])
    return row["key"], row["value"] or "-", source, lost


def _rows(plan: Plan) -> list[dict[str, Any]]:
    from tuneplane.catalog.params import written
    from tuneplane.plan.environment import ELSEWHERE

    def row(key: str, value: str, source: str, where: str = "", lost: Any = ()) -> dict[str, Any]:
        losers = [{"source": s, "value": v, "where": w} for s, v, w in lost]
        return {"key": key, "value": value, "source": source, "where": where, "lost": losers}

    rows = []
    for s in plan.settings:
        rows.append(row(s.key, "" if s.value is None else written(s.value), s.source, s.where, s.lost))
    for item in plan.located:
        rows.append(
            row(
                item.key,
                item.path or "unknown",
                "command line" if item.where.startswith("command") else "config.yaml",
                item.where,
            )
        )
    for v in plan.environment:
        rows.append(row(f"env.{v.name}", str(v.value), v.source, v.where, v.lost))
    for name, meaning in ELSEWHERE.items():
        rows.append(row(f"env.{name}", f"({meaning})", "job"))
    for name in plan.secrets:
        rows.append(row(f"env.{name}", "(secret)", "secrets file"))
    for d in plan.directives:
        rows.append(row(f"slurm.{d.name}", "" if d.value is None else d.value, d.source))
    return rows
