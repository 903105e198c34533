"""The exception that ended a program, from the tracebacks in its log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuneplane.runs.why.facts import Facts, Text
from tuneplane.runs.why.symptoms import Found, rank_of

_START = re.compile(r"Traceback \(most recent call last\)")
_PREFIX = re.compile(r"^(?:\[[^\]]*\]:?|\([^)]*pid=[^)]*\)|\d+:)\s?")
_LAST = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Died|Warning|Failure|Timeout|Stop\w*))(?:: (.*))?$"
)
_CONSEQUENCES = re.compile(
    r"ChildFailedError|DistBackendError|DistNetworkError|DistStoreError|SignalException|KeyboardInterrupt"
    r"|ConnectionResetError|BrokenPipeError|ConnectionAbortedError|EOFError|SystemExit|CalledProcessError"
    r"|RayTaskError|ray\.exceptions\.|ProcessExitedException|ProcessRaisedException|RuntimeError: .*(?:NCCL|Connection closed by peer)"
)
"""Exceptions that say that something else has failed, or that the program was told to end."""


_NEWEST_LINES = 1000
"""Tracebacks of exceptions that were got over stand further up."""


def exception(facts: Facts) -> Found | None:
    """The last line of the first traceback that is no consequence of another failure, of the rank that failed first
    where that is known."""
    for text in facts.texts:
        if found := list(_all(text, facts)):
            first = facts.verdict.get("rank")
            return next((one for one in found if first is not None and one.rank == first), found[0])
    return None


def _all(text: Text, facts: Facts) -> Iterator[Found]:
    inside: set[str] = set()
    for raw in text.lines[-_NEWEST_LINES:]:
        line, who = raw, ""
        while match := _PREFIX.match(line):
            line, who = line[match.end() :], who + match[0]
        if _START.search(line):
            inside.add(who)
        elif who in inside and (match := _LAST.match(line)):
            inside.discard(who)
            if not _CONSEQUENCES.search(line):
                yield Found(line, match, text, rank_of(raw, text, facts))
