"""Paths that a container of this site cannot see, told before the queue."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.errors import InputError, Problem, shown
from tuneplane.experiment.config import Located
from tuneplane.plan.model import Plan
from tuneplane.sites.kinds import unmountable

TAKEN = ("/", "/proc", "/sys", "/dev", "/tuneplane")
"""What a container has of its own at these paths; nothing can be mounted there or below."""


def check_mounts(plan: Plan) -> None:
    """Raises InputError naming every path of the configuration that cannot be mounted."""
    problems = [problem for item in plan.located for problem in _problems(plan.runtime, item)]
    name = plan.provenance.experiment
    if why := unmountable(plan.runtime, name):
        what = f"{plan.runtime} cannot mount the folder of a run of {shown(name)}: {why}"
        problems.append(Problem(what, "", "another name of the experiment"))
    if problems:
        raise InputError(*problems)


def _problems(kind: str, item: Located) -> Iterator[Problem]:
    for path in dict.fromkeys((item.mount or item.path or "", item.real)):
        leads = f", which {item.key} leads to" if path == item.real and path != item.path else ""
        if why := unmountable(kind, path):
            yield Problem(f"{kind} cannot mount {shown(path, 400)}{leads}: {why}", item.where, "another name")
        elif kind == "apptainer" and "\r\n" in path:
            what = f"the path of {item.key} holds CR LF, which Apptainer cannot mount"
            yield Problem(what, item.where)
        elif path == "/" or any(path == own or path.startswith(f"{own}/") for own in TAKEN[1:]):
            yield Problem(f"no container sees the {shown(path, 400)} of this machine{leads}", item.where)
