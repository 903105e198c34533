"""`tp runtime`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen, registry_for
from tuneplane.cli.options import json_option
from tuneplane.cli.registered import (
    artifact_facts,
    progress,
    python_of,
    registered,
    runtime_id_argument,
    trusted,
)
from tuneplane.cli.runtime_build import build, import_

if TYPE_CHECKING:
    from tuneplane.registry.artifact import Artifact
    from tuneplane.registry.shelf import Shelf

slot_option = click.option("--slot", metavar="FORMAT-ARCH", help="Which image, such as sif-x86_64.")


@click.group()
def runtime() -> None:
    """Runtime images: register them, look at them, take them out of use."""


def when(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@runtime.command("register")
@runtime_id_argument
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--arch", type=click.Choice(["x86_64", "aarch64"]), help="Where the file does not tell.")
@click.option("--python", metavar="PATH", help="The interpreter inside; the definition's by default.")
@click.option("--no-probe", is_flag=True, help="Do not start the image to see what it holds.")
@click.option("--replace", is_flag=True, help="In place of the one that is in use.")
@json_option
@click.pass_obj
def register(
    chosen: Chosen,
    runtime_id: str,
    file: str,
    arch: str | None,
    python: str | None,
    no_probe: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Register an image, a SIF or a SQSH, under a runtime id.

    It stays where it lies. Its digests are recorded, and what it holds: it is started once. Images of one id stand side
    by side by format and architecture.
    """
    from tuneplane.runtimes.registering import Wish

    named_site = chosen.load()
    wish = Wish(runtime_id, file, arch or "", python or python_of(runtime_id), not no_probe, replace)
    registered(named_site, wish, as_json)


