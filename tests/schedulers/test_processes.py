"""Processes told apart from later ones of the same number, from zombies, and from those of other hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tuneplane.schedulers.processes import alive, boot_id, identity, start_ticks


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_process_lives_until_it_is_gone(child: subprocess.Popen[bytes]) -> None:
    who = identity(child.pid)
    assert who == {
        "pid": child.pid,
        "ticks": start_ticks(child.pid),
        "host": os.uname().nodename,
        "boot": boot_id(),
    }
    assert alive(who) is True
    child.kill()
    child.wait()
    assert alive(who) is False and start_ticks(child.pid) is None


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    who = identity(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert os.path.exists(f"/proc/{child.pid}") and alive(who) is False


def test_a_stopped_process_lives(child: subprocess.Popen[bytes]) -> None:
    import signal

    child.send_signal(signal.SIGSTOP)
    assert alive(identity(child.pid)) is True


@pytest.mark.parametrize(
    ("change", "life"),
    [({"ticks": 1}, False), ({"ticks": None}, False), ({"boot": "another"}, False), ({"host": "another"}, None), ({"host": "another", "boot": "x"}, None),
     ({"pid": None}, False), ({"pid": "1"}, False), ({"pid": 2**30}, False)],
)  # fmt: skip
def test_the_number_alone_is_no_identity(change: dict[str, Any], life: bool | None) -> None:
    assert alive({**identity(os.getpid()), **change}) is life


def test_what_is_no_identity_is_not_alive() -> None:
    assert alive({}) is None


def test_the_start_is_read_behind_any_name() -> None:
    """A program's name may hold spaces and parentheses, which field 2 of /proc/PID/stat shows as they are."""
    code = "import ctypes,time; ctypes.CDLL(None).prctl(15, b'a) S 1 (b', 0, 0, 0); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline()
        with open(f"/proc/{process.pid}/stat") as file:
            assert "(a) S 1 (b)" in file.read()
        ticks = start_ticks(process.pid)
        assert ticks is not None
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
        assert 0 <= uptime - ticks < 120 * os.sysconf("SC_CLK_TCK")
    finally:
        process.kill()
        process.wait()
