"""Supervisors as real processes that share one run folder, started from a helper folder as a submission makes it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tuneplane.runs.helper import helper

REPOSITORY = Path(__file__).resolve().parents[2]
# The shell that runs `helper/start`, for trying others: `bash --posix`, `busybox sh`.
SHELL = os.environ.get("TUNEPLANE_TEST_SHELL", "/bin/sh").split()
JOB_ID = "4711"
STRANGE = "run of 'the' \"é世\" $(touch pwned)"
TOOLS = "sh sleep date mv ln rm cat tr sed cut cksum grep uname tail setsid kill env printf touch echo true"


def build_helper(folder: Path) -> Path:
    """The helper folder of a run, made as a submission makes it."""
    helper().write(folder)
    return folder


@functools.cache
def old_python() -> str | None:
    """A Python 3.8, the oldest one that has to work: the interpreter itself, not a script that finds it."""
    candidates = [os.environ.get("TUNEPLANE_OLD_PYTHON"), shutil.which("python3.8")]
    candidates += [str(path) for path in Path.home().glob(".pyenv/versions/3.8.*/bin/python")]
    ask = "import sys; print(sys.version_info[:2] == (3, 8) and sys.executable or '')"
    for candidate in filter(None, candidates):
        answer = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip():
            return answer.stdout.strip()
    return None


class Run:
    """One attempt: its folder, its supervisors, and what they left."""

    def __init__(self, root: Path, flavour: str) -> None:
        self.root = root
        self.folder = root / STRANGE
        self.experiment = self.folder / "files"
        self.attempt = self.folder / "attempts" / "0"
        self.folder.mkdir(parents=True)
        self.helper = build_helper(self.folder / "helper")
        self.experiment.mkdir()
        self.attempt.mkdir(parents=True)
        (self.attempt / "canary").write_text("probe-1a2b 0\n")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.path = str(self._tools(flavour))

    def _tools(self, flavour: str) -> Path:
        """A PATH that has the interpreter of this flavour as `python3`, or none."""
        tools = self.root / "bin"
        tools.mkdir()
        for name in TOOLS.split():
            found = shutil.which(name, path="/usr/bin:/bin")
            if found:
                (tools / name).symlink_to(found)
        if flavour == "sh":
            return tools
        interpreter = sys.executable if flavour == "this" else old_python()
        if interpreter is None:
            pytest.skip("there is no Python 3.8 here; TUNEPLANE_OLD_PYTHON can name one")
        (tools / "python3").write_text(f'#!/bin/sh\nexec "{interpreter}" "$@"\n')
        (tools / "python3").chmod(0o755)
        return tools

    def start(
        self,
        *words: str,
        rank: int = 0,
        nodes: int = 1,
        options: tuple[str, ...] = (),
        before: str = ":",
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start the supervisor of one node, with times that suit a test; `before` is shell text run first."""
        given = {"--kind": "process", "--nodes": str(nodes), "--stop-grace": "3", "--heartbeat-bound": "6"}
        if nodes > 1:
            given |= {"--interface": "lo", "--rendezvous-timeout": "20"}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        inherited = {
            "PATH": self.path,
            "HOME": str(self.root),
            "TUNEPLANE_RUN_DIR": str(self.folder),
            "TUNEPLANE_RUN_ID": "probe-1a2b",
            "TUNEPLANE_ATTEMPT": "0",
            "TUNEPLANE_EXPERIMENT_DIR": str(self.experiment),
            "TUNEPLANE_NODE_RANK": str(rank),
            "TUNEPLANE_NODES": str(nodes),
            "SLURMD_NODENAME": f"n{rank}",
            "SLURM_JOB_ID": JOB_ID,
        }
        arguments = [word for pair in given.items() for word in pair]
        process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                f'{before}; exec "$@"',
                "sh",
                *SHELL,
                str(self.helper / "start"),
                *arguments,
                "--",
                *words,
            ],
            cwd=self.experiment,
            env=inherited | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.processes.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], seconds: float = 15) -> int:
        """The exit code of a supervisor, which must come within `seconds`."""
        return process.wait(timeout=seconds)

    def go(self, *words: str, **more: Any) -> int:
        """Start one node and wait for its end."""
        return self.end(self.start(*words, **more))

    def verdict(self) -> dict[str, Any]:
        first, second = (self.attempt / "verdict").read_text().splitlines()
        data = json.loads(second)
        assert int(first) == data["code"]
        return data

    def node(self, rank: int = 0) -> dict[str, Any]:
        return json.loads((self.attempt / f"node-{rank}.json").read_text())

    def log(self, rank: int = 0) -> str:
        return (self.attempt / f"node-{rank}.log").read_text()

    def phases(self, rank: int = 0) -> list[str]:
        """The milestones of a node so far."""
        path = self.attempt / "phases.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line["phase"] for line in map(json.loads, lines) if line["node"] == rank]

    def wait_for(self, path: Path | str, seconds: float = 10) -> Path:
        """Wait until a file that a command writes is there."""
        found = self.experiment / path
        self.until(lambda: found.exists() and found.stat().st_size > 0, seconds)
        return found

    @staticmethod
    def until(condition: Any, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.01)

    def close(self) -> None:
        killed = False
        for process in self.processes:
            if process.poll() is None:
                killed = True
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        assert not list(self.root.rglob("pwned"))
        assert not list(self.folder.rglob("__pycache__"))
        assert killed or not [path.name for path in self.attempt.glob(".*")]


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def running() -> Any:
    return is_running


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """A run whose nodes have the Python of this test."""
    made = Run(tmp_path, "this")
    yield made
    made.close()


@pytest.fixture(params=["this", "oldest", "sh"])
def any_run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A run with this Python, with the oldest one, and without any."""
    made = Run(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def bare_run(tmp_path: Path) -> Any:
    """A run in an image without Python."""
    made = Run(tmp_path, "sh")
    yield made
    made.close()


@pytest.fixture
def old_run(tmp_path: Path) -> Any:
    """A run with the oldest Python."""
    made = Run(tmp_path / "old", "oldest")
    yield made
    made.close()