@runtime.command("ls", short_help="Runtime ids, their images here, their methods.")
@json_option
@click.pass_obj
def ls(chosen: Chosen, as_json: bool) -> None:
    """List runtime ids, their images here, and the methods that run in them."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.runtimes.listing import listing

    rows = listing(chosen.load())
    if as_json:
        emit_json([asdict(row) for row in rows])
        return
    cells = [(row.runtime_id, row.image, row.python or "-", row.methods_text) for row in rows]
    emit_table(("RUNTIME", "IMAGE", "PYTHON", "METHODS"), cells)


@runtime.command("show", short_help="What the images of a runtime id hold.")
@runtime_id_argument
@json_option
@click.pass_obj
def show(chosen: Chosen, runtime_id: str, as_json: bool) -> None:
    """Show the images of a runtime id: what they hold, and what was changed by whom."""
    from tuneplane.cli.output import emit_json, emit_table
    from tuneplane.registry.shelf import history

    shelves = history(trusted(chosen.load()), runtime_id)
    newest = _known(shelves[0] if shelves else None, runtime_id)
    if as_json:
        changes = [{k: getattr(s, k) for k in ("serial", "action", "slot", "at", "by")} for s in shelves]
        images = [artifact_facts(newest, artifact) for artifact in newest.current.values()]
        emit_json({"runtime_id": runtime_id, "images": images, "changes": changes})
        return
    for artifact in newest.current.values():
        emit_table((), list(_lines(artifact)))
        click.echo()
    rows = [(str(s.serial), s.action, s.slot, when(s.at), s.by) for s in shelves]
    emit_table(("RECORD", "ACTION", "IMAGE", "AT", "BY"), rows)


def _known(shelf: Shelf | None, runtime_id: str) -> Shelf:
    from tuneplane.errors import ImageError, shown

    if shelf is None:
        raise ImageError.of(f"no image is registered as {shown(runtime_id)}", hint="tp runtime ls")
    return shelf


def _lines(artifact: Artifact) -> Iterator[tuple[str, str]]:
    yield "image", artifact.slot
    yield "path", artifact.path
    yield "sha256", artifact.sha256
    yield "size", f"{artifact.size} bytes, compressed by {artifact.compression or 'nothing known'}"
    yield "registered", f"{when(artifact.registered_at)} by {artifact.by}"
    yield "python", artifact.python or ("none" if artifact.packages is not None else "not looked at")
    if artifact.packages is not None:
        named = [f"{name} {artifact.packages[name]}" for name in KEY_PACKAGES if name in artifact.packages]
        yield "packages", ", ".join([*named, f"{len(artifact.packages)} in all"])
    yield from {**artifact.built, **artifact.labels}.items()


KEY_PACKAGES = ("torch", "ray", "transformers", "vllm", "deepspeed", "flash-attn")
"""What a reader looks for first; `--json` has all of them."""


@runtime.command("verify")
@click.argument("runtime_ids", metavar="[RUNTIME_ID]...", nargs=-1, shell_complete=complete.runtimes)
@click.option("--full", is_flag=True, help="Read all of each file, whatever it looks like.")
@json_option
@click.pass_obj
def verify(chosen: Chosen, runtime_ids: tuple[str, ...], full: bool, as_json: bool) -> None:
    """Hold the files of registered images against their records. Exits with 5 when one differs."""
    from tuneplane.cli.output import emit_json
    from tuneplane.errors import ImageError
    from tuneplane.registry import shelf
    from tuneplane.runtimes.identity import trouble

    registry = trusted(chosen.load())
    troubles, rows = [], []
    for runtime_id in runtime_ids or shelf.runtime_ids(registry):
        newest = shelf.newest(registry, runtime_id)
        if runtime_ids:
            _known(newest, runtime_id)
        for artifact in newest.current.values() if newest else ():
            with progress(artifact.path) if full else progress("") as bar:
                what = trouble(artifact, full=full, progress=bar)
            troubles += [what] if what else []
            facts = {"runtime_id": runtime_id, "slot": artifact.slot, "path": artifact.path}
            rows.append({**facts, "trouble": what or None})
            if not as_json and not what:
                click.echo(f"{runtime_id} {artifact.slot} is as it was registered")
    if as_json:
        emit_json(rows)
    if troubles:
        raise ImageError(*troubles)


@runtime.command("retire")
@runtime_id_argument
@slot_option
@click.pass_obj
def retire(chosen: Chosen, runtime_id: str, slot: str | None) -> None:
    """Take an image out of use. Its file stays, and so do jobs that are queued with it: they are named."""
    from tuneplane.cli.output import note
    from tuneplane.errors import SchedulerError
    from tuneplane.registry import shelf
    from tuneplane.runtimes.queued import naming

    named_site = chosen.load()
    registry = trusted(named_site)
    newest = _known(shelf.newest(registry, runtime_id), runtime_id)
    name = _one_slot(newest, slot)
    artifact = newest.current[name]
    shelf.retire(registry, runtime_id, name)
    click.echo(f"retired {runtime_id} {name}: {artifact.path}")
    try:
        runs, hidden = naming(named_site.site, artifact.sha256)
    except SchedulerError as error:
        note(f"note: it cannot be told which jobs name it: {error}")
        return
    for text in runs:
        note(f"note: it is named by {text}")
    if hidden:
        jobs = "1 more job" if hidden == 1 else f"{hidden} more jobs"
        note(f"note: the runs of {jobs} cannot be read by you")


def _one_slot(newest: Shelf, slot: str | None) -> str:
    from tuneplane.errors import ImageError, shown

    slots = list(newest.current)
    if slot in slots:
        return str(slot)
    if slot is None and len(slots) == 1:
        return slots[0]
    what = (
        f"{newest.runtime_id} has no image {shown(slot)}"
        if slot
        else f"{newest.runtime_id} has {'several images' if slots else 'no image in use'}"
    )
    expected = "one of " + ", ".join(slots) if slots else ""
    raise ImageError.of(what, "--slot", expected, f"tp runtime show {newest.runtime_id}")


@runtime.command("undo", short_help="Take back the last change.")
@runtime_id_argument
@click.pass_obj
def undo(chosen: Chosen, runtime_id: str) -> None:
    """Take back the last change of a runtime id's images; again, the one before it."""
    from tuneplane.registry import shelf

    made = shelf.undo(registry_for(chosen.load()), runtime_id)
    held = made.current.get(made.slot)
    now = f"is {held.path} again" if held else "holds nothing again"
    click.echo(f"{runtime_id} {made.slot} {now}")


runtime.add_command(build)
runtime.add_command(import_)
