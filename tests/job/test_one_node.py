"""One node, with this Python, with Python 3.8 and with the shell alone: the same files say the same."""

from __future__ import annotations

import json
import resource
import signal
import stat
import time

import pytest


def test_success(any_run):
    assert any_run.go("sh", "-c", "echo out; echo err >&2") == 0
    record = any_run.node()
    assert {k: record[k] for k in ("rank", "host", "code", "signal", "reason", "message")} == {
        "rank": 0,
        "host": "n0",
        "code": 0,
        "signal": None,
        "reason": "exited",
        "message": "the command ended with exit code 0",
    }
    assert abs(record["ended"] - time.time()) < 10 and record["started"] <= record["ended"]
    verdict = any_run.verdict()
    assert (verdict["code"], verdict["node"], verdict["host"], verdict["reason"]) == (0, None, None, "exited")
    lines = [line for line in any_run.log().splitlines() if not line.startswith("tuneplane: ")]
    assert lines == ["out", "err"]
    assert [p for p in any_run.phases() if p not in ("preflight", "rendezvous")] == [
        "started",
        "running",
        "ended",
    ]


@pytest.mark.parametrize(
    ("words", "code", "name", "reason", "message"),
    [
        (["sh", "-c", "exit 7"], 7, None, "exited", "the command ended with exit code 7"),
        (["sh", "-c", "kill -9 $$"], 137, "SIGKILL", "signal", "the command was killed by SIGKILL"),
        (["sh", "-c", "kill -SEGV $$"], 139, "SIGSEGV", "signal", "the command was killed by SIGSEGV"),
        (
            ["no-such-program"],
            127,
            None,
            "could-not-start",
            "the command `no-such-program` could not start: ",
        ),
        (
            ["./not-executable"],
            127,
            None,
            "could-not-start",
            "the command `./not-executable` could not start: ",
        ),
    ],
)
def test_failures(any_run, words, code, name, reason, message):
    (any_run.experiment / "not-executable").write_text("#!/bin/sh\n")
    process = any_run.start(*words)
    assert any_run.end(process) == code
    for found in (any_run.node(), any_run.verdict()):
        assert (found["code"], found["signal"], found["reason"]) == (code, name, reason)
        assert found["message"].startswith(message)
        assert found["host"] == "n0"
    assert any_run.verdict()["node"] == 0
    assert message in process.stdout.read().decode()
    assert message in any_run.log()
    assert any_run.phases()[0] == "started" and any_run.phases()[-1] == "ended"


def test_environment_of_the_command(any_run):
    (any_run.experiment / "show.sh").write_text(
        "for n in TUNEPLANE_HEAD_ADDRESS TUNEPLANE_HEAD_PORT PYTHONPATH PYTHONDONTWRITEBYTECODE RANK MASTER_ADDR X; do\n"
        '  eval "v=\\${$n-unset}"; printf "%s=%s\\n" "$n" "$v"\ndone; pwd\n'
    )
    odd = "a b;$(touch pwned)\n'\"é"
    assert any_run.go("sh", "show.sh", X=odd, RANK="3", MASTER_ADDR="n9", PYTHONPATH="/some/where") == 0
    shown = any_run.log()
    assert "TUNEPLANE_HEAD_ADDRESS=127.0.0.1\n" in shown
    assert f"PYTHONPATH={any_run.helper}:/some/where\n" in shown
    assert "PYTHONDONTWRITEBYTECODE=1\n" in shown
    assert "RANK=unset\nMASTER_ADDR=unset\n" in shown
    assert f"X={odd}\n" in shown
    assert f"\n{any_run.experiment}\n" in shown
    port = int(shown.partition("TUNEPLANE_HEAD_PORT=")[2].split("\n")[0])
    assert 10000 < port < 61000


def test_the_supervisor_speaks_on_lines_of_its_own(any_run):
    assert any_run.go("sh", "-c", "printf 'no end of line'; exit 7") == 7
    assert "no end of line\ntuneplane: the command ended with exit code 7\n" in any_run.log()
    assert "\n\n" not in any_run.log()


