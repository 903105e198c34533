"""Which nodes a run takes, for which roles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tuneplane.catalog.manifest import TRAINER, Launch
from tuneplane.durations import parse_duration
from tuneplane.errors import InputError, SiteError, TuneplaneError, nearest, shown
from tuneplane.experiment.config import COMMAND_LINE, Config, Written
from tuneplane.faults import Faults
from tuneplane.plan.model import Pool, Topology
from tuneplane.plan.topology import topology
from tuneplane.sites.model import Site


def pools(site: Site, launch: Launch, config: Config, method: str, faults: Faults) -> list[Pool]:
    """The pools in the order of their ranks, the launch's own first; empty where one cannot be had."""
    before = len(faults.found)
    asked = _asked(launch, config, method, faults)
    main = asked.get(TRAINER)
    where = main.where if main else "site"
    made = [_pool(site, launch, TRAINER, main.text if main else site.default_profile, where, faults)]
    for name, pool in launch.pools.items():
        if name in asked:
            made.append(_pool(site, launch, name, asked[name].text, asked[name].where, faults))
        elif pool.need == "required":
            hint = f"--profile {pool.roles[0]}=NAME:N"
            faults.add(InputError, f"{method} needs nodes for {shown(name)}", config_of(config), hint=hint)
    if len(faults.found) > before:
        return []
    found = [pool for pool in made if pool is not None]
    _check(site, found, where, faults)
    return found


def config_of(config: Config) -> str:
    """Where resources are written, as far as they are."""
    return next((item.where for item in [*config.pools.values(), *config.resources.values()]), "resources")


def pools_by_role(launch: Launch) -> dict[str, str]:
    """Role → the pool that has it."""
    owner = {role: TRAINER for role in (TRAINER, *launch.roles)}
    return owner | {role: name for name, pool in launch.pools.items() for role in pool.roles}


def _asked(launch: Launch, config: Config, method: str, faults: Faults) -> dict[str, Written]:
    """Pool → its profile as it was written, `profile` being that of the launch's own nodes."""
    owner = pools_by_role(launch)
    asked: dict[str, Written] = {}
    plain = config.resources.get("profile")
    for roles, item in [*([(TRAINER, plain)] if plain else []), *config.pools.items()]:
        names = set()
        for role in (role.strip() for role in roles.split(",")):
            if role in owner:
                names.add(owner[role])
                continue
            close = nearest(role, owner)
            expected = f"`{close}`?" if close else "one of " + ", ".join(owner)
            faults.add(InputError, f"{method} has no role {shown(role)}", item.where, expected)
        if len(names) > 1:
            faults.add(
                InputError, f"{shown(roles)} are roles of different nodes", item.where, "a profile each"
            )
        for name in names:
            _put(asked, name, item, faults)
    return asked


def _put(asked: dict[str, Written], name: str, item: Written, faults: Faults) -> None:
    """The command line stands over the file; twice in one place is a fault."""
    held = asked.get(name)
    if held is None or (item.mark.file == COMMAND_LINE and held.mark.file != COMMAND_LINE):
        asked[name] = item
    elif (item.mark.file == COMMAND_LINE) == (held.mark.file == COMMAND_LINE):
        faults.add(InputError, f"the nodes of {shown(name)} are asked for twice", item.where, held.where)


def _pool(site: Site, launch: Launch, name: str, text: str, where: str, faults: Faults) -> Pool | None:
    try:
        made = topology(site, text, where)
    except TuneplaneError as error:
        faults.take(error)
        return None
    server = launch.pools[name].server if name in launch.pools else None
    if server is None:
        return Pool(name, made)
    return Pool(name, made, tuple(server.words), server.ready, parse_duration(server.timeout))


def _check(site: Site, found: list[Pool], where: str, faults: Faults) -> None:
    total = sum(pool.topology.nodes for pool in found)
    if site.scheduler == "local" and total > 1:
        text = found[0].topology.profile if len(found) == 1 else f"{len(found)} pools"
        faults.add(SiteError, f"{shown(text)} is {total} nodes", where, "one node")
    names = [pool.topology.profile.partition(":")[0] for pool in found]
    archs = sorted({site.profiles[name].arch for name in names})
    if len(archs) > 1:
        what = f"nodes of {' and '.join(archs)} cannot start one image"
        faults.add(SiteError, what, where, "profiles of one architecture")
    if site.runtime.kind == "pyxis" and len(list(components(found))) > 1:
        what = "one step of pyxis cannot start containers on different kinds of nodes"
        faults.add(SiteError, what, where, "one profile, and whole nodes, for all pools")


def components(found: list[Pool]) -> Iterator[Topology]:
    """What Slurm is asked for: pools of like nodes together, each other kind as a component of its own."""
    for like, members in groupby(
        (pool.topology for pool in found), lambda made: replace(made, profile="", nodes=0)
    ):
        held = list(members)
        yield replace(like, profile=held[0].profile, nodes=sum(made.nodes for made in held))
