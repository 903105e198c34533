"""The answer of `tp job why`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    """A line as it stands in a file of the run folder. file: its path in there."""

    line: str
    file: str


@dataclass(frozen=True)
class Reason:
    """Why a run stands as it does.

    kind: one or two words that name the cause for programs; sentence: the cause, without a full stop; action: what to
    type or to change, empty when there is nothing to do; evidence: the line that shows it.
    """

    kind: str
    sentence: str
    action: str = ""
    evidence: Evidence | None = None
