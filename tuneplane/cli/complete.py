"""Shell completion: names of methods, experiments, runs, profiles, sites and parameters.

A completion that fails completes nothing and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

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


def _site_name(ctx: click.Context) -> str | None:
    root: Any = ctx.find_root()
    name: str | None = root.params.get("site") or root.obj
    return name


@_quiet
def methods(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.sites.catalog import catalog_of
    from tuneplane.sites.load import load_site

    return catalog_of(load_site(_site_name(ctx))).entries


@_quiet
def experiments(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.experiment.locate import experiment_names

    return experiment_names()


@_quiet
def profiles(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.sites.load import load_site

    return load_site(_site_name(ctx)).site.profiles


@_quiet
def settings(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.catalog.recipe import resolve
    from tuneplane.documents.text import read_data
    from tuneplane.experiment.locate import LOCK_FILE, find_experiment
    from tuneplane.experiment.lock import read_lock
    from tuneplane.sites.catalog import catalog_of
    from tuneplane.sites.load import load_site

    # click leaves the words where they are when the option that is completed has no value yet
    found = find_experiment(ctx.params["experiment"] or ctx.args[0])
    lock = read_lock(read_data(found.folder / LOCK_FILE, LOCK_FILE), LOCK_FILE)
    manifest = catalog_of(load_site(_site_name(ctx))).manifest(lock.method)
    return [f"{name}=" for name in resolve(manifest, lock.framework_version).parameters]


@_quiet
def runs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from tuneplane.runs.folder import run_ids
    from tuneplane.sites.load import load_site

    return run_ids(load_site(_site_name(ctx)).site)
