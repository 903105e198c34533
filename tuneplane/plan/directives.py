"""The `#SBATCH` lines, in one fixed order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuneplane.durations import slurm_time
from tuneplane.errors import InputError, SiteError, shown
from tuneplane.experiment.config import Written
from tuneplane.faults import Faults
from tuneplane.plan.model import Directive, Topology
from tuneplane.sites.model import Site
from tuneplane.sites.options import USER_OPTIONS


@dataclass(frozen=True)
class Asked:
    """What a job asks of the scheduler, whatever its nodes.

    names: what the site's job name pattern may use, `experiment` and `method`; requeue: whether Slurm may start the job
    again; warning: signal and seconds before the time limit.
    """

    site: Site
    seconds: int
    resources: Mapping[str, Written]
    names: Mapping[str, str]
    requeue: bool
    warning: tuple[str, int] | None


HETJOB = Directive("hetjob", None, "profile")
"""What stands between the components of a job whose nodes differ."""


def directives(asked: Asked, parts: Sequence[Topology], faults: Faults) -> list[Directive]:
    """Every directive of the job: those of a part, and after `hetjob` those of the next."""
    lines: list[Directive] = []
    for made in parts:
        # the user's options are the same for each, and so are their faults
        lines += [*([HETJOB] if lines else []), *_part(asked, made, faults if not lines else Faults())]
    return lines


def _part(asked: Asked, made: Topology, faults: Faults) -> list[Directive]:
    site, names = asked.site, asked.names
    # in one pass: a name that looks like a field of the pattern stays what it is
    job_name = re.sub(r"\{(\w+)\}", lambda field: names.get(field[1], field[0]), site.slurm.job_name)
    lines = [
        Directive("job-name", job_name, "site"),
        *user_options(site, made, asked.resources, faults),
        Directive("nodes", str(made.nodes), "profile"),
        Directive("ntasks-per-node", "1", "platform"),
        Directive("cpus-per-task", str(made.cpus_per_node), "profile"),
        *_gpus(site, made),
        Directive("time", slurm_time(asked.seconds), "resources"),
    ]
    if made.exclusive:
        lines.append(Directive("exclusive", None, "profile"))
    if made.memory:
        lines.append(Directive("mem", made.memory, "profile"))
    lines += [
        Directive("output", "slurm-%j.out", "platform"),
        Directive("open-mode", "append", "platform"),
        Directive("export", "NIL", "platform"),
        Directive("propagate", "NONE", "platform"),
        Directive("requeue" if asked.requeue else "no-requeue", None, "platform"),
    ]
    if asked.warning:
        name, seconds = asked.warning
        lines.append(Directive("signal", f"B:{name}@{seconds}", "site"))
    lines = [line for line in lines if line.name not in site.slurm.omit]
    for name, value in sorted(site.slurm.add.items()):
        lines = [line for line in lines if line.name != name]
        lines.append(Directive(name, None if value is True else str(value), "site"))
    return lines


def _gpus(site: Site, made: Topology) -> list[Directive]:
    """The GPU request in the one form the site takes (gres and gpus-per-node exclude each other since 26.05)."""
    form = site.slurm.gpu_request
    if not made.gpus_per_node or form == "none":
        return []
    kind = f"{made.gpu_type}:" if made.gpu_type else ""
    if form == "gres":
        return [Directive("gres", f"gpu:{kind}{made.gpus_per_node}", "profile")]
    if form == "gpus-per-node":
        return [Directive("gpus-per-node", f"{kind}{made.gpus_per_node}", "profile")]
    return [Directive("gpus", f"{kind}{made.gpus_per_node * made.nodes}", "profile")]


def user_options(
    site: Site, made: Topology, resources: Mapping[str, Written], faults: Faults
) -> list[Directive]:
    """What the user set over what the profile and the site say, within what the site allows."""
    chosen: dict[str, tuple[str, str]] = {
        k: (o.default, "site") for k, o in site.slurm.options.items() if o.default
    }
    for key, value in (("partition", made.partition), ("constraint", made.constraint)):
        if value:
            chosen[key] = (value, "profile")
    for key, item in resources.items():
        if key not in USER_OPTIONS:
            continue
        option = site.slurm.options.get(key)
        try:
            value = USER_OPTIONS[key](item.text)
        except ValueError as error:
            faults.add(InputError, str(error), item.where)
            continue
        if option is None or site.scheduler != "slurm":
            faults.add(
                SiteError, f"this site does not let users set {shown(key)}", item.where, hint="tp site show"
            )
        elif option.allowed and value not in option.allowed:
            expected = "one of " + ", ".join(option.allowed)
            faults.add(SiteError, f"this site does not take {shown(value)}", item.where, expected)
        else:
            chosen[key] = (value, item.key)
    return [Directive(key.replace("_", "-"), *chosen[key]) for key in USER_OPTIONS if key in chosen]
