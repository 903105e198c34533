"""One thing that was looked at, and how it was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tuneplane.errors import InputError, Problem, SiteError


@dataclass(frozen=True)
class Check:
    """name: what was looked at; said: how it is, in one sentence; remedy: what to do; level: `note` for what may be
    meant so, `bad` for what a run will fail on; whose: who can mend it, the site or the user.
    """

    name: str
    said: str
    level: Literal["ok", "note", "bad"] = "ok"
    remedy: str = ""
    whose: Literal["site", "user"] = "site"


def of_problems(
    name: str, problems: Iterable[Problem], whose: Literal["site", "user"] = "site"
) -> list[Check]:
    """A bad check for each problem that another part of `tp` has found."""
    return [Check(name, problem.what, "bad", problem.hint or problem.expected, whose) for problem in problems]


def exit_code(checks: Iterable[Check]) -> int:
    """That of a site that lacks something, else that of what the user can mend, else 0."""
    bad = {check.whose for check in checks if check.level == "bad"}
    return SiteError.exit_code if "site" in bad else InputError.exit_code if bad else 0
