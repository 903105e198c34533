"""`tp runtime build` and `tp runtime import`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuneplane.cli import complete
from tuneplane.cli.chosen import Chosen, registry_for
from tuneplane.cli.options import json_option
from tuneplane.cli.registered import python_of, registered, runtime_id_argument

if TYPE_CHECKING:
    from tuneplane.builds.orders import Order, Where
    from tuneplane.sites.load import NamedSite

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class How:
    """What both commands are told of how an image is registered in the end."""

    python: str
    look: bool
    replace: bool
    as_json: bool


def build_options(function: F) -> F:
    """Where an image is made and how it is registered, handed on as `where` and `how`."""

    @click.option("--job", is_flag=True, help="As a job, on a node without GPUs where the site has one.")
    @click.option(
        "--profile", metavar="NAME[:N]", shell_complete=complete.profiles, help="Kind of node for --job."
    )
    @click.option("--time", metavar="DURATION", help="Time limit of the job.")
    @click.option(
        "--resource",
        "resources",
        metavar="KEY=VALUE",
        multiple=True,
        help="An option of Slurm for --job, as under `resources`: account, partition, qos, …",
    )
    @click.option(
        "--compression",
        type=click.Choice(["gzip", "zstd"]),
        default="gzip",
        help="zstd starts faster, and old kernels cannot read it.",
    )
    @click.option("--python", metavar="PATH", help="The interpreter inside; the definition's by default.")
    @click.option("--no-probe", is_flag=True, help="Do not start the image to see what it holds.")
    @click.option("--replace", is_flag=True, help="In place of the one that is in use.")
    @json_option
    def wrapped(
        *args: Any,
        job: bool,
        profile: str | None,
        time: str | None,
        resources: tuple[str, ...],
        python: str | None,
        no_probe: bool,
        replace: bool,
        as_json: bool,
        **kwargs: Any,
    ) -> Any:
        from tuneplane.builds.orders import Where

        if not job and (profile or time or resources):
            raise click.UsageError("--profile, --time and --resource go with --job")
        where = Where(job, profile or "", time or "", tuple(_pair(text) for text in resources))
        how = How(python or python_of(kwargs["runtime_id"]), not no_probe, replace, as_json)
        return function(*args, where=where, how=how, **kwargs)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    if hasattr(function, "__click_params__"):
        wrapped.__click_params__ = [*wrapped.__click_params__, *function.__click_params__]  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is no KEY=VALUE", param_hint="--resource")
    return key, value


@click.command("build", short_help="Build an image from its definition, register it.")
@runtime_id_argument
@click.option("--definition", metavar="FILE", type=click.Path(), help="In place of the one that tp has.")
@click.option(
    "--build-arg",
    "arguments",
    metavar="KEY=VALUE",
    multiple=True,
    help="A build argument of the definition, such as base or index; can be repeated.",
)
@click.option(
    "--bind", "binds", metavar="FROM:TO", multiple=True, help="A folder that the build sees; can be repeated."
)
@build_options
@click.pass_obj
def build(
    chosen: Chosen,
    runtime_id: str,
    definition: str | None,
    arguments: tuple[str, ...],
    binds: tuple[str, ...],
    compression: str,
    where: Where,
    how: How,
) -> None:
    """Build the image of a runtime id from its Apptainer definition, and register it.

    It is made beside the site's images and gets its name when it is whole. Without --job this machine builds.
    """
    from tuneplane.builds.orders import from_definition

    named_site = chosen.load()
    order = from_definition(named_site, runtime_id, definition or "", arguments, binds, compression)
    _made_and_registered(named_site, order, where, how)


@click.command("import", short_help="Make an image of a tar or another form of one.")
@runtime_id_argument
@click.argument("source", metavar="SOURCE")
@build_options
@click.pass_obj
def import_(chosen: Chosen, runtime_id: str, source: str, compression: str, where: Where, how: How) -> None:
    """Make an image of a runtime id out of another form of one, and register it.

    SOURCE is docker://…, oras://… or library://…, a SIF, a SQSH, a folder with a root filesystem, or a tar: of
    `docker save`, of an OCI image or of a root filesystem.
    """
    from tuneplane.builds.orders import from_source

    named_site = chosen.load()
    order = from_source(named_site, runtime_id, source, compression)
    _made_and_registered(named_site, order, where, how)


def _made_and_registered(named_site: NamedSite, order: Order, where: Where, how: How) -> None:
    from tuneplane.builds.building import carry_out
    from tuneplane.builds.orders import placed, wanted_format
    from tuneplane.cli.output import note, typed
    from tuneplane.errors import TuneplaneError
    from tuneplane.registry.shelf import may_put
    from tuneplane.runtimes.registering import Wish

    order, arch = placed(named_site, order, where)
    slot = f"{wanted_format(named_site.site)}-{arch}"
    may_put(registry_for(named_site), order.runtime_id, slot, replace=how.replace)
    made = carry_out(named_site, order, where, lambda text: note(f"note: {text}"))
    wish = Wish(order.runtime_id, str(made.file), made.arch, how.python, how.look, how.replace, made.built)
    try:
        registered(named_site, wish, how.as_json)
    except TuneplaneError:
        again = typed("runtime", "register", order.runtime_id, str(made.file))
        note(f"note: the image is made, and this registers it: {again}")
        raise
