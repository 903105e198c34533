"""How a node ended, and how the run ended: what is written and what is said between the nodes."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, NamedTuple, Optional, Tuple

# The exit code when the launch failed rather than the command: preflight, rendezvous, a lost node.
LAUNCH_FAILED = 125
# What a shell answers for a command that cannot be started.
COULD_NOT_START = 127


class Outcome(NamedTuple):
    """The end of one node.

    code: 128+n for a command killed by signal n; signal: its name or None; reason: one of exited, signal,
    stopped, lost, preflight, rendezvous, could-not-start, server, ray; message: one sentence without a full stop;
    rank: the global rank of the process that failed first, where it is known; phase: the node's last one.
    """

    code: int
    signal: Optional[str]
    reason: str
    message: str
    rank: Optional[int] = None
    phase: Optional[str] = None


class Verdict(NamedTuple):
    """The end of the run: of the first node that failed, or code 0 with no node; `tail` ends that node's log."""

    code: int
    node: Optional[int]
    host: Optional[str]
    signal: Optional[str]
    reason: str
    message: str
    rank: Optional[int] = None
    phase: Optional[str] = None
    tail: Tuple[str, ...] = ()

    def because(self) -> str:
        """The verdict as the reason why another node was stopped."""
        where = (
            "" if self.node is None else f" on node {self.node}" + (f" ({self.host})" if self.host else "")
        )
        cause = "" if self.reason == "stopped" else f" because of a failure{where}"
        return f"stopped{cause}: {self.message}"


def verdict_of(node: Optional[int], host: Optional[str], outcome: Outcome) -> Verdict:
    """The verdict when `outcome` of `node` is the first failure."""
    code, name, reason, message, rank, phase = outcome
    return Verdict(code, node, host, name, reason, message, rank, phase)


def launch_failure(reason: str, message: str, phase: Optional[str] = None) -> Outcome:
    """A failure of the launch itself."""
    return Outcome(LAUNCH_FAILED, None, reason, message, phase=phase)


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; numbers without a name, as real-time signals have, give `signal 40`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def of_wait_status(status: int, what: str = "the command") -> Outcome:
    """The outcome of a program from the status that `waitpid` gave for it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal_name(number)
        return Outcome(128 + number, name, "signal", f"{what} was killed by {name}")
    code = os.WEXITSTATUS(status)
    return Outcome(code, None, "exited", f"{what} ended with exit code {code}")


def read_outcome(data: Dict[str, Any]) -> Outcome:
    """An outcome as another node sent it; ValueError, KeyError or TypeError when it is not one."""
    name, rank, phase = data["signal"], data.get("rank"), data.get("phase")
    return Outcome(
        int(data["code"]),
        None if name is None else str(name),
        str(data["reason"]),
        str(data["message"]),
        None if rank is None else int(rank),
        None if phase is None else str(phase),
    )


def read_verdict(data: Dict[str, Any]) -> Verdict:
    """A verdict as it stands in a file or a message; ValueError, KeyError or TypeError when it is not one.

    What a shell writes has neither rank, phase nor tail.
    """
    node, host = data["node"], data["host"]
    verdict = verdict_of(
        None if node is None else int(node), None if host is None else str(host), read_outcome(data)
    )
    return verdict._replace(tail=tuple(map(str, data.get("tail") or ())))
