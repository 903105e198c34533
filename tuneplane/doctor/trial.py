"""A small run that tries what a large one needs, from the queue to the network between its nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.catalog.recipe import resolve
from tuneplane.errors import InputError
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.locate import LOCK_FILE
from tuneplane.experiment.lock import lock_text
from tuneplane.files import read_json
from tuneplane.in_force import catalog_of
from tuneplane.plan.inputs import Request
from tuneplane.runs.folder import Run, nodes_of
from tuneplane.schedulers import Wishes
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site
from tuneplane.submit import Ready, ready, submit

METHOD, NAME = "custom/custom", "tp-doctor"
TIME = "10m"
_SCRIPT = """#!/bin/bash
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" > /dev/null && pwd)
exec python3 -B "$here/allreduce.py"
"""


@dataclass(frozen=True)
class Node:
    """What a node of the trial said. said: None where it left nothing."""

    rank: int
    said: dict[str, Any] | None

    def line(self) -> str:
        """`node 1 (n2): the sum is right, 812 MB/s to the next node, 95 µs`."""
        if self.said is None:
            return f"node {self.rank}: no result"
        head = f"node {self.rank} ({self.said.get('host')})"
        if "bytes_per_second" not in self.said:
            return f"{head}: it ran"
        speed, late = float(self.said["bytes_per_second"]), float(self.said["latency_seconds"])
        return f"{head}: the sum is right, {speed / 1e6:.0f} MB/s to the next node, {late * 1e6:.0f} µs"


def start(
    named_site: NamedSite, profile: str | None, time: str | None, image: str | None
) -> tuple[Ready, Run]:
    """Submit the trial. Raises what a submission raises."""
    site = named_site.site
    asked = Request(profile=profile or two_nodes(site), time=time or TIME, image=image or _an_image(site))
    with _experiment(named_site) as folder:
        checked = ready(str(folder), named_site, asked, Wishes())
        return checked, submit(checked, Wishes())


def two_nodes(site: Site) -> str:
    """Two whole nodes of the site's default profile, or one where it gives no more."""
    name = site.default_profile.partition(":")[0]
    profile = site.profiles[name]
    nodes = 1 if profile.max_nodes == 1 else 2
    return f"{name}:{nodes * max(1, profile.gpus_per_node)}"


def _an_image(site: Site) -> str | None:
    """An image to try it in: any that the site file names and that is there. Raises InputError without one."""
    if site.runtime.kind == "host":
        return None
    for file in site.runtime.images.values():
        if Path(file).exists():
            return file
    raise InputError.of(
        "the site file names no image to try",
        "--image",
        "an image with Python and bash",
        "tp doctor --job --image FILE",
    )


@contextmanager
def _experiment(named_site: NamedSite) -> Iterator[Path]:
    """The experiment, for as long as it takes to freeze it."""
    recipe = resolve(catalog_of(named_site).manifest(METHOD), None)
    program = Path(__file__).with_name("allreduce.py").read_bytes()
    with tempfile.TemporaryDirectory(prefix="tp-") as place:
        folder = Path(place, NAME)
        folder.mkdir()
        (folder / CONFIG_FILE).write_text("# what `tp doctor --job` runs\n", encoding="utf-8")
        (folder / LOCK_FILE).write_text(lock_text(recipe), encoding="utf-8")
        (folder / "train.sh").write_text(_SCRIPT, encoding="utf-8")
        (folder / "allreduce.py").write_bytes(program)
        yield folder


def results(run: Run) -> list[Node]:
    """What each node said, by rank."""
    found = []
    for rank in range(nodes_of(run.plan)):
        said = read_json(run.folder / "output" / f"allreduce-{rank}.json")
        found.append(Node(rank, said if isinstance(said, dict) else None))
    return found
