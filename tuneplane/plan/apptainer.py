"""What Apptainer would change or refuse on its way into the container (found in 1.4.5), told before the queue."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tuneplane.errors import InputError, Problem, shown
from tuneplane.plan.model import Plan

CHANGED = {"\x80": "U+0080", "\x81": "U+0081", "\r\n": "CR LF"}
"""Apptainer's own shell (mvdan/sh) takes U+0080 for the end of all variables, drops U+0081, and makes CR LF LF."""
OWN_NAMES = frozenset({"e", "key", "GID", "__script__", "__exported_env__", "__apptainer_cmd__"})
"""Variables of the script that this shell runs: of these the container sees another value or none."""
MAX_BYTES = 1_000_000
"""For all variables and words together: Apptainer passes them on as JSON of at most 1,048,448 bytes."""


def check(plan: Plan) -> None:
    """Raises InputError for every variable and path that would not arrive as it is."""
    problems = list(_problems(plan))
    if problems:
        raise InputError(*problems)


def _problems(plan: Plan) -> Iterator[Problem]:
    total = sum(size(str(word)) for word in plan.words)
    for variable in plan.environment:
        text = str(variable.value)
        total += size(f"{variable.name}={text}")
        if variable.name in OWN_NAMES:
            yield Problem(f"{shown(variable.name)} belongs to Apptainer", variable.where, "another name")
        for bad, name in CHANGED.items():
            if bad in text:
                what = f"the value of {shown(variable.name)} holds {name}, which Apptainer cannot hand in"
                yield Problem(what, variable.where)
    if total > MAX_BYTES:
        yield Problem(
            f"the variables and words need {total} bytes", expected=f"at most {MAX_BYTES} for Apptainer"
        )


def size(text: str) -> int:
    """Bytes in Apptainer's JSON, which escapes three more characters than Python's."""
    return len(json.dumps(text, ensure_ascii=False).encode()) + 5 * sum(map(text.count, "<>&"))
