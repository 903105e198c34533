"""The data once more before anything starts: they are not frozen, and a run may have been queued for days."""

from __future__ import annotations

import time
from typing import Callable, List, Optional, Tuple

from tuneplane.job.checks.columns import DataFile, shown, unfit
from tuneplane.job.checks.preflight import within
from tuneplane.job.checks.rows import NotTold

# For all files: the other nodes are waiting.
SECONDS = 20.0


def problem(
    files: Tuple[DataFile, ...], say: Callable[[str], None], seconds: float = SECONDS
) -> Optional[str]:
    """What is wrong with the first file that is wrong. What cannot be told is said, and stops nothing."""
    until = time.monotonic() + seconds
    for file in files:
        found: List[str] = []
        what = f"reading the first rows of {shown(file.path)}"
        left = max(0.0, round(until - time.monotonic(), 1))
        late = within(left, [(what, _check(file, found, say))])
        if late is not None:
            say(f"{late}, so the columns of the data are not checked")
            return None
        if found:
            return found[0]
    return None


def _check(file: DataFile, found: List[str], say: Callable[[str], None]) -> Callable[[], None]:
    def check() -> None:
        try:
            wrong = unfit(file)
        except NotTold as error:
            say(f"{shown(file.path)} {error}, so its columns are not checked")
        else:
            found.extend([wrong.sentence] if wrong else [])

    return check