def test_home_comes_under_another_name(any_run):
    assert any_run.go("sh", "-c", 'printf "<%s>" "$HOME"', TUNEPLANE_HOME="/scr atch/home") == 0
    assert "</scr atch/home>" in any_run.log()


def test_arguments_arrive_as_they_are(any_run):
    words = ["a b", "", "$(touch pwned)", "'\"\\", "é\n世", "--", "--python", "*"]
    assert any_run.go("sh", "-c", 'for w; do printf "<%s>" "$w"; done', "sh", *words) == 0
    assert "".join(f"<{word}>" for word in words) in any_run.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop(any_run, number):
    process = any_run.start("sh", "-c", "echo $$ >up; exec sleep 60")
    any_run.wait_for("up")
    began = time.monotonic()
    process.send_signal(number)
    process.send_signal(number)
    assert any_run.end(process) == 143
    assert time.monotonic() - began < 1.9
    record = any_run.node()
    assert (record["code"], record["signal"], record["reason"]) == (143, "SIGTERM", "stopped")
    assert record["message"] == f"told to stop by {number.name}; the command was killed by SIGTERM"
    assert any_run.verdict()["reason"] == "stopped"


def test_a_command_that_ends_well_when_told_to_stop_has_still_been_stopped(any_run):
    process = any_run.start(
        "sh", "-c", "trap 'echo saved; exit 0' TERM; echo up >up; while :; do sleep 0.05; done"
    )
    any_run.wait_for("up")
    process.terminate()
    assert any_run.end(process) == 143
    assert "saved" in any_run.log()
    record = any_run.node()
    assert (record["code"], record["signal"], record["reason"]) == (143, None, "stopped")


def test_a_command_that_ignores_term_is_killed_after_the_grace(any_run):
    process = any_run.start(
        "sh", "-c", "trap '' TERM; echo up >up; while :; do sleep 0.05; done", options=("--stop-grace", "1")
    )
    any_run.wait_for("up")
    began = time.monotonic()
    process.terminate()
    time.sleep(0.2)
    process.terminate()
    assert any_run.end(process) == 137
    assert 0.9 < time.monotonic() - began < 3
    assert any_run.node()["message"] == "told to stop by SIGTERM; the command was killed by SIGKILL"


def test_what_the_command_leaves_behind_ends_with_it(any_run, running):
    assert any_run.go("sh", "-c", "sleep 60 & echo $! >left; exit 7") == 7
    left = int(any_run.wait_for("left").read_text())
    any_run.until(lambda: not running(left), 1)


def test_what_left_the_session_ends_too(run, running):
    assert (
        run.go(
            "sh",
            "-c",
            "setsid setsid sh -c 'trap \"\" TERM; echo $$ >left; sleep 60; sleep 60' & sleep 0.3",
            options=("--stop-grace", "0.5"),
        )
        == 0
    )
    left = int(run.wait_for("left").read_text())
    assert not running(left)


def test_the_command_dies_with_a_killed_supervisor(run, running):
    process = run.start("sh", "-c", "echo $$ >up; exec sleep 60")
    pid = int(run.wait_for("up").read_text())
    process.kill()
    run.until(lambda: not running(pid), 2)


def test_user_signals_reach_the_command(run):
    process = run.start("sh", "-c", "trap 'exit 42' USR1; echo up >up; while :; do sleep 0.05; done")
    run.wait_for("up")
    process.send_signal(signal.SIGUSR1)
    assert run.end(process) == 42


