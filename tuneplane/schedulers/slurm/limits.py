"""What the cluster would not take, found before the queue.

`sbatch --test-only` accepts a time beyond the partition's limit and, without accounting, any account (seen on 22.05,
24.11 and 26.05); so limits are compared here, and its verdict is only a hint.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tuneplane.durations import spoken
from tuneplane.errors import Problem, SiteError, nearest, shown
from tuneplane.schedulers import Wishes
from tuneplane.schedulers.slurm.after import dependency
from tuneplane.schedulers.slurm.commands import ask
from tuneplane.sites.model import Site

_DIRECTIVE = re.compile(r"#SBATCH --([a-z-]+)(?:=(.*))?\Z")
_SEPARATOR = "|"


@dataclass(frozen=True)
class Asked:
    """What a script asks for, read back from its own directives. seconds: its time limit."""

    partition: str
    account: str
    qos: str
    nodes: int
    seconds: int


def check(site: Site, script: str, wishes: Wishes) -> list[str]:
    """Raises SiteError with everything that the partition, the accounts or the QOS do not allow.

    What Slurm does not answer is not checked; the returned notes say so, and hold `--test-only`'s word.
    """
    asked = read_back(script)
    problems: list[Problem] = []
    notes: list[str] = []
    known = partitions(site)
    if known is None:
        notes.append("the partitions could not be read: limits are not checked")
    else:
        problems += partition_problems(asked, known)
    problems += account_problems(site, asked)
    if wishes.after is not None:
        dependency(wishes.after, site)
    if problems:
        raise SiteError(*problems)
    return notes


def estimate(site: Site, script: str) -> str:
    """What `sbatch --test-only` says: its start estimate, or why the job could not run."""
    answer = ask(site, ["sbatch", "--test-only"], text=script)
    lines = [line for line in answer.err.splitlines() if line.startswith("sbatch: ")]
    return lines[-1].removeprefix("sbatch: ") if lines else answer.last_words


def read_back(script: str) -> Asked:
    """The request as sbatch would read it from the script."""
    found: dict[str, str] = {}
    for line in script.splitlines():
        if match := _DIRECTIVE.match(line):
            found[match.group(1)] = _unquoted(match.group(2) or "")
        elif line and not line.startswith("#"):
            break
    return Asked(
        found.get("partition", ""),
        found.get("account", ""),
        found.get("qos", ""),
        int(found.get("nodes", "1")),
        slurm_seconds(found.get("time", "")) or 0,
    )


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def slurm_seconds(text: str) -> int | None:
    """Seconds of a time as Slurm prints it (`1-00:00:00`, `30:00`, `45`); None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", text)
    if not match:
        return None
    days, hours, minutes, last = (int(part or 0) for part in match.groups())
    if match.group(3) is None:
        return days * 86400 + last * (3600 if match.group(1) else 60)
    return days * 86400 + hours * 3600 + minutes * 60 + last


def partitions(site: Site) -> dict[str, dict[str, str]] | None:
    """Name → fields of each partition, from `scontrol show partition`."""
    answer = ask(site, ["scontrol", "--oneliner", "show", "partition"])
    if not answer.good:
        return None
    found = {}
    for line in answer.out.splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split())
        if "PartitionName" in fields:
            found[fields["PartitionName"]] = fields
    return found


def partition_problems(asked: Asked, partitions: dict[str, dict[str, str]]) -> list[Problem]:
    """What the partitions asked for, or the default ones, do not give."""
    names = (
        asked.partition.split(",")
        if asked.partition
        else [name for name, fields in partitions.items() if fields.get("Default") == "YES"]
    )
    if not names:
        return [
            Problem("Slurm has no default partition", "slurm.partition", "one of " + ", ".join(partitions))
        ]
    problems = []
    for name in names:
        if name not in partitions:
            close = nearest(name, partitions)
            what = f"there is no partition {shown(name)}" + (f", did you mean `{close}`?" if close else "")
            problems.append(Problem(what, "slurm.partition", "one of " + ", ".join(partitions)))
        else:
            problems += _one_partition(asked, name, partitions[name])
    return problems


def _one_partition(asked: Asked, name: str, fields: dict[str, str]) -> list[Problem]:
    problems = []
    longest = slurm_seconds(fields.get("MaxTime", ""))
    if longest is not None and asked.seconds > longest:
        what = f"{spoken(asked.seconds)} is longer than the partition {shown(name)} allows"
        problems.append(
            Problem(what, "slurm.time", f"at most {spoken(longest)}", f"--time {spoken(longest)}")
        )
    for key in ("MaxNodes", "TotalNodes"):
        most = fields.get(key, "")
        if most.isdigit() and asked.nodes > int(most):
            what = f"{asked.nodes} nodes are more than the partition {shown(name)} has for one job"
            problems.append(Problem(what, "slurm.nodes", f"at most {most}"))
            break
    for key, value in (("AllowAccounts", asked.account), ("AllowQos", asked.qos)):
        allowed = fields.get(key, "ALL")
        if value and allowed not in ("ALL", "N/A", "(null)") and value not in allowed.split(","):
            what = f"the partition {shown(name)} does not take {shown(value)}"
            problems.append(
                Problem(what, f"slurm.{'account' if key == 'AllowAccounts' else 'qos'}", f"one of {allowed}")
            )
    if fields.get("State") in ("DOWN", "INACTIVE"):
        problems.append(Problem(f"the partition {shown(name)} is {fields['State']}", "slurm.partition"))
    return problems


def account_problems(site: Site, asked: Asked) -> list[Problem]:
    """Account and QOS against the user's associations, where there is accounting."""
    if not asked.account and not asked.qos:
        return []
    rows = _sacctmgr(site, ["show", "assoc", f"user={_user()}", "format=Account,QOS"])
    if rows is None:
        return []
    problems = []
    accounts = sorted({row[0] for row in rows if row[0]})
    if asked.account and asked.account not in accounts:
        expected = "one of " + ", ".join(accounts) if accounts else "an account of yours: you have none"
        problems.append(
            Problem(f"the account {shown(asked.account)} is not yours", "slurm.account", expected)
        )
    if asked.qos:
        problems += _qos_problems(site, asked)
    return problems


def _qos_problems(site: Site, asked: Asked) -> list[Problem]:
    rows = _sacctmgr(site, ["show", "qos", "format=Name,MaxWall"]) or []
    walls = {row[0]: row[1] for row in rows if len(row) > 1}
    if not walls:
        return []
    if asked.qos not in walls:
        return [
            Problem(f"there is no QOS {shown(asked.qos)}", "slurm.qos", "one of " + ", ".join(sorted(walls)))
        ]
    longest = slurm_seconds(walls[asked.qos])
    if longest is not None and asked.seconds > longest:
        what = f"{spoken(asked.seconds)} is longer than the QOS {shown(asked.qos)} allows"
        return [Problem(what, "slurm.time", f"at most {spoken(longest)}")]
    return []


def _sacctmgr(site: Site, words: list[str]) -> list[list[str]] | None:
    """Rows of sacctmgr, None where there is no accounting or it does not answer."""
    answer = ask(site, ["sacctmgr", "--noheader", "--parsable2", "--readonly", *words])
    if not answer.good:
        return None
    return [line.split(_SEPARATOR) for line in answer.out.splitlines() if line]


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name
