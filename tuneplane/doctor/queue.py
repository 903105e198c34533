"""The scheduler: whether its commands answer, and whether it has what the site's profiles ask for."""

from __future__ import annotations

import re

from tuneplane.doctor.check import Check, of_problems
from tuneplane.durations import parse_duration
from tuneplane.schedulers.slurm.commands import ask
from tuneplane.schedulers.slurm.limits import Asked, account_problems, partition_problems, partitions
from tuneplane.sites.model import Profile, Site

COMMANDS = ("sbatch", "squeue", "sinfo", "scontrol", "scancel")
_LONGEST_SHOWN = 3


def queue(site: Site) -> list[Check]:
    """What Slurm says; nothing on a site without it."""
    if site.scheduler != "slurm":
        return [Check("scheduler", "local: runs start on this machine")]
    commands = [_command(site, name) for name in COMMANDS]
    versions = {check.said for check in commands if check.level == "ok"}
    if len(versions) == 1 and all(check.level == "ok" for check in commands):
        commands = [Check("scheduler", f"{versions.pop()}: {', '.join(COMMANDS)}")]
    answer = ask(site, ["scontrol", "ping"])
    if not answer.good or re.search(r"\bis UP\b", answer.out) is None:
        said = answer.out.strip().splitlines()[:1] or [answer.last_words]
        return [
            *commands,
            Check("controller", f"it does not answer: {said[0]}", "bad", "ask the administrators"),
        ]
    return [
        *commands,
        Check("controller", answer.out.strip().splitlines()[0]),
        *_profiles(site),
        _accounting(site),
    ]


def _command(site: Site, name: str) -> Check:
    answer = ask(site, [name, "--version"])
    if answer.good:
        return Check(name, answer.out.strip())
    return Check(name, answer.last_words, "bad", f"a folder with {name} under `path` of the site file")


def _accounting(site: Site) -> Check:
    answer = ask(site, ["sacct", "--noheader", "--parsable2", "--jobs=1", "--format=JobIDRaw"])
    if answer.good:
        return Check("accounting", "sacct answers")
    what = f"{answer.last_words}: a run that Slurm has forgotten is judged by its own records alone"
    return Check("accounting", what, "note")


def _profiles(site: Site) -> list[Check]:
    known = partitions(site)
    if known is None:
        return [Check("partitions", "they cannot be read", "bad", "scontrol show partition")]
    nodes = _nodes(site)
    checks = []
    for name, profile in site.profiles.items():
        problems = [
            *partition_problems(_asked(site, profile), known),
            *account_problems(site, _asked(site, profile)),
        ]
        found = of_problems(f"profile {name}", problems) or _hardware(site, name, profile, nodes)
        checks += found or [Check(f"profile {name}", _fits(site, profile))]
    return checks


def _asked(site: Site, profile: Profile) -> Asked:
    """The least that a run of the profile asks for: one node, for the site's default time where that is allowed."""
    defaults = {key: option.default for key, option in site.slurm.options.items()}
    seconds = parse_duration(site.default_time)
    if profile.max_time:
        seconds = min(seconds, parse_duration(profile.max_time))
    partition = profile.partition or defaults.get("partition", "")
    return Asked(partition, defaults.get("account", ""), defaults.get("qos", ""), 1, seconds)


def _fits(site: Site, profile: Profile) -> str:
    partition = _asked(site, profile).partition
    return f"in the partition {partition}" if partition else "in Slurm's default partition"


def _nodes(site: Site) -> list[tuple[str, str, int]]:
    """(partition, GRES, CPUs) of every kind of node; empty when sinfo does not answer."""
    answer = ask(site, ["sinfo", "--noheader", "--format=%R\x1f%G\x1f%c"])
    rows = [line.split("\x1f") for line in answer.out.splitlines()] if answer.good else []
    return [
        (row[0], row[1], int(row[2].rstrip("+") or 0))
        for row in rows
        if len(row) == 3 and row[2].rstrip("+").isdigit()
    ]


def _hardware(site: Site, name: str, profile: Profile, nodes: list[tuple[str, str, int]]) -> list[Check]:
    """A bad check where no node of the partition has the CPUs and GPUs of the profile."""
    names = _asked(site, profile).partition.split(",")
    there = [row for row in nodes if names == [""] or row[0] in names]
    if not there or any(row[2] >= profile.cpus_per_node and _has_gpus(row[1], profile) for row in there):
        return []
    gpus = f" and {profile.gpus_per_node} GPUs {profile.gpu_type}".rstrip() if profile.gpus_per_node else ""
    what = f"no node there has {profile.cpus_per_node} CPUs{gpus}"
    have = ", ".join(sorted({f"{row[2]} CPUs and {row[1]}" for row in there})[:_LONGEST_SHOWN])
    return [
        Check(f"profile {name}", what, "bad", f"the profile's numbers in the site file: nodes have {have}")
    ]


def _has_gpus(gres: str, profile: Profile) -> bool:
    """Whether `gpu:h200:8(S:0-1),…` has the profile's GPUs; a site that asks for none by name is not judged."""
    if not profile.gpus_per_node or "gpu" not in gres:
        return not profile.gpus_per_node
    for kind, count in re.findall(r"gpu(?::([^:,()]+?))?:(\d+)(?=[(,]|$)", gres):
        if int(count) >= profile.gpus_per_node and (not profile.gpu_type or kind in ("", profile.gpu_type)):
            return True
    return False
