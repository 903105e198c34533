"""What is looked at before a node joins: on real folders, files, limits and programs."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tuneplane.job.checks import preflight
from tuneplane.job.checks.preflight import Host, Needs, first_problem, readable

MUCH = 1 << 50


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Path]:
    """The folder of an attempt with its canary; what is looked at leaves nothing in it."""
    folder = tmp_path / "attempts/1"
    folder.mkdir(parents=True)
    (folder / "canary").write_text("run-1a 1\n")
    yield folder
    assert {path.name for path in folder.iterdir()} <= {"canary"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host with empty places of its own, and no program in its PATH."""
    for name in ("tmp", "shm", "dev/dri", "bin"):
        (tmp_path / name).mkdir(parents=True)
    places = [str(tmp_path / name) for name in ("tmp", "shm", "dev")]
    return Host("localhost", {"PATH": str(tmp_path / "bin")}, *places)


def ask(
    attempt: Path, host: Host, needs: Needs | None = None, nodes: int = 2, seconds: float = 20
) -> str | None:
    return first_problem(needs or Needs(), str(attempt), "run-1a", "1", nodes, host, seconds)


@contextmanager
def limit(which: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(which)
    resource.setrlimit(which, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def with_variables(host: Host, **variables: str) -> Host:
    return host._replace(environment={**host.environment, **variables})


# ---- the shared folder


def test_nothing_is_wrong(attempt: Path, host: Host) -> None:
    needs = Needs(scratch=1, shared_memory=1, run=1, inodes=1)
    assert ask(attempt, host, needs) is None
    assert first_problem(needs, str(attempt), "run-1a", "1", 2) is None, "on this host as it is"


def test_a_canary_that_comes_late(attempt: Path, host: Host) -> None:
    """Not there, then empty, then whole: as a filesystem that remembers may show it."""
    (attempt / "canary").unlink()
    began = time.monotonic()
    for seconds, text in ((0.3, ""), (0.6, "run-1a 1\n")):
        threading.Timer(seconds, (attempt / "canary").write_text, [text]).start()
    assert ask(attempt, host) is None
    assert 0.6 <= time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it shows no file `canary` there"),
        ("run-1a 2\n", "`canary` there says `run-1a 2`, not `run-1a 1`"),
        ("", "`canary` there says ``, not `run-1a 1`"),
    ],
)
def test_another_folder_than_the_jobs(
    attempt: Path, host: Host, monkeypatch: pytest.MonkeyPatch, content: str | None, said: str
) -> None:
    monkeypatch.setattr(preflight, "CANARY_SECONDS", 0.3)
    (attempt / "canary").unlink()
    if content is not None:
        (attempt / "canary").write_text(content)
    assert ask(attempt, host) == f"this node does not share `{attempt}` with the job: {said}"
    assert (ask(attempt, host, nodes=1) is None) == (content is None), "one node needs none"


def test_a_canary_that_cannot_be_read(attempt: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "CANARY_SECONDS", 0.3)
    gone = attempt / "gone"
    assert ask(gone, host, nodes=1) == f"cannot read `canary` in `{gone}`: No such file or directory"


def test_a_filesystem_that_hangs(attempt: Path, host: Host) -> None:
    """A pipe that nobody writes to: who opens it to read waits for ever."""
    (attempt / "canary").unlink()
    os.mkfifo(attempt / "canary")
    began = time.monotonic()
    said = ask(attempt, host, seconds=0.5)
    assert said == f"reading `canary` in `{attempt}` gave no answer within 0.5 s"
    assert time.monotonic() - began < 5
    (attempt / "canary").write_text("run-1a 1\n")
    for thread in threading.enumerate():
        if thread.daemon:
            thread.join(5)  # so that the one that waited writes its file before the test ends


def test_a_folder_that_cannot_be_written_to(attempt: Path, host: Host) -> None:
    with limit(resource.RLIMIT_FSIZE, 10):
        assert ask(attempt, host) == f"cannot write to `{attempt}` and read it back: File too large"
    said = ask(Path("/proc"), host, nodes=1)
    assert said is not None and said.startswith("cannot write to `/proc` and read it back: ")


# ---- space and limits


@pytest.mark.parametrize(
    ("needs", "where"),
    [
        (Needs(run=MUCH), "the run folder `{attempt}`"),
        (Needs(scratch=MUCH), "TMPDIR `{bin}`"),
        (Needs(shared_memory=MUCH), "{shm}"),
    ],
)
def test_too_little_space(attempt: Path, host: Host, tmp_path: Path, needs: Needs, where: str) -> None:
    host = with_variables(host, TMPDIR=str(tmp_path / "bin"))
    where = where.format(attempt=attempt, bin=tmp_path / "bin", shm=host.shared_memory)
    said = ask(attempt, host, needs)
    assert said is not None and said.startswith(f"{where} has ")
    assert said.endswith(" free, 1024 TiB are needed")


