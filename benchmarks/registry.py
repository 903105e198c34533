"""What a registry costs whoever submits: the handshake in a cold process, and many submitters at once.

    python benchmarks/registry.py [RUNS]

For 34 and 3,400 methods, each as large as a recipe with 60 parameters, prints the median over RUNS (default 15) cold
processes of the handshake (trust, newest serial, index, manifest, lock; all digests verified), once with the imports that
only it needs and once without, beside the start-up of `tp`. Then 64 submitters at once, again and again, while a publisher
publishes all the time: the errors (there are none) and the slowest of a hundred.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GOAL_MS = 50
SIZES = (34, 3400)
SUBMITTERS, SECONDS = 64, 10
PARAMETERS = 60

CHILD = """
import sys, time
begun = time.perf_counter()
import tuneplane.cli.main, tuneplane.cli.validate
started = time.perf_counter()
import tuneplane.prepare
from tuneplane.registry.admission import published
from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.experiment.lock import admit, read_lock
from tuneplane.experiment.locate import Experiment
from pathlib import Path
from tuneplane.sites.load import load_site
site, lock = load_site("local", sys.argv[1]), Path(sys.argv[2])
imported = time.perf_counter()
recipe = admit(read_lock(lock.read_bytes(), "lock"), published(site), Experiment("exp", lock.parent, "exp"))
done = time.perf_counter()
print(done - imported, started - begun)
"""


class Synthetic:
    """A catalog of `count` methods that differ in their name alone."""

    def __init__(self, count: int, word: str = "") -> None:
        from tuneplane.catalog.manifest import Manifest
        from tuneplane.documents.shape import construct

        doc = {
            "en": f"What this parameter does, in a sentence as long as they are {word}",
            "zh": "这个参数的作用，一句话说明",
        }
        kinds: Sequence[dict[str, Any]] = (
            {"type": "float", "range": "(0, 1]", "default": 0.5},
            {"type": "int", "range": "[1, inf)", "default": 8},
            {"type": "enum", "choices": ["one", "two", "three"], "default": "one"},
        )
        parameters = {
            f"parameter_{i}": {
                **kinds[i % 3],
                "doc": doc,
                "path": f"some.section.of.upstream.parameter_{i}",
                "group": "training",
            }
            for i in range(PARAMETERS)
        }
        versions = {
            f"0.{i}.0": {"runtime_id": f"synthetic-0.{i}.0", "requires": [f"synthetic==0.{i}.0"]}
            for i in range(4)
        }
        self.template = construct(
            Manifest,
            {"schema": 1, "name": "x", "version": "1.0.0", "title": doc, "summary": doc, "category": "synthetic",
             "requires": {"core": ">=0.1,<0.2"}, "framework": {"kind": "synthetic", "default": "0.1.0", "versions": versions},
             "launch": {"kind": "torchrun", "entry": {"module": "synthetic.train"}}, "config": {"style": "flags"},
             "data": {"kind": "text"}, "parameters": parameters},
        )  # fmt: skip
        self.names = [f"synthetic{i % 17}/method{i}" for i in range(count)]

    @property
    def entries(self) -> dict[str, Any]:
        from tuneplane.catalog.interface import Entry

        m = self.template
        return {
            name: Entry(name=name, title=m.title, summary=m.summary, category=m.category, data="text", default="0.1.0", versions=list(m.framework.versions))
            for name in self.names
        }  # fmt: skip

    def manifest(self, name: str) -> Any:
        return dataclasses.replace(self.template, name=name)

    def starter(self, name: str) -> dict[str, tuple[bytes, bool]]:
        return {"train.py": (f"# {name}\n".encode() * 50, False), "README.md": (b"read me\n", False)}


def publish(root: Path, count: int, word: str = "") -> Any:
    """A registry with a synthetic catalog, without waiting for the disk."""
    from tuneplane.registry.content import build
    from tuneplane.registry.layout import Registry
    from tuneplane.registry.refresh import refresh

    registry, catalog = Registry(root), Synthetic(count, word)
    refresh(registry, build(catalog, {"local": b"schema: 1\n"}))  # type: ignore[arg-type]
    return registry, catalog


def write_lock(folder: Path, catalog: Synthetic) -> Path:
    from tuneplane.catalog.recipe import resolve
    from tuneplane.experiment.lock import lock_text

    file = folder / "recipe.lock.json"
    file.write_text(lock_text(resolve(catalog.manifest(catalog.names[len(catalog.names) // 2]))))
    return file


def handshakes(root: Path, lock: Path, runs: int) -> tuple[float, float, float, int]:
    """Median milliseconds of the handshake, of the whole beyond start-up, and of start-up; and the index's bytes."""
    alone, whole, start = [], [], []
    for _ in range(runs + 1):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(root), str(lock)], check=True, capture_output=True, text=True
        )
        seconds, started = map(float, done.stdout.split())
        alone.append(seconds * 1000)
        start.append(started * 1000)
        whole.append(beyond(root, lock) * 1000)
    size = next(root.glob("catalogs/*/index.json")).stat().st_size
    return (*(statistics.median(times[1:]) for times in (alone, whole, start)), size)  # type: ignore[return-value]


