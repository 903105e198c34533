"""`kill -9` of `tp runtime register` at every system call that changes the disk; needs strace.

Readers see the old images or the new ones, and the same command again ends well without anybody's hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.test_kill import CHANGING
from image_files import sif, sqsh
from registry.images import rows
from registry.shelves import OWN, age_leftovers, strangers
from render.tools import lacking, program

from tuneplane.registry.layout import Registry
from tuneplane.registry.shelf import newest, runtime_ids
from tuneplane.registry.sweep import sweep

pytestmark = pytest.mark.tools
REGISTRAR = Path(__file__).with_name("registrar.py")
ID, SIF = "toy-2.0.0", "sif-x86_64"
SITE = """\
schema: 1
title: {{en: Here}}
scheduler: local
runtime: {{kind: apptainer}}
folders: {{runs: /runs, registry: "{root}"}}
publishers: {{uids: [{uid}]}}
profiles: {{cpu: {{cpus_per_node: 1}}}}
default_profile: cpu
default_time: 1h
"""


def register(word: str, *more: str) -> list[str]:
    return ["runtime", "register", ID, f"{word}.sif", "--no-probe", *more]


SCENES: dict[str, tuple[list[list[str]], list[str], dict[str, str], dict[str, str]]] = {
    "the first image": ([], register("a"), {}, {SIF: "a"}),
    "another image": ([register("a")], register("b", "--replace"), {SIF: "a"}, {SIF: "b"}),
    "without links": (
        [register("a")],
        [*register("b", "--replace"), "without-links"],
        {SIF: "a"},
        {SIF: "b"},
    ),
    "beside another": (
        [register("a")],
        ["runtime", "register", ID, "c.sqsh", "--no-probe", "--arch", "x86_64"],
        {SIF: "a"},
        {SIF: "a", "sqsh-x86_64": "c"},
    ),
    "retire": ([register("a")], ["runtime", "retire", ID], {SIF: "a"}, {}),
    "undo": ([register("a"), register("b", "--replace")], ["runtime", "undo", ID], {SIF: "b"}, {SIF: "a"}),
}
"""What was done before, what is killed, and what is in force before and after it."""


class Scene:
    """A registry as it is before an act, and processes that are killed in the middle of it."""

    def __init__(self, place: Path, name: str) -> None:
        earlier, self.act, self.old, self.new = SCENES[name]
        self.place = place
        self.images = place / "images"
        self.images.mkdir(parents=True)
        for word in "ab":
            (self.images / f"{word}.sif").write_bytes(sif(word.encode()))
        (self.images / "c.sqsh").write_bytes(sqsh(b"c"))
        self.root = place / "registry"
        (place / "site.yaml").write_text(SITE.format(root=self.root, uid=os.getuid()))
        self.registry = Registry(self.root, OWN)
        for words in earlier:
            done = self.run(words)
            assert done.returncode == 0, done.stderr
        if earlier:
            shutil.copytree(self.root, place / "before")

    def renew(self) -> None:
        """The registry as it was before; its path is the site's."""
        shutil.rmtree(self.root, ignore_errors=True)
        if (self.place / "before").exists():
            shutil.copytree(self.place / "before", self.root)

    def run(self, words: list[str], *tracer: str) -> subprocess.CompletedProcess[str]:
        python = [sys.executable, "-B", str(REGISTRAR), "--site", str(self.place / "site.yaml"), *words]
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.place / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run([*tracer, *python], cwd=self.images, env=environment, capture_output=True, text=True, timeout=60)  # fmt: skip

    def traced(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Without what the act starts: `unsquashfs` has calls of its own, in another order each time."""
        return self.run(self.act, program("strace"), "-y", "-o", str(self.place / "log"), *options)

    def positions(self) -> list[tuple[str, int]]:
        """Every call of the act that changes the registry: its name, and which one of that name."""
        self.renew()
        # once before, so that what the cache wants has been written
        self.run(self.act)
        self.renew()
        done = self.traced("-e", f"trace={','.join('?' + name for name in CHANGING)}")
        if "PTRACE" in done.stderr or "ptrace" in done.stderr:
            lacking(f"strace cannot trace here: {done.stderr.strip()[:200]}")
        assert done.returncode == 0, done.stderr
        counts: Counter[str] = Counter()
        found = []
        for line in (self.place / "log").read_text().splitlines():
            if match := re.match(r"(\w+)\(", line):
                counts[match[1]] += 1
                if str(self.root) in line:
                    found.append((match[1], counts[match[1]]))
        return found

    def killed(self, name: str, number: int) -> None:
        self.renew()
        done = self.traced("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        assert done.returncode in (-9, 137), (name, number, done)

    def in_force(self) -> dict[str, str]:
        found = newest(self.registry, ID)
        return {slot: Path(held.path).stem for slot, held in found.current.items()} if found else {}


def hold(scene: Scene, name: str, number: int) -> bool:
    """Kill it there; whether the new images were in force then."""
    scene.killed(name, number)
    found = scene.in_force()
    assert found in (scene.old, scene.new), (name, number, found)
    rows(scene.registry)
    assert set(runtime_ids(scene.registry)) <= {ID}
    # the same again, as an admin types it
    done = scene.run(scene.act)
    if found == scene.old:
        assert done.returncode == 0, (name, number, done.stderr)
    elif scene.act[1] == "register" and "--replace" not in scene.act:
        assert done.returncode == 5 and "has a" in done.stderr and "image already" in done.stderr
    elif scene.act[1] == "retire":
        assert done.returncode == 5 and "has no image in use" in done.stderr
    else:
        # one more record: replaced by itself, or undone further
        assert done.returncode == 0, (name, number, done.stderr)
    if scene.act[1] != "undo" or found == scene.old:
        assert scene.in_force() == scene.new, (name, number)
    rows(scene.registry)
    age_leftovers(scene.root)
    sweep(scene.registry)
    assert strangers(scene.registry) == [], (name, number)
    return found == scene.new


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not in the process that is killed."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    yield


def test_an_admin_killed_here_and_there(tmp_path: Path) -> None:
    """Among the first folders, and before and after the record's link."""
    scene = Scene(tmp_path / "a 'place'", "the first image")
    positions = scene.positions()
    names = [name for name, _ in positions]
    link = next(i for i, name in enumerate(names) if name.startswith("link"))
    assert [hold(scene, *positions[i]) for i in (link // 2, link, link + 1)] == [False, False, True]


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_an_admin_killed_at_every_call_that_changes_the_registry(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path / "a 'place'", name)
    positions = scene.positions()
    found = [hold(scene, *position) for position in positions]
    print(f"{name}: killed at {len(positions)} calls, {found.count(False)} times the old was left in force")
    assert len(positions) > 5 and found == sorted(found) and not found[0]
