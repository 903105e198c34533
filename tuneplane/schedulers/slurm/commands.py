"""Running Slurm's commands: a clean environment, a bound on the time, and text that cannot break a parser.

A user's SBATCH_*, SQUEUE_* and SLURM_* variables would change what the commands do and show: with SQUEUE_STATES and
SQUEUE_PARTITION set, running jobs vanish from squeue with status 0.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tuneplane.schedulers.environment import clean_environment
from tuneplane.sites.model import Site

QUERY_SECONDS = 30
SUBMIT_SECONDS = 120


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
    try:
        done = subprocess.run(
            argv,
            env=environment,
            cwd=cwd,
            input=text.encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", "")
    except OSError as error:
        return Answer(None, "", f"cannot run {argv[0]}: {error.strerror}")
    return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def cluster_option(cluster: str) -> list[str]:
    """`-M` where the job is on a cluster that was named."""
    return [f"--clusters={cluster}"] if cluster else []
