"""What the contract suite found, for the end of pytest's own report: a row for each method and release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from contract.named import absent
from contract.suite import Outcome
from tabulate import tabulate

HEAD = (
    "method",
    "release",
    "parameters",
    "named",
    "cases",
    "values",
    "accepted",
    "read back equal",
    "not checked",
)
ROWS: dict[tuple[str, str], list[Outcome]] = {}
COUNTS: dict[tuple[str, str], tuple[int, int]] = {}
UNCHECKED: dict[str, str] = {}


def tell(
    method: str, version: str, parameters: int, named: int, found: list[Outcome], unchecked: str
) -> None:
    """parameters: that the method offers; named: of those, how many the table of names asks for."""
    ROWS[method, version] = found
    COUNTS[method, version] = (parameters, named)
    UNCHECKED[method.split("/")[0]] = unchecked


def lines() -> Iterator[str]:
    """The table, then what was not checked or is not offered, and why."""
    table = [[*key, *COUNTS[key], len(found), *_counts(found)] for key, found in sorted(ROWS.items())]
    yield from tabulate(table, HEAD, disable_numparse=True).splitlines()
    yield ""
    reasons = Counter(
        (method.split("/")[0], each.answer.unchecked) for (method, _), found in ROWS.items() for each in found
    )
    for (framework, reason), number in reasons.items():
        if reason:
            yield f"not checked: {framework}, {number} case{'s' if number > 1 else ''}: {reason}"
    for method in sorted({method for method, _ in ROWS}):
        yield from (f"not offered: {method}, {name}: {why}" for name, why in absent(method).items())
    for framework, reason in UNCHECKED.items():
        yield f"not checked: {framework}, no case: {reason}"


def _counts(found: list[Outcome]) -> Iterator[int]:
    """Values that were tried, accepted, read back equal, not checked."""
    yield sum(len(each.case.about) for each in found)
    sound = [each for each in found if not (each.refused or each.answer.error or each.answer.unchecked)]
    yield sum(len(each.case.about) for each in sound)
    yield sum(len(each.case.about) for each in sound if not each.different)
    yield sum(len(each.case.about) for each in found if each.answer.unchecked)
