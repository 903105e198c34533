"""Errors a user can fix, each with the exit code the command line ends with.

Anything else that escapes is a bug in `tp` and exits with 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tuneplane.visible import visible


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in one to four lines.

    what: the fault in one sentence without a full stop; where: `FILE:LINE key`; expected: what would be right;
    hint: what to type or do next.
    """

    what: str
    where: str = ""
    expected: str = ""
    hint: str = ""

    def lines(self) -> list[str]:
        """The problem as it is printed, without the leading `error:`."""
        labelled = [("at", self.where), ("expected", self.expected), ("try", self.hint)]
        return [self.what, *(f"  {label:<8} {text}" for label, text in labelled if text)]


class TuneplaneError(Exception):
    """Base of all errors for which the user, the site or the scheduler is responsible."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(p if isinstance(p, Problem) else Problem(p) for p in problems)
        super().__init__("; ".join(p.what for p in self.problems))

    @classmethod
    def of(cls, what: str, where: str = "", expected: str = "", hint: str = "") -> TuneplaneError:
        """An error with a single problem."""
        return cls(Problem(what, where, expected, hint))


class UsageError(TuneplaneError):
    """The command line itself is wrong."""

    exit_code = 2


class InputError(TuneplaneError):
    """The user's input is wrong: configuration, manifest, data."""

    exit_code = 3


class LockError(TuneplaneError):
    """The lock is stale, or the handshake or an audit failed."""

    exit_code = 4


class ImageError(TuneplaneError):
    """The runtime image is missing or not what it should be."""

    exit_code = 5


class SiteError(TuneplaneError):
    """The site cannot give what was asked, or its description is wrong."""

    exit_code = 6


class SchedulerError(TuneplaneError):
    """The scheduler refused, or cannot be asked."""

    exit_code = 7


class Busy(TuneplaneError):
    """Somebody else is at the same work; trying again later helps."""

    exit_code = 75


class RunEndedBadly(TuneplaneError):
    """A run that was waited for did not complete."""

    exit_code = 8


def shown(value: object, limit: int = 80) -> str:
    """`value` in backticks for a message: control characters escaped, cut at `limit` characters."""
    text = (value if isinstance(value, str) else str(value)) or '""'
    text = "".join(c if visible(c) else c.encode("unicode_escape").decode() for c in text)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return f"`{text}`"


def nearest(word: str, known: Iterable[str]) -> str:
    """The name among `known` closest to `word`, or an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=0.6)), "")
