"""The script as Slurm has it: the controller's copy while it knows the job, then the accounting's where it stores one.

A run folder belongs to the one who submitted; what Slurm took from it at that time does not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneplane.schedulers import Kept
from tuneplane.schedulers.slurm.commands import ask, cluster_option
from tuneplane.schedulers.slurm.rows import CannotAsk, accounted, queue, stored
from tuneplane.sites.model import Site


def kept(folder: Path, job: dict[str, Any], site: Site) -> Kept:
    """The scripts of all jobs whose working folder is `folder`. job: `job.json`, which is not believed: a job that it
    names counts only when it works in that folder.
    """
    said, cluster = str(job.get("id", "")), str(job.get("cluster", ""))
    try:
        owner = folder.stat().st_uid
        known = [row.job for row in queue(site, cluster, owner) if row.folder == str(folder)]
        if known:
            return _scripts(known, lambda number: _controllers(site, number, cluster))
        rows = accounted(site, [said], cluster, owner) if said.isdigit() else []
    except (CannotAsk, OSError) as error:
        return Kept(note=f"Slurm cannot be asked for its copy: {error}")
    known = list(dict.fromkeys(row.job for row in rows if row.folder == stored(folder)))
    if not known:
        return Kept(note="Slurm shows no job of this run folder")
    return _scripts(known, lambda number: _accountings(site, number, cluster))


def _scripts(jobs: list[str], read: Callable[[str], tuple[bytes, str]]) -> Kept:
    found: dict[str, bytes] = {}
    notes = []
    for number in jobs:
        script, why = read(number)
        if why:
            notes.append(f"Slurm does not show its copy of job {number}: {why}")
        else:
            found[number] = script
    return Kept(found, "; ".join(notes))


def _controllers(site: Site, job: str, cluster: str) -> tuple[bytes, str]:
    """The controller's copy, or why there is none: only the owner of a job and operators see it."""
    answer = ask(site, ["scontrol", *cluster_option(cluster), "write", "batch_script", job, "-"])
    return (answer.out.encode(), "") if answer.good and answer.out else (b"", answer.last_words)


def _accountings(site: Site, job: str, cluster: str) -> tuple[bytes, str]:
    """The accounting's copy: two lines of heading, then the script, where AccountingStoreFlags has `job_script`."""
    answer = ask(site, ["sacct", *cluster_option(cluster), "--batch-script", f"--jobs={job}"])
    if not answer.good:
        return b"", answer.last_words
    _, line, script = (*answer.out.split("\n", 2), "", "")[:3]
    if not line.startswith("---") or script.strip() in ("", "NONE"):
        return b"", "the accounting stores no scripts"
    # 22.05 ends with an empty line more, later ones do not
    return (script[:-1] if script.endswith("\n\n") else script).encode(), ""
