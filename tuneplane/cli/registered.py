"""What registering an image shares with building one: the registry, a progress bar, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import registry_for

if TYPE_CHECKING:
    from tuneplane.registry.artifact import Artifact
    from tuneplane.registry.layout import Registry
    from tuneplane.registry.shelf import Shelf
    from tuneplane.sites.load import NamedSite

runtime_id_argument = click.argument("runtime_id", metavar="RUNTIME_ID", shell_complete=complete.runtimes)


def trusted(named_site: NamedSite) -> Registry:
    """The registry that images are registered in, believed only when nobody else could have changed it."""
    from tuneplane.registry.refresh import check_trust

    registry = registry_for(named_site)
    check_trust(registry)
    return registry


@contextmanager
def progress(path: str) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal's stderr while the file is read; nothing elsewhere."""
    import os
    import sys

    if not sys.stderr.isatty() or not os.path.isfile(path):
        yield None
        return
    with click.progressbar(
        length=os.path.getsize(path), label="reading", file=sys.stderr, show_eta=True
    ) as bar:
        yield bar.update


def python_of(runtime_id: str) -> str:
    """The interpreter in images of a runtime id, as its definition says."""
    from tuneplane.errors import ImageError
    from tuneplane.runtimes.definitions import load_definition

    try:
        return load_definition(runtime_id).python.executable
    except ImageError:
        return "python3"


def registered(named_site: NamedSite, wish: Any, as_json: bool) -> None:
    """Register, and say what came of it."""
    from tuneplane.cli.output import emit_json, note
    from tuneplane.in_force import source_catalog
    from tuneplane.runtimes.registering import lacking, methods_of
    from tuneplane.runtimes.registering import register as do

    with progress(wish.file) as bar:
        artifact, shelf, notes = do(registry_for(named_site), named_site.site, wish, bar)
    notes += lacking(artifact, methods_of(source_catalog(named_site)).get(wish.runtime_id, []))
    if as_json:
        emit_json({**artifact_facts(shelf, artifact), "notes": notes})
    else:
        done = {"register": "registered", "replace": "replaced"}[shelf.action]
        click.echo(f"{done} {artifact.runtime_id} {artifact.slot}")
        click.echo(f"sha256:{artifact.sha256} {artifact.path}")
    for text in notes:
        note(f"note: {text}")


def artifact_facts(shelf: Shelf, artifact: Artifact) -> dict[str, Any]:
    return {"record": shelf.serial, "slot": artifact.slot, **asdict(artifact)}
