"""From `NAME[:N]` to nodes, GPUs and processes."""

from __future__ import annotations

import re

from tuneplane.durations import parse_duration, spoken
from tuneplane.errors import InputError, SiteError, nearest, shown
from tuneplane.plan.model import Topology
from tuneplane.sites.model import Profile, Site


def topology(site: Site, text: str, where: str = "") -> Topology:
    """The topology of a profile text: `h200:16` is two whole nodes of eight, `cpu:2` two nodes without GPUs.

    Raises SiteError when the site has no such profile or cannot give that number.
    """
    name, colon, count_text = text.partition(":")
    if name not in site.profiles:
        close = nearest(name, site.profiles)
        raise SiteError.of(
            f"there is no profile {shown(name)}" + (f", did you mean `{close}`?" if close else ""),
            where,
            "one of " + ", ".join(site.profiles),
            "tp site show",
        )
    profile = site.profiles[name]
    unit = "GPUs" if profile.gpus_per_node else "nodes"
    if colon and not re.fullmatch(r"[1-9][0-9]{0,5}", count_text, re.ASCII):
        raise SiteError.of(f"{shown(count_text)} is no number of {unit}", where, f"`{name}:N` with N from 1")
    count = int(count_text) if colon else max(1, profile.gpus_per_node)
    made = (
        _gpu_topology(name, profile, count, where)
        if profile.gpus_per_node
        else _cpu_topology(name, profile, count)
    )
    if profile.max_nodes and made.nodes > profile.max_nodes:
        raise SiteError.of(
            f"{shown(text)} is {made.nodes} nodes", where, f"at most {profile.max_nodes} of `{name}`"
        )
    return made


def _gpu_topology(name: str, profile: Profile, count: int, where: str) -> Topology:
    size = profile.gpus_per_node
    if count > size and count % size:
        most = profile.max_nodes or count
        whole_nodes = [n for n in (count // size, count // size + 1) if n <= most] or [most]
        raise SiteError.of(
            f"{count} GPUs are no whole number of nodes",
            where,
            f"nodes of `{name}` have {size} GPUs: 1 to {size} on one node, or a multiple of {size}",
            " or ".join(f"`{name}:{n * size}`" for n in whole_nodes),
        )
    whole = count >= size
    nodes, gpus = (count // size, size) if whole else (1, count)
    exclusive = profile.exclusive == "always" or (whole and profile.exclusive == "whole-nodes")
    cpus = profile.cpus_per_node if whole or exclusive else max(1, profile.cpus_per_node * gpus // size)
    all_of_it = exclusive or (whole and profile.memory != "0")
    memory = profile.memory if all_of_it else _part_of_memory(profile, gpus)
    return Topology(
        profile=f"{name}:{count}",
        nodes=nodes,
        gpus_per_node=gpus,
        gpu_type=profile.gpu_type,
        processes_per_node=gpus,
        cpus_per_node=cpus,
        memory=memory,
        exclusive=exclusive,
        constraint=profile.constraint,
        partition=profile.partition,
    )


def _cpu_topology(name: str, profile: Profile, nodes: int) -> Topology:
    exclusive = profile.exclusive != "never"
    return Topology(
        profile=f"{name}:{nodes}",
        nodes=nodes,
        gpus_per_node=0,
        gpu_type="",
        processes_per_node=profile.processes_per_node,
        cpus_per_node=profile.cpus_per_node,
        memory=profile.memory,
        exclusive=exclusive,
        constraint=profile.constraint,
        partition=profile.partition,
    )


def _part_of_memory(profile: Profile, gpus: int) -> str:
    """The memory of a part of a node; empty leaves it to Slurm's default for each CPU."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", profile.memory_per_gpu)
    return f"{int(match.group(1)) * gpus}{match.group(2)}" if match else ""


def time_limit(site: Site, made: Topology | None, text: str, where: str = "") -> int:
    """Seconds. Raises InputError for a text that is no duration, SiteError for one beyond that of the profile."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError.of(str(error), where, "`90m`, `12h`, `1d12h`, `H:MM:SS` or `D-HH:MM:SS`") from None
    if made is None:
        return seconds
    name = made.profile.partition(":")[0]
    longest = site.profiles[name].max_time
    if longest and seconds > parse_duration(longest):
        expected = f"at most {spoken(parse_duration(longest))}"
        raise SiteError.of(f"{shown(text)} is longer than the site lets `{name}` run", where, expected)
    return seconds
