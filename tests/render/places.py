"""Experiments whose scripts are started as a scheduler starts them, without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.world import World
from render.values import odd

from tuneplane.plan.inputs import Request
from tuneplane.prepare import prepare
from tuneplane.render.script import render
from tuneplane.runs.folder import create
from tuneplane.sites.load import load_site

SHOW = """\
printf "%s\\0" "$@" >"$TUNEPLANE_OUTPUT_DIR/args"
cat /proc/self/environ >"$TUNEPLANE_OUTPUT_DIR/environ"
cp "$TUNEPLANE_PARAMS" "$TUNEPLANE_OUTPUT_DIR/params.json"
"""
"""A `train.sh` that shows the words, variables and parameters that reached it."""
PYTHON = str(Path(sys.executable).parent)


class Run:
    """A run folder and the script started in it."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        self.script = script
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """As the scheduler does: the run folder is the working directory, the script has a session of its own."""
        self.process = subprocess.Popen(
            ["/bin/bash", "-p", "job.sbatch"],
            cwd=self.folder,
            env={"PATH": f"{PYTHON}:/usr/bin:/bin", "LANG": "C.UTF-8"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self.process

    def end(self) -> int:
        """The script's exit code; before its log is open it must have nothing to say."""
        assert self.process is not None
        said, _ = self.process.communicate(timeout=60)
        assert said == b""
        return self.process.returncode

    def go(self, **environment: str) -> int:
        self.start(**environment)
        return self.end()

    def file(self, name: str, attempt: int = 1) -> str:
        return (self.folder / "attempts" / str(attempt) / name).read_text()

    def record(self) -> dict[str, Any]:
        """What the script says of its end, less the times; a run that nothing cut short has nothing to say of a next one."""
        record = json.loads(self.file("exit.json"))
        assert record.pop("ended") >= record.pop("started") > 1_600_000_000
        kept = {name: record.pop(name) for name in ("attempt", "code", "decided_by", "signal")}
        verdict = record.pop("verdict")
        assert verdict is None or verdict["code"] == kept["code"]
        assert not any(record.values())
        return kept

    def log(self) -> str:
        return self.file("job.log")

    def wait_for(self, name: str) -> bytes:
        """The content of a file that the job writes whole, by a rename, into its output folder."""
        assert self.process is not None
        path = self.folder / "output" / name
        deadline = time.monotonic() + 30
        while not path.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        return path.read_bytes()


class Place(World):
    """A world with a site whose jobs keep all their files in it."""

    def __init__(self, root: Path, cache: Path, **changes: Any) -> None:
        super().__init__(root, cache)
        self.scratch = self.root / "scratch"
        self.scratch.mkdir()
        self.secrets = self.root / "secrets.env"
        self.here = self.place("here", "local", **changes)
        self.made_runs: list[Run] = []

    def place(self, name: str, base: str, **changes: Any) -> Path:
        folders = {
            "runs": str(self.root / "runs"),
            "scratch": str(self.scratch),
            "secrets": str(self.secrets),
        }
        return self.site(name, base, **{"folders": folders, **changes})

    def experiment(self, train: str, config: str = "", name: str = "exp") -> Path:
        """A `custom/custom` experiment: the shell text of its `train.sh` and its `config.yaml`."""
        folder = self.made(name)
        for file in folder.iterdir():
            if file.name not in ("config.yaml", "recipe.lock.json"):
                file.unlink()
        (folder / "train.sh").write_text("set -eu\n" + textwrap.dedent(train))
        (folder / "config.yaml").write_text(textwrap.dedent(config), encoding="utf-8")
        return folder

    def frozen(self, train: str, config: str = "", site: str = "here", **request: Any) -> Run:
        """The run folder of an experiment, written and handed to nobody."""
        return self.kept(str(self.experiment(train, config)), site, **request)

    def kept(self, experiment: str, site: str, **request: Any) -> Run:
        """The same of an experiment that is there."""
        with self._inside({}):
            prepared = prepare(experiment, load_site(site), Request(**request))
            described = prepared.named_site.site
            script = render(prepared.plan, described)
            made = create(described, prepared.plan, script, prepared.files, prepared.helper)
        run = Run(made.folder, script)
        self.made_runs.append(run)
        return run

    def end(self) -> None:
        """Nothing is left running, and nothing has evaluated the folder's name or a value."""
        for run in self.made_runs:
            if run.process is not None and run.process.poll() is None:
                os.killpg(run.process.pid, 9)
                run.process.wait()
        assert not list(self.root.rglob("pwned"))


def nodes_of(run: Run) -> str:
    """How many nodes its job has, as Slurm says it."""
    topology = json.loads((run.folder / "run.json").read_text())["plan"]["topology"]
    return str(topology["nodes"])


def environ(run: Run) -> dict[str, str]:
    """The variables that reached SHOW."""
    data = (run.folder / "output/environ").read_bytes().decode()
    return dict(item.split("=", 1) for item in data.split("\0")[:-1])


def yaml(text: str) -> str:
    """A double-quoted YAML scalar."""
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


def odd_config(
    count: int, seed: int, keep: Callable[[str], bool] = lambda text: True
) -> tuple[list[str], str]:
    """Odd values, and a configuration with each of them as a variable and as a word."""
    values = odd(count, seed, lambda text: len(text) < 1000 and keep(text))
    env = "".join(f"  TPTEST_{i}: {yaml(text)}\n" for i, text in enumerate(values))
    return values, f"env:\n{env}args:\n" + "".join(f"  - {yaml(text)}\n" for text in values)


def arrived(run: Run, values: list[str]) -> None:
    """SHOW saw the variables and words of `odd_config`, the words also among the parameters."""
    found = environ(run)
    assert [found[f"TPTEST_{i}"] for i in range(len(values))] == values
    assert (run.folder / "output/args").read_bytes() == "".join(f"{text}\0" for text in values).encode()
    assert json.loads((run.folder / "output/params.json").read_text())["args"] == values
