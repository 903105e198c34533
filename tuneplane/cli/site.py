"""`tp site`."""

from __future__ import annotations

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen
from tuneplane.cli.options import json_option, lang_option


@click.group()
def site() -> None:
    """The sites known here."""


@site.command("ls")
@json_option
@lang_option
def ls(as_json: bool, lang: str | None) -> None:
    """List the sites that can be named."""
    from tuneplane.cli.output import emit_json, emit_table, language, note
    from tuneplane.errors import TuneplaneError
    from tuneplane.sites.load import load_site, site_files

    rows = []
    for name, file in site_files().items():
        try:
            found = load_site(str(file)).site
        except TuneplaneError as error:
            note(f"warning: {error.problems[0].what} ({error.problems[0].where or file})")
            continue
        title = found.title.read(language(lang))
        rows.append(
            {
                "site": name,
                "scheduler": found.scheduler,
                "runtime": found.runtime.kind,
                "title": title,
                "file": str(file),
            }
        )
    if as_json:
        emit_json(rows)
        return
    emit_table(("SITE", "SCHEDULER", "RUNTIME", "WHAT IT IS", "FILE"), [tuple(row.values()) for row in rows])


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete.sites(incomplete)


@site.command("show")
@click.argument("name", required=False, shell_complete=_names)
@json_option
@lang_option
@click.pass_obj
def show(chosen: Chosen, name: str | None, as_json: bool, lang: str | None) -> None:
    """Show what a site offers.

    Its profiles, images and folders, and what a user may set; without NAME the site in force.
    """
    import dataclasses

    from tuneplane.cli.output import emit_json, emit_table, language
    from tuneplane.sites.load import load_site

    named = load_site(name) if name else chosen.load()
    found = named.site
    if as_json:
        emit_json(
            {"site": named.name, "file": str(named.file), "sha256": named.digest, **dataclasses.asdict(found)}
        )
        return
    click.echo(f"{named.name}: {found.title.read(language(lang))}")
    facts = [
        ("file", str(named.file)),
        ("scheduler", found.scheduler),
        ("runtime", found.runtime.kind),
        ("registry", str(named.registry) if named.registry else "none"),
        ("runs", found.folders.runs),
        ("model cache", found.folders.model_cache or "none"),
        ("built images", found.folders.images or "none"),
        ("copied images", found.runtime.staging.folder or "none"),
        ("secrets", found.folders.secrets),
        ("network", "nodes reach the Hub" if found.network.online else "nodes are offline"),
        ("defaults", f"{found.default_profile}, {found.default_time}"),
        ("users may set", ", ".join(found.slurm.options) or "nothing"),
    ]
    emit_table((), facts)
    click.echo()
    emit_table(
        ("PROFILE", "GPUS", "CPUS", "PROCESSES", "LONGEST", "NODES"),
        [
            (
                key,
                f"{profile.gpus_per_node} {profile.gpu_type}".strip() if profile.gpus_per_node else "-",
                str(profile.cpus_per_node),
                str(profile.gpus_per_node or profile.processes_per_node),
                profile.max_time or "-",
                str(profile.max_nodes or "-"),
            )
            for key, profile in found.profiles.items()
        ],
    )
    if found.runtime.images:
        click.echo()
        emit_table(("RUNTIME ID", "IMAGE"), list(found.runtime.images.items()))
