"""How long registered images take: registering one, checking that it is unchanged, and the check on each node.

    python benchmarks/runtime.py [MIB]

Writes a file of MIB (default 1024) random MiB and prints: the time that its registration reads, as a ratio to
`sha256sum` of the same file; a second check of the unchanged image, and one after `touch` that has been read before;
the whole of `tp runtime register` and of a second `tp runtime verify`; and `tp_check_image`, as each node runs it, on
that file and on a sparse one of 40 GB. The page cache holds what has been read, for all of them alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RUNS = 9
SPARSE = 40 * 10**9
CHECK_MS = 5
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


def median(act: Callable[[], object], runs: int = RUNS) -> float:
    """Median seconds of an act, the first time left out."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def write_image(file: Path, mib: int) -> None:
    """A SQSH, as far as its head goes, of so many MiB that nothing compresses."""
    from tests.image_files import sqsh

    with file.open("wb") as image:
        image.write(sqsh())
        for _ in range(mib):
            image.write(os.urandom(1 << 20))
    os.utime(file, ns=(10**18, 10**18))


def reading(file: Path) -> tuple[float, float]:
    """Seconds of `measure` and of sha256sum, by turns."""
    from tuneplane.runtimes.measure import measure

    ours, theirs = [], []
    for _ in range(4):
        ours.append(timed(lambda: measure(file)))
        theirs.append(
            timed(lambda: subprocess.run(["sha256sum", str(file)], check=True, capture_output=True))
        )
    return statistics.median(ours[1:]), statistics.median(theirs[1:])


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def checks(folder: Path, file: Path) -> tuple[float, float]:
    """Seconds of a second check of an image that looks as it was registered, and of one that was touched."""
    from tuneplane.registry.layout import Registry
    from tuneplane.registry.shelf import newest
    from tuneplane.runtimes.identity import trouble

    shelf = newest(Registry(folder / "registry"), "toy")
    assert shelf is not None
    (artifact,) = shelf.current.values()

    def check() -> None:
        assert trouble(artifact) == ""

    unchanged = median(check, 200)
    file.touch()
    check()
    return unchanged, median(check, 200)


def on_a_node(file: Path) -> float:
    """Seconds of `tp_check_image` in a shell that has been started."""
    from tuneplane.runtimes.measure import samples_of
    from tuneplane.runtimes.node_sh import CHECK_IMAGE_SH

    loop = 'a=${EPOCHREALTIME/./}; tp_check_image "$@" || exit 1; echo $((${EPOCHREALTIME/./} - a))'
    words = [str(file), str(file.stat().st_size), samples_of(file)]
    times = []
    for _ in range(RUNS):
        done = subprocess.run(
            ["/bin/bash", "-p", "-c", f"{CHECK_IMAGE_SH}\n{loop}", "bash", *words],
            check=True,
            capture_output=True,
            text=True,
        )
        times.append(int(done.stdout) / 1e6)
    return statistics.median(times[1:])


def main() -> None:
    """Print the table."""
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        file = folder / "toy.sqsh"
        write_image(file, mib)
        ours, theirs = reading(file)
        print(
            f"{mib} MiB are read in {ours:.2f} s, by sha256sum in {theirs:.2f} s: ratio {ours / theirs:.2f}   goal 1"
        )
        (folder / "site.yaml").write_text(SITE.format(root=folder / "registry", uid=os.getuid()))
        tp = [sys.executable, "-m", "tuneplane", "--site", str(folder / "site.yaml"), "runtime"]
        words = [*tp, "register", "toy", str(file), "--no-probe", "--arch", "x86_64"]
        seconds = timed(lambda: subprocess.run(words, check=True, capture_output=True))
        print(f"tp runtime register: {seconds:.2f} s, {seconds / theirs:.2f} x sha256sum")
        unchanged, touched = checks(folder, file)
        print(f"a second check of an unchanged image: {unchanged * 1000:.2f} ms   goal {CHECK_MS} ms")
        print(f"of one that was touched, and read since: {touched * 1000:.2f} ms   goal {CHECK_MS} ms")
        seconds = median(lambda: subprocess.run([*tp, "verify"], check=True, capture_output=True), 5)
        print(f"tp runtime verify of it: {seconds:.2f} s")
        print(f"tp_check_image of {mib} MiB on a node: {on_a_node(file) * 1000:.0f} ms")
        sparse = folder / "sparse"
        with sparse.open("wb") as holes:
            holes.truncate(SPARSE)
        print(f"tp_check_image of a sparse file of {SPARSE // 10**9} GB: {on_a_node(sparse) * 1000:.0f} ms")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    main()
