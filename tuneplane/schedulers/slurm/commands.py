"""Running Slurm's commands: a clean environment, a bound on the time, and text that cannot break a parser.

A user's SBATCH_*, SQUEUE_* and SLURM_* variables would change what the commands do and show: with SQUEUE_STATES and
SQUEUE_PARTITION set, running jobs vanish from squeue with status 0.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from tuneplane.schedulers.environment import clean_environment
from tuneplane.sites.model import Site

QUERY_SECONDS = 30


@dataclass(frozen=True)
class Answer:
    """What a command said. status: its exit status, None when it did not end in time or could not be started."""

    status: int | None
    out: str
    err: str

    @property
    def good(self) -> bool:
        return self.status == 0

    @property
    def last_words(self) -> str:
        """The last line of its errors, without the command's own prefix."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        if not lines:
            return "it did not answer in time" if self.status is None else f"it ended with {self.status}"
        return lines[-1].removeprefix("sbatch: ").removeprefix("error: ")


def ask(
    site: Site, argv: list[str], *, seconds: float = QUERY_SECONDS, cwd: str | None = None, text: str = ""
) -> Answer:
    """Run a command of Slurm from the site's PATH, with `text` as its standard input."""
    environment = {**clean_environment(), "PATH": ":".join(site.path)}
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv, env=environment, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        return Answer(None, "", f"cannot run {argv[0]}: {error.strerror}")
    with process:
        try:
            out, err = process.communicate(text.encode(), timeout=seconds)
        except subprocess.TimeoutExpired as late:
            _end(process)
            return Answer(None, (late.stdout or b"").decode(errors="replace"), "")
    return Answer(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command with all of its session: a wrapper's own child would go on and submit when nobody looks."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # one that left the session may still hold the pipes: what it says is not waited for
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def cluster_option(cluster: str) -> list[str]:
    """`-M` where the job is on a cluster that was named."""
    return [f"--clusters={cluster}"] if cluster else []
