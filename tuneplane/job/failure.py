"""What the end of a node's log says: its last lines, and which rank failed first."""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional

from tuneplane.job.outcome import signal_name

READ_BYTES = 65536
TAIL_LINES = 20
TAIL_BYTES = 4096

# The summary that torchrun prints when a worker failed, the same in torch 1.10 to 2.13 and under accelerate. Behind
# it stands the worker's own traceback, indented: so only a line that begins like this is the summary's.
_ROOT_CAUSE = re.compile(r"^Root Cause \(first observed failure\):", re.MULTILINE)
_RANK = re.compile(r"^ +rank +: (\d+) \(local_rank: (\d+)\)", re.MULTILINE)
_EXIT_CODE = re.compile(r"^ +exitcode +: (-?\d+) \(pid: \d+\)", re.MULTILINE)


class RankEnd(NamedTuple):
    """How the rank ended that failed first; code: 128+n when signal n killed it; signal: its name or None."""

    rank: int
    local_rank: int
    code: int
    signal: Optional[str]


def first_rank(path: str) -> Optional[RankEnd]:
    """The rank that torchrun's last summary in the log names as the root cause, or None. Never raises."""
    parts = _ROOT_CAUSE.split(_end_of(path))
    rank, status = _RANK.search(parts[-1]), _EXIT_CODE.search(parts[-1])
    if len(parts) == 1 or rank is None or status is None:
        return None
    code = int(status.group(1))
    if code == 0:
        # A worker can leave an error and still end with 0; a failure must not count as success.
        return None
    number = -code if code < 0 else 0
    return RankEnd(
        int(rank.group(1)),
        int(rank.group(2)),
        128 + number if number else code,
        signal_name(number) if number else None,
    )


def tail(path: str) -> List[str]:
    """The last lines of a log, at most 20 and 4 KiB, fit to be shown; blank ones are left out. Never raises.

    Of a line that a progress bar rewrote, its last state; of a last line longer than 4 KiB, its end.
    """
    chosen: List[str] = []
    left = TAIL_BYTES
    for line in reversed(_end_of(path).split("\n")):
        text = _readable(line)
        if not text:
            continue
        size = len(text.encode()) + 1
        if size > left and not chosen:
            text = text.encode()[1 - left :].decode("utf-8", "ignore")
        elif size > left:
            break
        chosen.append(text)
        left -= size
        if len(chosen) == TAIL_LINES or left <= 0:
            break
    return chosen[::-1]


def _readable(line: str) -> str:
    states = [state for state in line.split("\r") if state.strip()]
    text = states[-1].rstrip() if states else ""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _end_of(path: str) -> str:
    """The last 64 KiB, from the start of a line where there is one; empty when it cannot be read."""
    try:
        # What is no file, such as a pipe, must not make us wait.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            start = max(0, os.lseek(handle, 0, os.SEEK_END) - READ_BYTES)
            data = os.pread(handle, READ_BYTES, start)
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return ""
    if start and b"\n" in data:
        data = data[data.index(b"\n") + 1 :] or data
    return data.decode("utf-8", "backslashreplace")