def _filesystem(
    monkeypatch: pytest.MonkeyPatch, path: str, free: int, inodes: int, files: int = 1000
) -> None:
    """Let `path` lie on a filesystem of 4 KiB blocks with so much free for users."""
    real = os.statvfs

    def statvfs(asked: str) -> Any:
        if asked != path:
            return real(asked)
        return os.statvfs_result((4096, 4096, 1 << 20, 1 << 20, free // 4096, files, files, inodes, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_sentences_about_space(attempt: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp, needs = host.tmp, Needs(scratch=256 << 20, run=1, inodes=1000)
    _filesystem(monkeypatch, tmp, 12 << 20, 5000)
    assert ask(attempt, host, needs) == f"{tmp} has 12 MiB free, 256 MiB are needed"
    _filesystem(monkeypatch, tmp, 256 << 20, 999)
    assert ask(attempt, host, needs) == f"{tmp} has 999 free inodes, 1000 are needed"
    _filesystem(monkeypatch, tmp, 256 << 20, 1000)
    assert ask(attempt, host, needs) is None
    _filesystem(monkeypatch, tmp, 256 << 20, 0, files=0)
    assert ask(attempt, host, needs) is None, "a filesystem that does not count files"
    _filesystem(monkeypatch, str(attempt), 1 << 20, 7)
    assert ask(attempt, host, needs) == f"the run folder `{attempt}` has 7 free inodes, 1000 are needed"


def test_a_filesystem_that_counts_nothing(attempt: Path, host: Host) -> None:
    assert os.statvfs("/proc").f_blocks == 0
    assert ask(attempt, host._replace(tmp="/proc"), Needs(scratch=MUCH)) is None


def test_places_that_are_not_there(attempt: Path, host: Host) -> None:
    missing = with_variables(host, TMPDIR="/no/such folder")
    assert ask(attempt, missing) is None, "nothing is asked of it"
    said = "the free space of TMPDIR `/no/such folder` cannot be told: No such file or directory"
    assert ask(attempt, missing, Needs(scratch=1)) == said
    assert ask(attempt, missing, Needs(inodes=1)) == said
    said = "the free space of /no/shm cannot be told: No such file or directory"
    assert ask(attempt, host._replace(shared_memory="/no/shm"), Needs(shared_memory=1)) == said


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("", None),
        ("65536", None),
        ("65537", "the limit of locked memory (`ulimit -l`) is 64 KiB, 65 KiB is needed"),
        ("unlimited", "the limit of locked memory (`ulimit -l`) is 64 KiB, unlimited is needed"),
    ],
)
def test_locked_memory(attempt: Path, host: Host, wanted: str, said: str | None) -> None:
    with limit(resource.RLIMIT_MEMLOCK, 65536):
        assert ask(attempt, host, Needs(memlock=wanted)) == said


@pytest.mark.parametrize(
    ("size", "down", "up"),
    [
        (0, "0 bytes", "0 bytes"),
        (1023, "1023 bytes", "1023 bytes"),
        (1024, "1 KiB", "1 KiB"),
        (1025, "1 KiB", "1.1 KiB"),
        ((256 << 20) - 1, "255 MiB", "256 MiB"),
        (3 << 29, "1.5 GiB", "1.5 GiB"),
        (1 << 52, "4096 TiB", "4096 TiB"),
    ],
)
def test_units(size: int, down: str, up: str) -> None:
    assert (readable(size), readable(size, up=True)) == (down, up)


# ---- GPUs


def test_gpus_are_counted_as_asked(attempt: Path, host: Host) -> None:
    """Each way sees another number."""
    for name in ("nvidia0", "nvidia1"):
        (Path(host.devices) / name).touch()
    tool = Path(host.environment["PATH"]) / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: of three'; echo 'GPU 1: '; echo 'GPU 2: '\n")
    tool.chmod(0o755)
    host = with_variables(host, CUDA_VISIBLE_DEVICES="GPU-1")
    for way, count in (("visible", 1), ("devices", 2), ("tool", 3)):
        for asked in (1, 2, 3, 0):
            said = ask(attempt, host, Needs(gpus=asked, gpu_count=way, gpu_vendor="nvidia"))
            assert (said is None) == (asked in (count, 0)), said
    assert ask(attempt, host, Needs(gpus=9, gpu_count="none", gpu_vendor="nvidia")) is None
    assert ask(attempt, host, Needs(gpus=9, gpu_count="visible", gpu_vendor="none")) is None


# ---- the name, and the order


def test_a_name_that_does_not_resolve(attempt: Path, host: Host) -> None:
    host = host._replace(name="n2.invalid")
    said = ask(attempt, host)
    assert said is not None
    assert said.startswith("the name `n2.invalid` of this host does not resolve: ")
    assert said.endswith(", so gloo and others cannot start")
    assert ask(attempt, host, nodes=1) is None


def test_a_name_server_that_does_not_answer(
    attempt: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    monkeypatch.setattr(preflight, "LOOKUP_SECONDS", 0.3)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: asked.wait(20))
    said = "looking up the name `localhost` of this host gave no answer within 0.3 s"
    assert ask(attempt, host) == said
    asked.set()


def test_the_order(attempt: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is wrong: mended one by one, each is said in its turn."""
    monkeypatch.setattr(preflight, "CANARY_SECONDS", 0.1)
    (attempt / "canary").unlink()
    host = host._replace(name="n2.invalid")
    needs = Needs(MUCH, MUCH, MUCH, MUCH, str(1 << 62), 1, "devices", "nvidia")
    with limit(resource.RLIMIT_MEMLOCK, 65536):
        said = [ask(attempt, host, needs)]
        (attempt / "canary").write_text("run-1a 1\n")
        for mended in ("run", "inodes", "scratch", "shared_memory", "memlock", "gpus"):
            said.append(ask(attempt, host, needs))
            needs = needs._replace(**{mended: "" if mended == "memlock" else 0})
        said.append(ask(attempt, host, needs))
    parts = [
        "no file `canary`",
        "the run folder",
        "free inodes",
        "tmp has",
        "shm has",
        "`ulimit -l`",
        "1 asked for",
    ]
    for sentence, part in zip(said, [*parts, "does not resolve"], strict=True):
        assert sentence is not None and part in sentence and not sentence.endswith(".")


def test_a_check_that_fails_is_a_problem() -> None:
    def broken() -> None:
        raise ValueError("no")

    assert preflight.within(5, [("looking", broken)]) == "looking failed: ValueError('no')"
    assert preflight.within(5, []) is None
