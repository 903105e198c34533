"""A world of its own for `tp`: a strange-named folder, a home, sites; and what a command said, compared whole."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.cli.main import run as run_tp

REPOSITORY = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).parent / "expected"
STRANGE = 'it\'s "odd" $(touch pwned) `x` 世界'
PATH_LENGTH = 160
CLEARED = ("TUNEPLANE_", "_TP_", "COMP_", "SLURM_", "SBATCH_", "XDG_", "LC_", "GIT_", "APPTAINER", "HF_")


@dataclass(frozen=True)
class Said:
    """What one command line left: exit code, stdout and stderr as bytes decoded strictly."""

    code: int
    out: str
    err: str


class World:
    """One isolated place. `folder` is where `tp` is started, `runs` where the `local` site keeps runs."""

    def __init__(self, place: Path, cache: Path) -> None:
        # a path of one length everywhere: tables are as wide as what stands in them
        root = place / "w".ljust(PATH_LENGTH - len(str(place)) - 1, "w")
        assert len(str(root)) == PATH_LENGTH, f"{place} is too long a path for these tests"
        self.root = root
        self.folder = root / STRANGE
        self.home = root / "home"
        self.config = root / "config"
        self.runs = self.home / ".local/share/tuneplane/runs"
        for folder in (self.folder, self.home, self.config / "tuneplane/sites"):
            folder.mkdir(parents=True)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(CLEARED)
        } | {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(cache),
            "XDG_CONFIG_HOME": str(self.config),
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def tp(self, *words: str, **environment: str) -> Said:
        """The command line run in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with self._inside(environment), _streams(out, err):
            code = run_tp(list(words))
        texts = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
        return Said(code, *texts)

    def real(self, *words: str, **environment: str) -> Said:
        """The same as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "tuneplane", *words],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def made(self, name: str = "exp", method: str = "custom/custom", *options: str) -> Path:
        """A new experiment."""
        said = self.tp(*options, "new", name, "--method", method)
        assert (said.code, said.err) == (0, ""), said
        return self.folder / name

    def site(self, name: str, base: str, **changes: Any) -> Path:
        """A site of the user: a bundled one with some keys replaced."""
        import yaml

        data = yaml.safe_load((REPOSITORY / "site-configs" / f"{base}.yaml").read_text())
        file = self.config / "tuneplane/sites" / f"{name}.yaml"
        file.write_text(yaml.safe_dump(data | changes, allow_unicode=True))
        return file

    def tree(self) -> dict[str, tuple[int, int]]:
        """Every file of this world outside the cache with its size and time of change."""
        found = {}
        for parent, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                status = os.lstat(os.path.join(parent, name))
                found[os.path.join(parent, name)] = (status.st_size, status.st_mtime_ns)
        return found

    @contextmanager
    def _inside(self, more: Mapping[str, str]) -> Iterator[None]:
        before, folder = dict(os.environ), os.getcwd()
        os.environ.clear()
        os.environ.update(self.environment | more)
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def _streams(out: io.TextIOWrapper, err: io.TextIOWrapper) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def normal(text: str, world: World, runs: tuple[str, ...] = ()) -> str:
    """`text` without what differs from world to world: its folders, digests, and the ids of `runs`.

    Equal digests stay equal and different ones different: the n-th of a text is `<sha256 n>`. Folders are equally
    long in all worlds, so columns are equally wide; where a long one makes them wider than a page it says so.
    """
    for place, name in ((world.folder, "<here>"), (world.root, "<root>"), (REPOSITORY, "<repo>")):
        text = text.replace(str(place), name)
    for run in runs:
        assert re.fullmatch(r".+-[a-km-z2-9]{8}", run), run
        text = text.replace(run[-9:], "-<id>")
    text = re.sub(r" {60,}", " <wide> ", text)
    seen: dict[str, int] = {}
    return _DIGEST.sub(lambda match: f"<sha256 {seen.setdefault(match[0], len(seen) + 1)}>", text)


def transcript(
    said: Said, world: World, runs: tuple[str, ...] = (), known: Mapping[str, str] | None = None
) -> str:
    """Exit code, stdout and stderr in one text that tells them apart, and whether they end in a newline.

    known: texts that differ from run to run, each of which must be there, and what stands for them.
    """
    parts = [f"exit {said.code}\n"]
    for value in known or {}:
        assert value in said.out + said.err, f"{value} is nowhere in {said}"
    for label, text in (("stdout", said.out), ("stderr", said.err)):
        for value, name in (known or {}).items():
            text = text.replace(value, f"<{name}>")
        if text:
            end = "" if text.endswith("\n") else "<no newline>\n"
            parts.append(f"-- {label}\n{normal(text, world, runs)}{end}")
    return "".join(parts)


def sections(file: str) -> dict[str, str]:
    """The transcripts of a file under `expected/` by name."""
    found: dict[str, str] = {}
    name = ""
    for line in (EXPECTED / f"{file}.txt").read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("===== "):
            name = line.removeprefix("===== ").removesuffix("\n")
            assert name not in found, f"{name} stands twice in {file}.txt"
            found[name] = ""
        else:
            found[name] += line
    return found


class Expected:
    """Compares what was said with the transcripts of one file, whole."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(
        self, said: Said, name: str, world: World, *runs: str, known: Mapping[str, str] | None = None
    ) -> None:
        assert transcript(said, world, runs, known) == self.section(name)

    def section(self, name: str) -> str:
        found = sections(self.file)
        assert name in found, f"expected/{self.file}.txt has no `===== {name}`"
        return found[name]


def lines(text: str) -> str:
    """An indented block of a test as a file's text."""
    return textwrap.dedent(text).lstrip("\n")
