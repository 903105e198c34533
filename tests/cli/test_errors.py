"""How `tp` ends when something else goes wrong: a bug, a reader that has gone, Ctrl-C."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.world import Expected, World

from tuneplane import __version__

expected = Expected("errors")
KNOWN = {f"tp {__version__}, Python {platform.python_version()}": "tp and Python"}


@pytest.fixture
def broken(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which preparing an experiment has a bug."""

    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by\nzero")

    world.made()
    monkeypatch.setattr("tuneplane.prepare.find_experiment", bug)
    return world


def test_a_bug_exits_1_and_is_worth_pasting(broken: World) -> None:
    said = broken.tp(
        "validate", "exp", "--set", "hub_token=s3cr3t", "--set", "a=it's", "--", "--key", "s3cr3t"
    )
    expected(said, "a bug", broken, known={**KNOWN, f"{Path(__file__)}:{bug_line()} bug": "here"})


def bug_line() -> int:
    text = Path(__file__).read_text().splitlines()
    return text.index('        raise ZeroDivisionError("division by\\nzero")') + 1


def test_a_bug_shows_its_traceback_when_asked(broken: World) -> None:
    said = broken.tp("validate", "exp", TUNEPLANE_DEBUG="1")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("Traceback (most recent call last):\n")
    assert said.err.endswith(
        "ZeroDivisionError: division by\nzero\n"
        f"  report   tp {__version__}, Python {platform.python_version()}: tp validate exp\n"
        "  try      the same with TUNEPLANE_DEBUG=1\n"
    )
    assert "Traceback" not in broken.tp("validate", "exp", TUNEPLANE_DEBUG="0").err


def test_an_error_of_the_user_shows_its_traceback_when_asked(world: World) -> None:
    plain, debug = world.tp("validate", "none"), world.tp("validate", "none", TUNEPLANE_DEBUG="1")
    assert debug.code == plain.code == 3 and debug.err.endswith(plain.err)
    assert debug.err.startswith("Traceback (most recent call last):\n") and "Traceback" not in plain.err


def started(world: World, *words: str, **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tuneplane", *words],
        cwd=world.folder,
        env=world.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,  # type: ignore[call-overload]
    )


def test_a_reader_that_has_gone(world: World) -> None:
    """As in `tp compile exp | true`: nothing is said, and the pipe's other end decides."""
    world.made()
    for words in (["compile", "exp"], ["methods", "--json"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tuneplane", *words],
                cwd=world.folder,
                env=world.environment,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (0, b""), words


def test_ctrl_c_exits_130_and_the_run_goes_on(world: World) -> None:
    folder = world.made()
    (folder / "train.sh").write_text('until [ -e "$TUNEPLANE_OUTPUT_DIR/go" ]; do sleep 0.05; done\n')
    waiting = started(world, "submit", "exp", "--wait", start_new_session=True)
    assert waiting.stdout is not None and waiting.stderr is not None
    run = waiting.stdout.readline().decode().strip()
    assert waiting.stderr.readline().decode() == f"submitted exp: tp job logs {run} -f\n"
    assert waiting.stderr.readline().decode() in (f"{run}: running\n", f"{run}: queued\n")
    time.sleep(0.1)
    os.killpg(waiting.pid, signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (130, b"") and b"Traceback" not in err
    assert '"running"' in world.tp("job", "status", run, "--json").out
    (world.runs / run / "output/go").touch()
    assert world.tp("job", "wait", run).code == 0


def test_a_word_that_is_no_utf_8(world: World) -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"tuneplane", b"validate", b"\xff\xfe"],
        cwd=world.folder,
        env=world.environment,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: the argument `\\udcff\\udcfe` is not UTF-8 text\n"


def test_an_ascii_locale_prints_utf_8_all_the_same(world: World) -> None:
    world.made("实验")
    said = world.real("validate", "实验", LC_ALL="C", LANG="C")
    assert (said.code, said.err) == (0, "") and said.out.startswith("实验 is valid: ")
    said = world.real("validate", "实验", LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert said.code in (0, 2) and "Traceback" not in said.err and "a bug" not in said.err


def test_a_home_and_a_cache_that_cannot_be_written(world: World) -> None:
    """The cache costs only time when it is lost; the user's own folder may be missing."""
    world.made()
    whole = world.tp("compile", "exp")
    for place in ("/dev/null/none", "relative", "/proc/none"):
        assert world.tp("compile", "exp", XDG_CACHE_HOME=place) == whole


def test_without_home(world: World) -> None:
    world.made()
    environment = {key: value for key, value in world.environment.items() if key != "HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "tuneplane", "compile", "exp"],
        cwd=world.folder,
        env=environment,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
