"""The files of an attempt. Nothing here holds the environment or the arguments of the command.

A failure to write is said on stderr and never raised: the exit code must come through on a full disk too.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import Any, Dict, List, Optional

from tuneplane.job.failure import tail
from tuneplane.job.outcome import Outcome, Verdict, read_verdict

VERDICT = "verdict"
# The batch script creates it when the time limit or a preemption is near.
WARNING = "warning"
STOP = "stop"


class Records:
    """Writes what one node has to say into the folder of the attempt."""

    def __init__(self, folder: str, rank: Optional[int], host: str) -> None:
        self.folder = folder
        self.rank = rank
        self.host = host
        self.started = time.time()
        self.log = -1
        if rank is not None:
            self.log = self._open_log(f"node-{rank}.log")

    def _open_log(self, name: str) -> int:
        """A descriptor to append to, which the command gets as its output; -1 when it cannot be opened."""
        try:
            return os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            complain(f"cannot write {name}: {error.strerror}")
            return -1

    def log_path(self, rank: int) -> str:
        """Where the log of a node lies."""
        return os.path.join(self.folder, f"node-{rank}.log")

    def end_of_log(self) -> bytes:
        """The last 64 KiB of this node's log; empty when it cannot be read."""
        try:
            return os.pread(self.log, 65536, max(0, os.fstat(self.log).st_size - 65536))
        except OSError:
            return b""

    def say(self, text: str) -> None:
        """One line of the supervisor's own in the node's log."""
        if self.log >= 0:
            try:
                line = f"tuneplane: {_one_line(text)}\n".encode("utf-8", "backslashreplace")
                os.write(self.log, (b"\n" if self._inside_a_line() else b"") + line)
            except OSError as error:
                complain(f"cannot write the log of node {self.rank}: {error.strerror}; it would say: {text}")

    def _inside_a_line(self) -> bool:
        """Whether what the command wrote last has no end of line."""
        size = os.fstat(self.log).st_size
        return size > 0 and os.pread(self.log, 1, size - 1) != b"\n"

    def phase(self, node: int, phase: str, t: float, **more: Any) -> None:
        """Append one milestone; `t` in unix seconds. Only the head does this.

        Appends of several hosts to one file overwrite each other on NFS, so the others tell the head.
        """
        line = json.dumps({"t": round(t, 3), "node": node, "phase": phase, **more}) + "\n"
        try:
            handle = os.open(
                os.path.join(self.folder, "phases.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666
            )
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError as error:
            complain(f"cannot write phases.jsonl: {error.strerror}")

    def node(self, outcome: Outcome) -> None:
        """Write how this node ended."""
        if self.rank is not None:
            self.other_node(self.rank, self.host, self.started, outcome)

    def other_node(self, rank: int, host: str, started: float, outcome: Outcome) -> None:
        """Write how node `rank` ended: the head does so for one that is lost."""
        times = {"started": round(started, 3), "ended": round(time.time(), 3)}
        end = {"code": outcome.code, "signal": outcome.signal, "reason": outcome.reason}
        record = {"rank": rank, "host": host, **times, **end, "message": outcome.message}
        self.write_json(f"node-{rank}.json", record)

    def write_json(self, name: str, data: Dict[str, Any], mode: int = 0o666, lasting: bool = True) -> bool:
        """Write a file whole: under another name, flushed to the server, then renamed. False when it failed.

        One that is not `lasting` is soon written again, so nobody waits for the disk.
        """
        try:
            temporary = self._temporary(name, (json.dumps(data) + "\n").encode(), mode, lasting)
            try:
                os.replace(temporary, os.path.join(self.folder, name))
            except OSError:
                _remove(temporary)
                raise
        except OSError as error:
            complain(f"cannot write {name}: {error.strerror}")
            return False
        return True

    def claim(self, verdict: Verdict) -> Verdict:
        """Make `verdict` the verdict of the run unless there is one; returns the one that stands.

        By link, whose loser gets EPERM on some network filesystems and whose winner can be told EEXIST when
        the reply was lost: only what the file then holds counts. Where links do not work, by O_EXCL.
        The last lines of the log of the node that failed go with it.
        """
        if verdict.node is not None and verdict.code != 0:
            verdict = verdict._replace(tail=tuple(tail(self.log_path(verdict.node))))
        details = {k: v for k, v in verdict._asdict().items() if k != "code"}
        content = f"{verdict.code}\n{json.dumps({'code': verdict.code, **details})}\n".encode()
        path = os.path.join(self.folder, VERDICT)
        try:
            temporary = self._temporary(VERDICT, content, 0o666)
            try:
                _link_or_create(temporary, path, content)
            finally:
                _remove(temporary)
        except OSError as error:
            if not os.path.lexists(path):
                complain(f"cannot write the verdict: {error.strerror}; it would say: {verdict.message}")
        return self.verdict() or verdict

    def verdict(self) -> Optional[Verdict]:
        """The verdict that stands, or None. The folder is listed first: a lookup that failed is remembered
        by network filesystems for up to a minute, a listing is not."""
        try:
            if VERDICT not in self.present():
                return None
            with open(os.path.join(self.folder, VERDICT), encoding="utf-8") as file:
                return read_verdict(json.loads(file.read().partition("\n")[2]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def present(self) -> List[str]:
        """Names in the folder, by a listing as for the verdict; none where it cannot be listed."""
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def _temporary(self, name: str, content: bytes, mode: int, lasting: bool = True) -> str:
        path = os.path.join(self.folder, f".{name}.{os.getpid()}.{secrets.token_hex(6)}")
        try:
            _write(path, content, os.O_CREAT | os.O_EXCL, mode, lasting)
        except OSError:
            _remove(path)
            raise
        return path


def _link_or_create(source: str, path: str, content: bytes) -> None:
    try:
        os.link(source, path)
    except OSError:
        if os.path.basename(path) not in os.listdir(os.path.dirname(path)):
            _write(path, content, os.O_CREAT | os.O_EXCL, 0o666)


def _write(path: str, content: bytes, flags: int, mode: int, lasting: bool = True) -> None:
    """Write all of `content`; if `lasting`, have the server take it: quotas and full disks show at the latest then."""
    handle = os.open(path, os.O_WRONLY | flags, mode)
    try:
        while content:
            content = content[os.write(handle, content) :]
        if lasting:
            os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def complain(text: str) -> None:
    """One line on stderr, which is the output of the job itself."""
    try:
        os.write(2, f"tuneplane: {_one_line(text)}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def _one_line(text: str) -> str:
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text
    )
