"""The command of one node: started, watched, stopped, and everything it left behind ended."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Dict, Optional, Sequence

from tuneplane.job import processes
from tuneplane.job.outcome import COULD_NOT_START, Outcome, of_wait_status

# How long a process may take to vanish after SIGKILL: one that hangs in the kernel never does.
AFTER_KILL_SECONDS = 5.0


class CouldNotStart(Exception):
    """The program cannot be executed; the text says why."""

    def outcome(self) -> Outcome:
        """The end of a node whose command could not start."""
        return Outcome(COULD_NOT_START, None, "could-not-start", str(self))


class Command:
    """A running command in a session of its own."""

    def __init__(
        self, words: Sequence[str], folder: str, environment: Dict[str, str], log: int, grace: float
    ) -> None:
        """Start it, its output going straight to the descriptor `log`, or to ours when that is -1.

        Raises CouldNotStart. `grace` is how many seconds after TERM the rest gets KILL.
        """
        output = log if log >= 0 else None
        parent = os.getpid()
        try:
            self._process = subprocess.Popen(
                list(words),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if output is not None else None,
                start_new_session=True,
                preexec_fn=lambda: processes.die_with(parent),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CouldNotStart(f"the command `{words[0]}` could not start: {reason}") from error
        self._grace = grace
        self._status: Optional[int] = None
        self._kill_at: Optional[float] = None

    @property
    def stopping(self) -> bool:
        """Whether it, or what it left, has been asked to end."""
        return self._kill_at is not None

    def send(self, number: int) -> None:
        """Send a signal to the command and what is still in its group."""
        if self._status is None:
            try:
                os.killpg(self._process.pid, number)
            except OSError:
                return

    def stop(self, now: float) -> None:
        """Ask it to end with TERM; KILL follows after the grace. Asking again changes nothing."""
        if self._kill_at is None:
            self._kill_at = now + self._grace
            self.send(signal.SIGTERM)

    def poll(self, now: float) -> Optional[Outcome]:
        """How it ended, once nothing of it is left, or None."""
        self._collect()
        session = self._process.pid
        if self._status is None:
            if self._kill_at is None or now < self._kill_at:
                return None
            self.send(signal.SIGKILL)
            processes.kill(processes.left_of(session), signal.SIGKILL)
            if now > self._kill_at + AFTER_KILL_SECONDS:
                return Outcome(137, "SIGKILL", "signal", "the command did not vanish after SIGKILL")
            return None
        left = processes.left_of(session)
        if left and self._kill_at is None:
            self._kill_at = now + self._grace
            processes.kill(left, signal.SIGTERM)
        elif left and self._kill_at is not None and now >= self._kill_at:
            processes.kill(left, signal.SIGKILL)
        if left and self._kill_at is not None and now <= self._kill_at + AFTER_KILL_SECONDS:
            return None
        return of_wait_status(self._status)

    def destroy(self) -> None:
        """End all of it at once: for a supervisor that is about to leave."""
        self.send(signal.SIGKILL)
        processes.kill(processes.left_of(self._process.pid), signal.SIGKILL)
        self._collect()

    def _collect(self) -> None:
        """Reap everything: the command, and orphans that became our children."""
        for pid, status in processes.reap().items():
            if pid == self._process.pid:
                self._status = status
                # We waited for it in its place; without this it would warn that it is still running.
                self._process.returncode = status