REGISTRY_IMPORTS = CHILD.replace(
    "import tuneplane.prepare\n", "import tuneplane.prepare\nstarted = time.perf_counter()\n"
).replace("print(done - imported, started - begun)", "print(done - started)")


def beyond(root: Path, lock: Path) -> float:
    """Seconds from what `tp validate` imports without any registry to the end of the handshake."""
    done = subprocess.run(
        [sys.executable, "-c", REGISTRY_IMPORTS, str(root), str(lock)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def crowd(folder: Path) -> tuple[list[float], list[str], int]:
    """Seconds of each handshake of SUBMITTERS processes, what went wrong, and the number of publications meanwhile."""
    import multiprocessing

    from tuneplane.registry.content import build
    from tuneplane.registry.refresh import refresh

    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    root = folder / "crowd"
    registry, catalog = publish(root, SIZES[0], "0")
    contents = [build(Synthetic(SIZES[0], str(i)), {}) for i in range(8)]  # type: ignore[arg-type]
    lock = write_lock(folder, catalog)
    published = fork.Value("i", 0)

    def refreshing() -> None:
        while True:
            published.value += refresh(registry, contents[published.value % len(contents)]).made

    publisher = fork.Process(target=refreshing)
    publisher.start()
    until = time.monotonic() + SECONDS
    submitters = [fork.Process(target=_submit, args=(root, lock, until, results)) for _ in range(SUBMITTERS)]
    for submitter in submitters:
        submitter.start()
    times: list[float] = []
    errors: list[str] = []
    for _ in submitters:
        took, failed = results.get(timeout=120)
        times += took
        errors += failed
    for submitter in submitters:
        submitter.join()
    assert publisher.is_alive(), "the publisher gave up"
    publisher.kill()
    publisher.join()
    return times, errors, published.value


def _submit(root: Path, lock: Path, until: float, results: Any) -> None:
    from tuneplane.experiment.locate import Experiment
    from tuneplane.experiment.lock import admit, read_lock
    from tuneplane.registry.admission import published
    from tuneplane.sites.load import load_site

    # the publisher has a host of its own, as it were
    os.nice(5)
    took, failed = [], []
    while time.monotonic() < until:
        start = time.perf_counter()
        try:
            lock_read = read_lock(lock.read_bytes(), "lock")
            admit(lock_read, published(load_site("local", str(root))), Experiment("exp", lock.parent, "exp"))
        except Exception as error:
            failed.append(repr(error))
        took.append(time.perf_counter() - start)
    results.put((took, failed))


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        os.fsync = lambda _: None  # type: ignore[assignment]
        for count in SIZES:
            root = folder / str(count)
            _, catalog = publish(root, count)
            alone, whole, start, size = handshakes(root, write_lock(folder, catalog), runs)
            print(
                f"{count:5} methods, index {size / 1024:6.0f} KiB: handshake {alone:5.1f} ms, with its imports {whole:5.1f} ms, "
                f"start-up {start:5.1f} ms   goal {GOAL_MS} ms"
            )
        times, errors, published = crowd(folder)
        ninety_nine = sorted(times)[int(len(times) * 0.99)] * 1000
        print(
            f"{SUBMITTERS} submitters on {os.cpu_count()} cores, {published} publications in {SECONDS} s: {len(times)} handshakes, "
            f"{len(errors)} errors, median {statistics.median(times) * 1000:.1f} ms, p99 {ninety_nine:.0f} ms"
        )
        for error in sorted(set(errors)):
            print(json.dumps(error))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    main()
