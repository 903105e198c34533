"""The logs of a run, node by node."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneplane.runs.folder import Run

_NODE_LOG = re.compile(r"node-(\d+)\.log\Z")
POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Log:
    """label: `job` for the script's own log, else the node's rank."""

    label: str
    path: Path


def logs_of(attempt: Path) -> list[Log]:
    """The logs of an attempt: the script's own, then those of the nodes by rank."""
    try:
        names = [path.name for path in attempt.iterdir()]
    except OSError:
        return []
    ranks = sorted(int(match.group(1)) for name in names if (match := _NODE_LOG.match(name)))
    own = [Log("job", attempt / "job.log")] if "job.log" in names else []
    return own + [Log(str(rank), attempt / f"node-{rank}.log") for rank in ranks]


def tail(path: Path, lines: int | None) -> tuple[bytes, int]:
    """The last `lines` lines (all for None) and the offset up to which was read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if lines is None:
                file.seek(0)
                data = file.read()
                return data, len(data)
            block, data = size, b""
            while block > 0 and data.count(b"\n") <= lines:
                step = min(1 << 16, block)
                block -= step
                file.seek(block)
                data = file.read(step) + data
            # at line feeds alone: a progress bar's carriage returns make no lines
            kept = io.BytesIO(data).readlines()[-lines:] if lines else []
            return b"".join(kept), size
    except OSError:
        return b"", 0


def follow(
    run: Run, attempt: Path, ended: Callable[[], bool], offsets: dict[str, int], *, later: bool = False
) -> Iterator[tuple[str, bytes]]:
    """What is appended to the attempt's logs after `offsets`, as (label, whole lines), until the run has ended.

    later: go on with the next attempt when there is one.
    """
    rest: dict[str, bytes] = {}
    while True:
        attempts = run.attempts() if later else []
        # before the question: a run that ended in between has all of its attempts
        over = ended()
        following = [path for path in attempts if int(path.name) > int(attempt.name)]
        for log in logs_of(attempt):
            data = _after(log.path, offsets.get(log.label, 0))
            offsets[log.label] = offsets.get(log.label, 0) + len(data)
            data = rest.pop(log.label, b"") + data
            whole, newline, part = data.rpartition(b"\n")
            if over or following:
                whole, newline, part = data, b"", b""
            if part:
                rest[log.label] = part
            if whole or newline:
                yield log.label, whole + newline
        if following:
            attempt, rest = following[0], {}
            offsets.clear()
            continue
        if over:
            return
        time.sleep(POLL_SECONDS)


def _after(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except OSError:
        return b""
