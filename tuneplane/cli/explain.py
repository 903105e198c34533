"""`tp explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import WithWords, experiment_argument, json_option, request_options
from tuneplane.errors import UsageError, nearest, shown

if TYPE_CHECKING:
    from tuneplane.experiment.config import Written
    from tuneplane.plan.inputs import Request
    from tuneplane.prepare import Prepared


@click.command(cls=WithWords)
@experiment_argument
@click.argument("key", required=False)
@request_options
@json_option
@click.pass_obj
def explain(chosen: Chosen, experiment: str, key: str | None, request: Request, as_json: bool) -> None:
    """Show for each key, or for KEY alone, its value, which source set it, and what lost.

    Keys are parameters, upstream's own keys that nobody sets by a parameter, `model` and `data.NAME`, `resources.NAME`,
    `env.NAME`, and the script's directives as `slurm.NAME`.
    """
    from tuneplane.cli.output import emit_json, emit_table, language, tell
    from tuneplane.prepare import prepare

    prepared = prepare(experiment, chosen.load(), request, language(None))
    tell(prepared.experiment)
    rows = _rows(prepared)
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
    source, where = row["source"], row["where"].removeprefix(f"{row['source']} ")
    source += f" ({where})" if where and where != source else ""
    lost = "; ".join(f"{item['value']} by {item['source']}" for item in row["lost"])
    return row["key"], "-" if row["value"] in (None, "") else row["value"], source, lost


def _rows(prepared: Prepared) -> list[dict[str, Any]]:
    from tuneplane.catalog.params import as_set, shown_value
    from tuneplane.plan.environment import ELSEWHERE

    plan, config, site = prepared.plan, prepared.config, prepared.named_site.site

    def row(key: str, value: str | None, source: str, where: str = "", lost: Any = ()) -> dict[str, Any]:
        losers = [loser(*item) for item in lost]
        return {"key": key, "value": value, "source": source, "where": where, "lost": losers}

    def loser(source: str, value: str, where: str = "") -> dict[str, str]:
        return {"source": source, "value": value, "where": where}

    def given(key: str, item: Written, value: str) -> dict[str, Any]:
        return row(key, value, item.source, item.where, item.lost)

    rows = []
    for s in plan.settings:
        text = None if s.value is None else as_set(prepared.recipe.parameters[s.key], s.value)
        rows.append(row(s.key, text, s.source, s.where, s.lost))
    rows += [row(s.key, shown_value(s.value), s.source, s.where, s.lost) for s in plan.told]
    named = {"model": config.model, **{f"data.{key}": data for key, data in config.data.items()}}
    for place in plan.located:
        if item := named[place.key]:
            rows.append(given(place.key, item, place.path or "unknown"))
    resources = {key: given(f"resources.{key}", item, item.text) for key, item in config.resources.items()}
    for key, default in (("profile", site.default_profile), ("time", site.default_time)):
        if key in resources:
            resources[key]["lost"].append(loser("site", default))
        else:
            resources[key] = row(f"resources.{key}", default, "site")
    rows += [resources[key] for key in sorted(resources)]
    rows += [given(f"resources.pools.{key}", item, item.text) for key, item in sorted(config.pools.items())]
    for v in plan.environment:
        rows.append(row(f"env.{v.name}", str(v.value), v.source, v.where, v.lost))
    for name, meaning in ELSEWHERE.items():
        rows.append(row(f"env.{name}", f"({meaning})", "job"))
    for name in plan.secrets:
        rows.append(row(f"env.{name}", "(secret)", "secrets file"))
    for d in plan.directives:
        rows.append(row(f"slurm.{d.name}", d.value, d.source))
    return rows
