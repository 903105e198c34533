"""Running a program of `inside/` in an interpreter that has a framework."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).parents[1] / "inside"


@dataclass(frozen=True)
class Answer:
    """What upstream made of a command. values: at the keys asked for; changed: those that it changes after it has read
    them; computed: what its estimator and its correction make of the tensors they are called with; error: why it would
    not start; unchecked: what it would have needed to tell.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, list[float]] = field(default_factory=dict)
    error: str = ""
    unchecked: str = ""


class Program:
    """One process that answers until it is closed: to start takes it longer than to answer.

    path: a folder in front of the interpreter's own packages.
    """

    def __init__(self, python: Path, name: str, *words: str, path: Path | None = None) -> None:
        self.command = [str(python), str(INSIDE / name), *words]
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.environment = {**os.environ, **quiet, "PYTHONPATH": str(path or "")}
        self.lock = threading.Lock()
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        self.process: subprocess.Popen[str] | None = None

    def answers(self, requests: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """One for each request. Raises RuntimeError with what the process said when it ends instead."""
        with self.lock:
            if self.process is None:
                pipe = subprocess.PIPE
                self.process = subprocess.Popen(
                    self.command, env=self.environment, text=True, stdin=pipe, stdout=pipe, stderr=self.said
                )
            assert self.process.stdin and self.process.stdout
            print(json.dumps(requests), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            raise RuntimeError(f"{' '.join(self.command)} ended: {self.said.read()[-4000:]}")
        return [Answer(**answer) for answer in json.loads(line)]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()  # it ends by itself too, but what upstream started in it takes its time
            self.process.communicate()
        self.said.close()
