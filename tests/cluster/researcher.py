"""A researcher on a login host of a test cluster: her site file, her experiments, her runs."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cluster.harness import Cluster
from cluster.harness.enter import IDS
from cluster.harness.tools import until

OVERLAY = "/opt/tuneplane/tests/catalog_overlay"
TOYS = "/opt/tuneplane/tests/catalog_toy"
SYSTEM_PATH = ["/usr/local/bin", "/usr/bin", "/bin"]
LIVE = ("queued", "running", "uncertain")

_number = itertools.count(1)


def yaml(value: Any) -> str:
    """JSON is YAML once the one character is escaped that JSON lets stand."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f")


class Said(NamedTuple):
    """What one command left."""

    code: int
    out: str
    err: str


class Researcher:
    """A user with a folder of her own on the shared filesystem, oddly named, as people's folders are.

    `root` is that folder as the hosts see it; experiments lie in it, runs in its `runs`. The site has the runtime
    `host` unless `images` are given or another one is named; `site` are more keys of the site file.
    """

    def __init__(
        self,
        cluster: Cluster,
        user: str = "alice",
        host: str = "login",
        runtime: str = "",
        images: Mapping[str, str] | None = None,
        slurm: Mapping[str, Any] | None = None,
        **site: Any,
    ) -> None:
        self.cluster, self.user, self.host = cluster, user, host
        self.root = f'/shared/home/{user}/it\'s {next(_number)} "o$(dd)" é'
        self.folder(self.root).mkdir()
        self._own(self.folder(self.root))
        self.site = {
            "schema": 1,
            "title": {"en": "Test cluster"},
            "scheduler": "slurm",
            "slurm": {
                "options": {name: {} for name in ("account", "qos", "nodelist", "exclude", "begin")}
                | {"partition": {"default": "gpu"}}
            }
            | dict(slurm or {}),
            "runtime": {"kind": runtime or ("apptainer" if images else "host"), "gpu": "none"}
            | ({"images": dict(images)} if images else {}),
            "folders": {
                "runs": f"{self.root}/runs",
                "secrets": "/shared/home/{user}/.config/tuneplane/secrets.env",
            },
            "network": {"interface": "eth0"},
            "profiles": {
                "h200": {"gpus_per_node": 8, "gpu_type": "h200", "cpus_per_node": 16, "memory_per_gpu": "2G"},
                "cpu": {"cpus_per_node": 2, "processes_per_node": 2, "memory": "4G", "exclusive": "never"},
                "one": {"cpus_per_node": 1, "memory": "1G", "exclusive": "never"},
            },
            "default_profile": "one:1",
            "default_time": "10m",
            "recipes": [OVERLAY],
        } | site
        self.write("site.yaml", yaml(self.site))

    # -- files ------------------------------------------------------------------------------------------

    def folder(self, path: str) -> Path:
        """A folder or file of the shared filesystem as this machine sees it; relative ones are in `root`."""
        inside = os.path.join(self.root, path) if not path.startswith("/") else path
        return self.cluster.shared / os.path.relpath(inside, "/shared")

    def _own(self, path: Path) -> None:
        os.chown(path, IDS[self.user], IDS[self.user])

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> str:
        """Write a file of hers, with its folders; gives its path as the hosts see it."""
        place = self.folder(path)
        for parent in [p for p in place.parents if not p.exists()][::-1]:
            parent.mkdir()
            self._own(parent)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
        place.chmod(mode)
        self._own(place)
        return os.path.join(self.root, path)

    def experiment(
        self,
        name: str,
        train: str = "",
        method: str = "custom/custom",
        config: Mapping[str, Any] | None = None,
        version: str = "",
    ) -> str:
        """A new experiment, with her own `train.sh` when there is text for one, and her own configuration."""
        said = self.tp(
            "new", name, "--method", method, *(["--framework-version", version] if version else [])
        )
        assert said.code == 0, said
        if train:
            self.write(f"{name}/train.sh", f"#!/bin/bash\n{train}\n")
        if config is not None:
            self.write(f"{name}/config.yaml", yaml(config))
        return name

    def wrapper(self, name: str, script: str) -> None:
        """A program in her `bin`, for sites whose `path` begins there (see `wrapped`)."""
        self.write(f"bin/{name}", f"#!/bin/bash\nreal=/usr/bin/{name}\n{script}\n", 0o755)

    def wrapped(self) -> list[str]:
        """A site's `path` with her `bin` first."""
        return [f"{self.root}/bin", *SYSTEM_PATH]

    def rewrite_site(self, **changes: Any) -> None:
        self.site |= changes
        self.write("site.yaml", yaml(self.site))

    # -- commands ---------------------------------------------------------------------------------------

    def tp(self, *args: str, through: Sequence[str] = (), host: str = "", timeout: float = 120) -> Said:
        """Run `tp` for her site; `through` are words before it (`env NAME=VALUE`, `srun`...)."""
        words = [*through, "tp", "--site", f"{self.root}/site.yaml", *args]
        done = self.cluster.run(host or self.host, words, user=self.user, cwd=self.root, timeout=timeout)
        return Said(done.returncode, done.stdout, done.stderr)

    def slurm(self, *argv: str) -> str:
        """What a command of Slurm says to her."""
        return str(self.cluster.run(self.host, argv, user=self.user).stdout)

    def submit(self, experiment: str, *options: str, **how: Any) -> str:
        """Submit and give the run's id; it must be taken."""
        said = self.tp("submit", experiment, *options, **how)
        assert said.code == 0, said
        return said.out.strip()

    def status(self, run: str) -> dict[str, Any]:
        said = self.tp("job", "status", run, "--json")
        assert said.code == 0, said
        found: dict[str, Any] = json.loads(said.out)
        return found

    def ended(self, run: str, timeout: float = 90) -> dict[str, Any]:
        """The run's status when it is over."""
        found: dict[str, Any] = until(
            lambda: (facts := self.status(run))["state"] not in LIVE and facts, f"{run} is over", timeout, 0.2
        )
        return found

    def running(self, run: str, timeout: float = 60) -> None:
        """Wait until the run's command runs on every node."""
        nodes = self.record(run)["plan"]["topology"]["nodes"]

        def started() -> bool:
            facts = self.status(run)
            assert facts["state"] in LIVE, facts
            phases = self.folder(f"runs/{run}/attempts/1/phases.jsonl")
            return phases.exists() and phases.read_text().count('"running"') == nodes

        until(started, f"{run} runs on {nodes} nodes", timeout, 0.1)

    def appears(self, run: str, *names: str, timeout: float = 120) -> None:
        """Wait until the run has written these files of its output folder."""
        places = [self.folder(f"runs/{run}/output/{name}") for name in names]

        def there() -> bool:
            if not (found := all(place.exists() for place in places)):
                facts = self.status(run)
                assert facts["state"] in LIVE, f"{facts}\n{self.log(run)}"
            return found

        until(there, f"{run} has written {', '.join(names)}", timeout, 0.3)

    def run(self, experiment: str, *options: str, timeout: float = 90) -> dict[str, Any]:
        """Submit, wait, and give the status."""
        return self.ended(self.submit(experiment, *options), timeout)

    def ls(self, **how: Any) -> list[dict[str, Any]]:
        said = self.tp("job", "ls", "--json", **how)
        assert said.code == 0, said
        found: list[dict[str, Any]] = json.loads(said.out)
        return found

    # -- what runs left ---------------------------------------------------------------------------------

    def record(self, run: str, name: str = "run.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.folder(f"runs/{run}/{name}").read_text())
        return found

    def exit(self, run: str, attempt: int = 1) -> dict[str, Any]:
        """The record of an attempt's end."""
        return self.record(run, f"attempts/{attempt}/exit.json")

    def attempts(self, run: str) -> list[int]:
        """The numbers of the attempts that have begun."""
        return sorted(int(place.name) for place in self.folder(f"runs/{run}/attempts").iterdir())

    def output(self, run: str, name: str) -> bytes:
        return self.folder(f"runs/{run}/output/{name}").read_bytes()

    def log(self, run: str) -> str:
        """All logs of the run, the job's and the nodes'."""
        files = sorted(self.folder(f"runs/{run}").glob("attempts/*/*.log"))
        return "".join(file.read_text(errors="replace") for file in files)

    def jobs(self) -> list[tuple[str, str]]:
        """(id, working folder) of every job of hers that Slurm knows, past ones too."""
        said = self.slurm("squeue", "--noheader", "--states=all", f"--user={self.user}", "--format=%A\x1f%Z")
        return [(job, place) for job, _, place in (line.partition("\x1f") for line in said.splitlines())]

    def runs(self) -> list[str]:
        """Ids of her runs, from the folders themselves."""
        place = self.folder("runs")
        return sorted(entry.name for entry in place.iterdir()) if place.exists() else []

    def assert_nothing_left(self, nodes: Sequence[str] = ()) -> None:
        """No process and no scratch folder of hers on any node."""
        for host in nodes or self.cluster.spec.compute:
            until(
                lambda host=host: not self.cluster.processes(host, self.user),  # type: ignore[misc]
                f"no process of {self.user} on {host}",
                10,
            )
            left = self.cluster.run(host, ["find", "/tmp", "-mindepth", "1", "-user", self.user]).stdout
            assert left == "", f"{host}: {left}"


def player(cluster: Cluster, runtime: str = "apptainer", **site: Any) -> Researcher:
    """A researcher at a site that has the test recipes, and counts ten seconds of silence as death."""
    network = {"interface": "eth0", "heartbeat": "10s"}
    return Researcher(cluster, runtime=runtime, **{"network": network, "recipes": [OVERLAY, TOYS]} | site)


DUMP = """
cat "/proc/$$/environ" >"$TUNEPLANE_OUTPUT_DIR/environ-$TUNEPLANE_NODE_RANK"
cat "/proc/$$/cmdline" >"$TUNEPLANE_OUTPUT_DIR/argv-$TUNEPLANE_NODE_RANK"
cat "/proc/$$/limits" >"$TUNEPLANE_OUTPUT_DIR/limits-$TUNEPLANE_NODE_RANK"
umask >"$TUNEPLANE_OUTPUT_DIR/umask-$TUNEPLANE_NODE_RANK"
"""
"""A `train.sh` that keeps what it was started with, byte for byte."""


def environ(data: bytes) -> dict[bytes, bytes]:
    """The variables of /proc/PID/environ."""
    return dict(entry.partition(b"=")[::2] for entry in data.split(b"\0") if entry)


def without(text: str, *names: str) -> str:
    """`text` with each of `names` replaced by a placeholder, as whole words."""
    for i, name in enumerate(names):
        text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", f"<{i}>", text)
    return text
