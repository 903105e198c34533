"""`kill -9` of a publisher at every system call that changes the disk; needs strace.

The signal comes on entering a call, so each state between two calls is seen: those before the first and after the last
are the old and the new.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry.shelves import age_leftovers, backdate, chain, content, publish_all, read_word, strangers
from render.tools import lacking, program

from tuneplane.registry.courtesy import holder
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import history
from tuneplane.registry.refresh import refresh, rollback
from tuneplane.registry.removal import collect

pytestmark = pytest.mark.tools
PUBLISHER = Path(__file__).with_name("publisher.py")
CHANGING = "mkdir mkdirat rename renameat renameat2 link linkat unlink unlinkat rmdir symlink symlinkat write pwrite64 writev fchmod chmod fchmodat chown fchown ftruncate truncate fsync fdatasync utimensat".split()
DAY = 86400


class Scene:
    """A registry as it is before an act, the act, and what readers may find after it: the old or the new."""

    def __init__(self, place: Path, act: list[str], words: list[str], old: str, new: str) -> None:
        self.place, self.act, self.old, self.new = place, act, old, new
        self.before = Registry(place / "before")
        if words:
            publish_all(self.before, *words)
            for made in history(self.before):
                backdate(self.before, made.serial, 61 * DAY)
            if act == ["gc"] and old == "named":
                collect(self.before, 60 * DAY)
        self.taken = 0

    def copy(self) -> Registry:
        self.taken += 1
        made = Registry(self.place / f"{self.taken}")
        if self.before.root.exists():
            shutil.copytree(self.before.root, made.root)
        return made

    def traced(self, registry: Registry, *options: str) -> subprocess.CompletedProcess[str]:
        words = [program("strace"), "-f", "-o", str(self.place / "log"), *options]
        python = [sys.executable, "-B", str(PUBLISHER), str(registry.root), *self.act]
        return subprocess.run([*words, *python], capture_output=True, text=True, timeout=60)

    def positions(self) -> list[tuple[str, int]]:
        """Every call of the act that changes the disk: its name, and which one of that name."""
        done = self.traced(self.copy(), "-e", f"trace={','.join('?' + name for name in CHANGING)}")
        if "PTRACE" in done.stderr or "ptrace" in done.stderr:
            lacking(f"strace cannot trace here: {done.stderr.strip()[:200]}")
        assert done.returncode == 0, done.stderr
        counts: Counter[str] = Counter()
        found = []
        for line in (self.place / "log").read_text().splitlines():
            if match := re.match(r"\d+\s+(\w+)\(", line):
                counts[match[1]] += 1
                found.append((match[1], counts[match[1]]))
        return found

    def killed(self, name: str, number: int) -> Registry:
        registry = self.copy()
        done = self.traced(registry, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        assert done.returncode in (-9, 137), (name, number, done)
        return registry


def in_force(registry: Registry) -> str:
    return read_word(registry) if history(registry) else ""


def hold(scene: Scene, name: str, number: int) -> str:
    """What was in force right after the kill."""
    registry = scene.killed(name, number)
    found = in_force(registry)
    assert found in (scene.old, scene.new), (name, number)
    chain(registry)
    # the same act by the next run of cron, then a day later
    if scene.act[0] == "rollback":
        if found == scene.old:
            rollback(registry, None)
        assert not refresh(registry, content("b")).made
    elif scene.act[0] == "gc":
        collect(registry, 60 * DAY)
        collect(registry, 60 * DAY)
        assert not any((registry.catalog(content(word).digest) / "files").exists() for word in "ab")
    else:
        assert refresh(registry, content(scene.act[0])).made == (found == scene.old)
    assert in_force(registry) == scene.new and holder(registry) is None
    chain(registry)
    assert int(registry.current.read_text()) == len(history(registry))
    age_leftovers(registry.root)
    collect(registry, 60 * DAY)
    assert strangers(registry) == [], (name, number)
    shutil.rmtree(registry.root)
    return found


SCENES: dict[str, tuple[list[str], list[str], str, str]] = {
    "the first publication": (["c"], [], "", "c"),
    "a publication": (["c"], ["a", "b"], "b", "c"),
    "a publication again": (["a"], ["a", "b"], "b", "a"),
    "a publication without links": (["c", "without-links"], ["a", "b"], "b", "c"),
    "a rollback": (["rollback"], ["a", "b"], "b", "a"),
    "a removal that names": (["gc"], ["a", "b", "c"], "c", "c"),
    "a removal": (["gc"], ["a", "b", "c"], "named", "c"),
}


def scene(place: Path, name: str) -> Scene:
    act, words, old, new = SCENES[name]
    made = Scene(place, act, words, old, new)
    made.old = new if old == "named" else old
    return made


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not in the process that is killed."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    yield


def test_a_publisher_killed_here_and_there(tmp_path: Path) -> None:
    """Around what matters: the folder's rename, the claim, the pointer, the lock's end."""
    made = scene(tmp_path, "a publication")
    positions = made.positions()
    names = [name for name, _ in positions]
    link = next(i for i, name in enumerate(names) if name.startswith("link"))
    chosen = [len(positions) // 5, link - 4, link, link + 1, link + 4, len(positions) - 1]
    found = [hold(made, *positions[i]) for i in chosen]
    assert found == ["b", "b", "b", "c", "c", "c"]


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_a_publisher_killed_at_every_call_that_changes_the_disk(tmp_path: Path, name: str) -> None:
    made = scene(tmp_path, name)
    positions = made.positions()
    found = [hold(made, *position) for position in positions]
    print(
        f"{name}: killed at {len(positions)} calls, {found.count(made.old)} times the old was left in force"
    )
    assert len(positions) > 10 and found == sorted(found, key=lambda word: word == made.new)
