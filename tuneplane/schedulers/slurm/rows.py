"""What Slurm's commands show of jobs, row by row."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuneplane.errors import SchedulerError
from tuneplane.schedulers import Queued
from tuneplane.schedulers.slurm.commands import ask, cluster_option
from tuneplane.sites.model import Site

_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class Row:
    """One job as Slurm shows it; only fields that cannot hold a separator, the working folder last.

    job: its number; name: what Slurm's commands take, `A_a` for a task of an array; begins: when it is expected to
    start; after: what it depends on; by: the uid of who cancelled it, where Slurm says.
    """

    job: str
    state: str
    reason: str
    folder: str
    name: str = ""
    begins: str = ""
    after: str = ""
    by: str = ""


class CannotAsk(Exception):
    """Slurm did not answer; the text says why."""


def queue(site: Site, cluster: str = "", user: int | None = None) -> list[Row]:
    """All jobs of a user (a uid, this one by default) that the controller still knows. Raises CannotAsk."""
    # fields are separated by a character that no name holds; the job's name is not asked for, it holds anything
    form = _SEPARATOR.join(("%A", "%i", "%T", "%r", "%S", "%E", "%Z"))
    answer = ask(
        site,
        [
            "squeue",
            "--noheader",
            "--states=all",
            f"--user={os.getuid() if user is None else user}",
            f"--format={form}",
            *cluster_option(cluster),
        ],
    )
    if not answer.good:
        raise CannotAsk(f"squeue: {answer.last_words}")
    return list(_rows(answer.out))


def everyone(site: Site) -> list[Queued]:
    """Jobs of all users that wait or run, as far as this user may see them. Raises SchedulerError."""
    form = _SEPARATOR.join(("%A", "%u", "%Z"))
    answer = ask(site, ["squeue", "--noheader", f"--format={form}"])
    if not answer.good:
        raise SchedulerError.of(f"squeue: {answer.last_words}")
    rows = (line.split(_SEPARATOR, 2) for line in answer.out.splitlines())
    return [Queued(*row) for row in rows if len(row) == 3]


def accounted(site: Site, ids: Iterable[str], cluster: str = "", user: int | None = None) -> list[Row]:
    """Those of `ids` that the accounting knows of a user; none where there is no accounting. Raises CannotAsk.

    Their folders are as the accounting stores them, see `stored`.
    """
    fields = "JobIDRaw,JobID,State,Reason,Start,WorkDir"
    answer = ask(
        site,
        [
            "sacct",
            "--noheader",
            "--parsable2",
            f"--delimiter={_SEPARATOR}",
            "--allocations",
            "--duplicates",
            f"--user={os.getuid() if user is None else user}",
            f"--jobs={','.join(ids)}",
            f"--format={fields}",
            *cluster_option(cluster),
        ],
    )
    if answer.good:
        return list(_rows(answer.out))
    if "disabled" in answer.err or (answer.status is None and "cannot run" in answer.err):
        return []
    raise CannotAsk(f"sacct: {answer.last_words}")


def _rows(text: str) -> Iterable[Row]:
    for line in text.split("\n"):
        parts = line.split(_SEPARATOR)
        if len(parts) == 6:
            # the accounting has no dependencies
            parts.insert(5, "")
        if len(parts) == 7 and parts[0].isdigit():
            job, name, state, reason, begins, after, folder = parts
            # `CANCELLED by 1000` names who; flags follow with a comma
            by = state.partition(" by ")[2].split(",")[0]
            word = state.split(" ")[0].split(",")[0].rstrip("+")
            yield Row(job, word, reason, folder, name, begins, after, by)


def stored(folder: Path) -> str:
    """A folder as the accounting stores it: slurmctld writes a backtick for each double quote (seen on 24.11)."""
    return str(folder).replace('"', "`")
