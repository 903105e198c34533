"""Shell completion: names of methods, experiments, runs, profiles, sites and parameters.

A completion that fails completes nothing and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

import click

from tuneplane.cli.chosen import Chosen

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _quiet(names: Callable[[click.Context, str], Iterable[str]]) -> Completer:
    @wraps(names)
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in names(ctx, incomplete) if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


def sites(incomplete: str) -> list[str]:
    """Names of sites that begin with `incomplete`."""
    from tuneplane.sites.load import site_files

    return [name for name in site_files() if name.startswith(incomplete)]


def _chosen(ctx: click.Context) -> Chosen:
    root = ctx.find_root()
    return Chosen(root.params.get("site"), root.params.get("registry"))


@_quiet
def methods(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.in_force import catalog_of

    return catalog_of(_chosen(ctx).load()).entries


@_quiet
def experiments(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.experiment.locate import experiment_names

    return experiment_names()


@_quiet
def profiles(ctx: click.Context, incomplete: str) -> Iterable[str]:

    return _chosen(ctx).load().site.profiles


@_quiet
def settings(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.catalog.recipe import resolve
    from tuneplane.experiment.locate import find_experiment
    from tuneplane.in_force import catalog_of
    from tuneplane.standing import lock_of

    # click leaves the words where they are when the option that is completed has no value yet
    found = find_experiment(ctx.params["experiment"] or ctx.args[0])
    lock = lock_of(found)
    manifest = catalog_of(_chosen(ctx).load()).manifest(lock.method)
    return [f"{name}=" for name in resolve(manifest, lock.framework_version).parameters]


@_quiet
def runs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.runs.folder import run_ids

    return run_ids(_chosen(ctx).load().site)


@_quiet
def runtimes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.runtimes.listing import listing

    return [row.runtime_id for row in listing(_chosen(ctx).load())]