@pytest.mark.parametrize("flavour", ["run", "old_run"])
def test_names_in_the_users_folder_shadow_nothing(flavour, request):
    run = request.getfixturevalue(flavour)
    trap = "raise SystemExit('shadowed')"
    for name in ("json.py", "socket.py", "selectors.py", "tuneplane/__init__.py", "supervise.py"):
        path = run.experiment / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(trap)
    assert run.go("sh", "-c", "exit 7", PYTHONPATH=f":{run.experiment}:.") == 7
    assert run.node()["reason"] == "exited"


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        (
            (),
            {"TUNEPLANE_NODES": "2"},
            "the launcher placed `2` nodes (TUNEPLANE_NODES), but the job is for 1 (--nodes)",
        ),
        (
            (),
            {"TUNEPLANE_NODE_RANK": "1"},
            "TUNEPLANE_NODE_RANK is `1`, which is not one of 0 to 0 (--nodes 1)",
        ),
        (
            (),
            {"TUNEPLANE_NODE_RANK": 'x"y'},
            'TUNEPLANE_NODE_RANK is `x"y`, which is not one of 0 to 0 (--nodes 1)',
        ),
        (
            (),
            {"TUNEPLANE_EXPERIMENT_DIR": "/no/where"},
            "there is no folder `/no/where` (TUNEPLANE_EXPERIMENT_DIR)",
        ),
    ],
)
def test_a_place_that_is_not_what_was_asked_for(any_run, options, environment, message):
    process = any_run.start("true", options=options, **environment)
    assert any_run.end(process) == 125
    assert message in process.stdout.read().decode()
    verdict = any_run.verdict()
    assert (verdict["code"], verdict["reason"], verdict["message"]) == (125, "preflight", message)


def test_a_run_folder_that_is_not_there(any_run):
    process = any_run.start("true", TUNEPLANE_ATTEMPT="9")
    assert any_run.end(process) == 125
    assert "there is no folder" in process.stdout.read().decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kind", "mpi"), "`--kind mpi` is none of process, torchrun, accelerate, ray"),
        (("--nodes", "0"), "`--nodes 0` is not a whole number from 1"),
        (("--stop-grace", "soon"), "`--stop-grace soon` is not a number of seconds above 0"),
        (("--colour", "red"), "unknown option `--colour`"),
    ],
)
def test_wrong_options(run, options, message):
    assert run.go("true", options=options) == 125
    assert run.verdict()["message"] == message


def test_without_python_other_kinds_and_more_nodes_are_refused(bare_run):
    assert bare_run.go("train.py", options=("--kind", "torchrun")) == 125
    assert (
        bare_run.verdict()["message"]
        == "the image has no Python of 3.8 or newer, which `--kind torchrun` needs"
    )


def test_without_python_more_nodes_are_refused(bare_run):
    assert bare_run.go("true", nodes=2) == 125
    assert "runs on one node only, not on 2" in bare_run.verdict()["message"]


def test_an_interpreter_that_was_asked_for_is_the_one_or_none(run):
    assert run.go("true", options=("--python", "/no/python")) == 125
    assert run.verdict()["message"] == "`/no/python` (--python) is not a Python of 3.8 or newer"


def test_the_interpreter_that_was_asked_for_is_used(bare_run, tmp_path):
    import sys

    chosen = tmp_path / "my python"
    chosen.write_text(f'#!/bin/sh\necho chosen >>"{tmp_path}/used"\nexec "{sys.executable}" "$@"\n')
    chosen.chmod(0o755)
    assert bare_run.go("true", options=("--python", str(chosen))) == 0
    assert (tmp_path / "used").exists()
    assert "rendezvous" in bare_run.phases()


def test_head_file(run):
    process = run.start("sh", "-c", "echo up >up; sleep 60")
    run.wait_for("up")
    path = run.attempt / "head.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    head = json.loads(path.read_text())
    assert head["address"] == "127.0.0.1" and head["host"] == "n0"
    assert head["port"] == head["first"] == head["last"] - 63
    assert len(head["token"]) == 64
    process.terminate()
    run.end(process)


def test_nothing_of_the_environment_or_the_arguments_is_written(any_run):
    assert any_run.go("sh", "-c", "exit 3", "argument-5ecret", TOKEN="environment-5ecret") == 3
    for path in any_run.attempt.iterdir():
        assert b"5ecret" not in path.read_bytes()


def test_a_full_disk_does_not_hide_the_exit_code(any_run):
    """With a file size limit of 0 every write fails, as on a disk that became full while the command ran."""
    script = "echo up >up; while ! [ -e go ]; do sleep 0.05; done; exit 7"
    process = any_run.start("sh", "-c", script, before="trap '' XFSZ")
    any_run.wait_for("up")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
    (any_run.experiment / "go").touch()
    assert any_run.end(process) == 7
    assert "cannot write" in process.stdout.read().decode()
    assert not (any_run.attempt / "node-0.json").exists()
