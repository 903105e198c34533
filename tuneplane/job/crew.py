"""The programs of one node: started, watched, stopped, and everything they left behind ended."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Dict, List, Optional, Sequence

from tuneplane.job import processes
from tuneplane.job.outcome import COULD_NOT_START, Outcome, of_wait_status

# How long a process may take to vanish after SIGKILL: one that hangs in the kernel never does.
AFTER_KILL_SECONDS = 5.0


class CouldNotStart(Exception):
    """A program cannot be executed, or what it needs is not there; the text says why."""

    def __init__(self, why: str, code: int = COULD_NOT_START, reason: str = "could-not-start") -> None:
        super().__init__(why)
        self._code, self._reason = code, reason

    def outcome(self) -> Outcome:
        """The end of a node whose program could not start."""
        return Outcome(self._code, None, self._reason, str(self))


class Crew:
    """Named programs, each in a session of its own, whose output goes to the node's log."""

    def __init__(self, folder: str, log: int, grace: float) -> None:
        """They start in `folder`; `log` is a descriptor, or -1 for our own output; `grace` is how many seconds
        after TERM what is left gets KILL."""
        self._folder, self._log = folder, log
        self.grace = grace
        self._members: Dict[str, "subprocess.Popen[bytes]"] = {}
        self._status: Dict[str, int] = {}
        self._kill_at: Optional[float] = None
        self._swept = False

    def start(self, name: str, words: Sequence[str], environment: Dict[str, str]) -> None:
        """Start a program, called `name` here and in messages. Raises CouldNotStart."""
        output = self._log if self._log >= 0 else None
        parent = os.getpid()
        try:
            self._members[name] = subprocess.Popen(
                list(words),
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=lambda: processes.die_with(parent),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CouldNotStart(f"the {name} `{words[0]}` could not start: {reason}") from error

    @property
    def stopping(self) -> bool:
        """Whether what is left has been asked to end."""
        return self._kill_at is not None

    def has(self, name: str) -> bool:
        """Whether such a program was started."""
        return name in self._members

    def pid(self, name: str) -> Optional[int]:
        """The process of a program that runs, or None."""
        return self._members[name].pid if name in self._members and name not in self._status else None

    def end(self, name: str) -> Optional[Outcome]:
        """How a program ended, or None while it runs or was not started."""
        status = self._status.get(name)
        return None if status is None else of_wait_status(status, f"the {name}")

    def collect(self) -> None:
        """Reap everything: the programs, and orphans that became our children."""
        names = {member.pid: name for name, member in self._members.items()}
        for pid, status in processes.reap().items():
            if pid in names and names[pid] not in self._status:
                self._status[names[pid]] = status
                # We waited for it in its place; without this it would warn that it is still running.
                self._members[names[pid]].returncode = status

    def send(self, name: str, number: int) -> None:
        """Send a signal to a program that runs, and to what is in its group."""
        pid = self.pid(name)
        if pid is not None:
            try:
                os.killpg(pid, number)
            except OSError:
                return

    def stop(self, now: float, grace: Optional[float] = None) -> None:
        """Ask all to end with TERM; KILL follows after the grace. Asking again can only shorten it."""
        until = now + (self.grace if grace is None else grace)
        if self._kill_at is None:
            for name in self._members:
                self.send(name, signal.SIGTERM)
        self._kill_at = until if self._kill_at is None else min(self._kill_at, until)

    def gone(self, now: float) -> bool:
        """End what is left; whether nothing is, or what is will not vanish."""
        left = self._left()
        if not left:
            return True
        if self._kill_at is None:
            self.stop(now)
        running = [name for name in self._members if name not in self._status]
        if not running and not self._swept:
            # What the programs themselves did not end.
            self._swept = True
            processes.kill(left, signal.SIGTERM)
        if self._kill_at is None or now < self._kill_at:
            return False
        self.kill()
        return now > self._kill_at + AFTER_KILL_SECONDS

    def forget(self, name: str) -> None:
        """End what a program left, so that it can be started anew."""
        self.kill()
        self._members.pop(name, None)
        self._status.pop(name, None)

    def kill(self) -> None:
        """Send KILL to all of it."""
        for name in self._members:
            self.send(name, signal.SIGKILL)
        processes.kill(self._left(), signal.SIGKILL)

    def destroy(self) -> None:
        """End all of it at once: for a supervisor that is about to leave."""
        self.kill()
        self.collect()

    def _left(self) -> List[int]:
        """The processes that still live; where /proc does not tell, at least the programs themselves."""
        sessions = {member.pid for member in self._members.values()}
        running = {member.pid for name, member in self._members.items() if name not in self._status}
        return sorted(running | set(processes.left_of(sessions)))
