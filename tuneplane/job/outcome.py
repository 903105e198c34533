"""How a node ended, and how the run ended: what is written and what is said between the nodes."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, NamedTuple, Optional

# The exit code when the launch failed rather than the command: preflight, rendezvous, a lost node.
LAUNCH_FAILED = 125
# What a shell answers for a command that cannot be started.
COULD_NOT_START = 127


class Outcome(NamedTuple):
    """The end of one node.

    code: 128+n for a command killed by signal n; signal: its name or None; reason: one of exited, signal,
    stopped, lost, preflight, rendezvous, could-not-start; message: one sentence without a full stop.
    """

    code: int
    signal: Optional[str]
    reason: str
    message: str


class Verdict(NamedTuple):
    """The end of the run: of the first node that failed, or code 0 with no node."""

    code: int
    node: Optional[int]
    host: Optional[str]
    signal: Optional[str]
    reason: str
    message: str

    def because(self) -> str:
        """The verdict as the reason why another node was stopped."""
        where = (
            "" if self.node is None else f" on node {self.node}" + (f" ({self.host})" if self.host else "")
        )
        return f"stopped because of a failure{where}: {self.message}"


def verdict_of(node: Optional[int], host: Optional[str], outcome: Outcome) -> Verdict:
    """The verdict when `outcome` of `node` is the first failure."""
    return Verdict(outcome.code, node, host, outcome.signal, outcome.reason, outcome.message)


def launch_failure(reason: str, message: str) -> Outcome:
    """A failure of the launch itself."""
    return Outcome(LAUNCH_FAILED, None, reason, message)


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; numbers without a name, as real-time signals have, give `signal 40`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def of_wait_status(status: int) -> Outcome:
    """The outcome of a command from the status that `waitpid` gave for it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal_name(number)
        return Outcome(128 + number, name, "signal", f"the command was killed by {name}")
    code = os.WEXITSTATUS(status)
    return Outcome(code, None, "exited", f"the command ended with exit code {code}")


def read_outcome(data: Dict[str, Any]) -> Outcome:
    """An outcome as another node sent it; ValueError, KeyError or TypeError when it is not one."""
    name = data["signal"]
    return Outcome(
        int(data["code"]), None if name is None else str(name), str(data["reason"]), str(data["message"])
    )


def read_verdict(data: Dict[str, Any]) -> Verdict:
    """A verdict as it stands in a file or a message; ValueError, KeyError or TypeError when it is not one."""
    node, host = data["node"], data["host"]
    return verdict_of(
        None if node is None else int(node), None if host is None else str(host), read_outcome(data)
    )
