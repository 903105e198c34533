"""The sbatch options a user may set where the site lets them, and those that belong to `tp`."""

from __future__ import annotations

import re
from collections.abc import Callable

from tuneplane.errors import shown
from tuneplane.visible import visible

OWNED = frozenset(
    "array dependency output error input chdir nodes ntasks ntasks-per-node cpus-per-task gres gpus gpus-per-node "
    "mem exclusive export propagate requeue no-requeue job-name time wrap parsable open-mode signal".split()
)
"""Set by `tp` alone: they follow from the plan, or the script would no longer tell what runs."""

ALWAYS = frozenset("nodes time output export propagate requeue no-requeue".split())
"""Of these no site can do without: a script would run otherwise than it says."""


def _text(value: str) -> str:
    if not value or len(value) > 1024 or not visible(value):
        raise ValueError(f"{shown(value)} is not 1 to 1024 printable characters")
    return value


def _nice(value: str) -> str:
    if not re.fullmatch(r"\d{1,10}", value, re.ASCII):
        raise ValueError(f"{shown(value)} is no nice value: a whole number from 0")
    return value


def _begin(value: str) -> str:
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?|now(\+\d+(minutes|hours|days|weeks)?)?", value, re.ASCII
    ):
        raise ValueError(f"{shown(value)} is no begin time: `YYYY-MM-DDTHH:MM` or `now+2hours`")
    return value


def _mail_type(value: str) -> str:
    known = {"NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80"}
    for word in value.split(","):
        if word.upper() not in known:
            raise ValueError(f"{shown(word)} is no mail type: one of {', '.join(sorted(known))}")
    return value


def _nodes(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.,\[\]-]+", value, re.ASCII):
        raise ValueError(f"{shown(value)} is no list of node names")
    return _text(value)


USER_OPTIONS: dict[str, Callable[[str], str]] = {
    "account": _text,
    "partition": _text,
    "qos": _text,
    "reservation": _text,
    "constraint": _text,
    "nodelist": _nodes,
    "exclude": _nodes,
    "nice": _nice,
    "begin": _begin,
    "mail_user": _text,
    "mail_type": _mail_type,
}
"""Key under `resources` → check that returns the value or raises ValueError with what is wrong with it."""
