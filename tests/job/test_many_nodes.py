"""Several supervisors that share a run folder: how they meet, and how each way of failing ends all of them."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import time

import pytest

WAIT = "echo $$ >up-$TUNEPLANE_NODE_RANK; exec sleep 60"


def start_all(run, script, nodes=3, **more):
    return [run.start("sh", "-c", script, rank=rank, nodes=nodes, **more) for rank in range(nodes)]


def wait_up(run, nodes=3):
    return [int(run.wait_for(f"up-{rank}").read_text()) for rank in range(nodes)]


def ends(run, processes, seconds=15.0):
    began = time.monotonic()
    codes = [run.end(process, seconds) for process in processes]
    return codes, time.monotonic() - began


def test_all_succeed_and_wait_for_each_other(run):
    script = 'echo "$TUNEPLANE_HEAD_ADDRESS $TUNEPLANE_HEAD_PORT" >head-$TUNEPLANE_NODE_RANK; sleep 0.$((TUNEPLANE_NODE_RANK * 4))'
    processes = start_all(run, script)
    codes, _ = ends(run, processes)
    assert codes == [0, 0, 0]
    assert run.verdict() == {
        "code": 0, "node": None, "host": None, "signal": None, "reason": "exited",
        "message": "all 3 nodes ended with exit code 0", "rank": None, "phase": None, "tail": [],
    }  # fmt: skip
    heads = {run.wait_for(f"head-{rank}").read_text() for rank in range(3)}
    assert len(heads) == 1
    address, port = heads.pop().split()
    head = json.loads((run.attempt / "head.json").read_text())
    assert address == head["address"] == "127.0.0.1"
    assert head["first"] < int(port) <= head["last"]
    for rank in range(3):
        assert (run.node(rank)["host"], run.node(rank)["code"]) == (f"n{rank}", 0)
        assert run.phases(rank) == ["started", "preflight", "rendezvous", "running", "ended"]


def test_the_oldest_python_and_this_one_understand_each_other(run, old_run):
    first = run.start("true", nodes=2)
    second = run.start("true", rank=1, nodes=2, PATH=old_run.path)
    assert ends(run, [first, second])[0] == [0, 0]


def test_late_nodes_are_waited_for(run):
    last = run.start("true", rank=2, nodes=3)
    head = run.start("true", rank=0, nodes=3)
    run.until(lambda: "rendezvous" in run.phases(0) and "rendezvous" in run.phases(2))
    time.sleep(0.5)
    assert "running" not in run.phases(0)
    assert ends(run, [last, head, run.start("true", rank=1, nodes=3)])[0] == [0, 0, 0]


@pytest.mark.parametrize("failing", [0, 1])
def test_one_fails(run, running, failing):
    script = f"[ $TUNEPLANE_NODE_RANK = {failing} ] || {{ {WAIT}; }}; while ! [ -s go ]; do sleep 0.02; done; exit 7"
    processes = start_all(run, script)
    others = [rank for rank in range(3) if rank != failing]
    pids = [int(run.wait_for(f"up-{rank}").read_text()) for rank in others]
    (run.experiment / "go").write_text("go")
    codes, seconds = ends(run, processes)
    assert codes == [7, 7, 7] and seconds < 5
    verdict = run.verdict()
    assert (verdict["code"], verdict["node"], verdict["host"], verdict["reason"]) == (
        7,
        failing,
        f"n{failing}",
        "exited",
    )
    assert run.node(failing)["reason"] == "exited"
    why = f"stopped because of a failure on node {failing} (n{failing}): the command ended with exit code 7"
    for rank in others:
        record = run.node(rank)
        assert (record["code"], record["signal"], record["reason"]) == (143, "SIGTERM", "stopped")
        assert record["message"] == f"{why}; the command was killed by SIGTERM"
    assert not any(map(running, pids))


def test_one_that_will_not_stop_is_killed_after_the_grace(run, running):
    script = "trap '' TERM; echo $$ >up-$TUNEPLANE_NODE_RANK; while ! [ -s go ]; do sleep 0.05; done; [ $TUNEPLANE_NODE_RANK = 1 ] && exit 3; while :; do sleep 0.1; done"
    processes = start_all(run, script, options=("--stop-grace", "1"))
    pids = wait_up(run)
    (run.experiment / "go").write_text("go")
    codes, seconds = ends(run, processes)
    assert codes == [3, 3, 3] and 0.9 < seconds < 5
    assert [run.node(rank)["signal"] for rank in (0, 2)] == ["SIGKILL", "SIGKILL"]
    assert not any(map(running, pids))


def test_one_command_is_killed(run):
    processes = start_all(run, WAIT)
    pids = wait_up(run)
    os.kill(pids[2], signal.SIGKILL)
    codes, seconds = ends(run, processes)
    assert codes == [137, 137, 137] and seconds < 5
    assert run.verdict()["message"] == "the command was killed by SIGKILL"
    assert run.verdict()["node"] == 2


def test_a_supervisor_is_killed(run, running):
    processes = start_all(run, WAIT)
    pids = wait_up(run)
    processes[1].kill()
    codes, seconds = ends(run, [processes[0], processes[2]])
    assert codes == [125, 125] and seconds < 5
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (1, "n1", "lost")
    assert verdict["message"].startswith("node 1 (n1) was lost: the connection ")
    assert run.node(1)["reason"] == "lost" and run.node(1)["host"] == "n1"
    assert run.phases(1)[-1] == "lost"
    run.until(lambda: not any(map(running, pids)), 2)


def test_the_head_is_killed(run, running):
    processes = start_all(run, WAIT)
    pids = wait_up(run)
    processes[0].kill()
    codes, seconds = ends(run, processes[1:])
    assert codes == [125, 125] and seconds < 5
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (0, "n0", "lost")
    assert {run.node(rank)["reason"] for rank in (1, 2)} == {"stopped"}
    run.until(lambda: not any(map(running, pids)), 2)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_silent_node_is_given_up_after_the_bound(run, rank):
    processes = start_all(run, WAIT, options=("--heartbeat-bound", "1"))
    wait_up(run)
    processes[rank].send_signal(signal.SIGSTOP)
    others = [process for process in processes if process is not processes[rank]]
    codes, seconds = ends(run, others)
    assert codes == [125, 125] and 0.9 < seconds < 5
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (rank, f"n{rank}", "lost")
    assert verdict["message"].endswith("was lost: nothing was heard from it for 1 s")
    processes[rank].send_signal(signal.SIGCONT)
    assert run.end(processes[rank]) == 125
    assert run.verdict() == verdict


def test_all_stopped_for_a_while_is_not_a_failure(run):
    """`scontrol suspend` stops every process of a job and lets it go on later."""
    processes = start_all(
        run,
        "echo $$ >up-$TUNEPLANE_NODE_RANK; while ! [ -s go ]; do sleep 0.02; done",
        options=("--heartbeat-bound", "1"),
    )
    wait_up(run)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    for process in processes:
        process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    (run.experiment / "go").write_text("go")
    assert ends(run, processes)[0] == [0, 0, 0]


def test_a_missing_node_is_named(run):
    processes = [
        run.start("true", rank=rank, nodes=4, options=("--rendezvous-timeout", "1")) for rank in (0, 2)
    ]
    codes, seconds = ends(run, processes)
    assert codes == [125, 125] and seconds < 5
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (1, None, "rendezvous")
    assert verdict["message"] == "nodes 1, 3 of 4 did not arrive within 1 s"
    assert run.node(0)["reason"] == "rendezvous" and run.node(2)["reason"] == "stopped"
    assert "running" not in run.phases(0)


def test_a_missing_head_is_named(run):
    process = run.start("true", rank=1, nodes=2, options=("--rendezvous-timeout", "0.5"))
    assert run.end(process) == 125
    assert run.verdict()["message"] == (
        "node 1 did not reach the head within 0.5 s: the head (node 0) published no address"
    )
    assert run.node(1)["reason"] == "rendezvous"


def test_who_waits_for_the_head_sees_that_it_failed(run):
    waiting = run.start("true", rank=1, nodes=2)
    time.sleep(0.3)
    assert run.go("true", rank=0, nodes=2, options=("--interface", "no-such0")) == 125
    assert run.end(waiting, 5) == 125
    assert (
        "the interface `no-such0` is not up or has no IPv4 address; interfaces here: lo 127.0.0.1"
        in run.verdict()["message"]
    )
    assert run.node(1)["reason"] == "stopped"


def test_the_head_sees_that_a_node_failed_before_it_could_join(run):
    head = run.start("true", rank=0, nodes=2)
    run.wait_for(run.attempt / "head.json")
    assert run.go("true", rank=1, nodes=2, TUNEPLANE_NODES="1") == 125
    assert run.end(head, 5) == 125
    assert (run.verdict()["node"], run.verdict()["reason"]) == (1, "preflight")


def test_a_second_node_of_the_same_rank_is_refused_and_harms_nobody(run):
    first = run.start("sh", "-c", "while ! [ -s go ]; do sleep 0.02; done", rank=1, nodes=3)
    head = run.start("true", rank=0, nodes=3)
    run.until(lambda: "rendezvous" in run.phases(1))
    second = run.start("true", rank=1, nodes=3, SLURMD_NODENAME="n9")
    assert run.end(second) == 125
    assert (
        "the head refused this node: n9 says it is node 1, which n1 is already"
        in second.stdout.read().decode()
    )
    (run.experiment / "go").write_text("go")
    assert ends(run, [first, head, run.start("true", rank=2, nodes=3)])[0] == [0, 0, 0]
    assert run.node(1)["host"] == "n1"


def test_a_wrong_token_is_refused_and_harms_nobody(run):
    head = run.start("true", rank=0, nodes=2)
    published = run.wait_for(run.attempt / "head.json")
    true = published.read_text()
    published.write_text(json.dumps({**json.loads(true), "token": "0" * 64}))
    stranger = run.start("true", rank=1, nodes=2)
    assert run.end(stranger) == 125
    assert "does not know the token of this attempt" in stranger.stdout.read().decode()
    assert not (run.attempt / "verdict").exists()
    published.write_text(true)
    assert ends(run, [head, run.start("true", rank=1, nodes=2)])[0] == [0, 0]


def greet(run, rank, spoil=False):
    """Speak to the head as a node would; returns its answer."""
    head = json.loads(run.wait_for(run.attempt / "head.json").read_text())
    with socket.create_connection((head["address"], head["port"]), timeout=5) as connection:
        file = connection.makefile("rwb")
        nonce = json.loads(file.readline())["nonce"]
        parts = json.dumps([str(part) for part in ("node", nonce, rank, "h", "mine")]).encode()
        shown = hmac.new(head["token"].encode(), parts, hashlib.sha256).hexdigest()
        hello = {"type": "hello", "rank": rank, "host": "h", "nonce": "mine", "proof": shown}
        if spoil:
            hello["proof"] = "é\ud800"
        file.write(json.dumps(hello).encode() + b"\n")
        file.flush()
        return json.loads(file.readline())


def test_strangers_at_the_port_are_turned_away(run):
    head = run.start("true", rank=0, nodes=2)
    for rank in (0, 2, -1, "1", None, 1.0):
        assert greet(run, rank)["type"] == "refused"
    assert greet(run, 1, spoil=True)["message"].endswith("does not know the token of this attempt")
    published = json.loads((run.attempt / "head.json").read_text())
    for noise in (b"GET / HTTP/1.0\r\n\r\n", b"[" * 70000, b"[]\n", b'{"type": 1}\n', b""):
        with socket.create_connection((published["address"], published["port"]), timeout=5) as connection:
            connection.sendall(noise)
    assert ends(run, [head, run.start("true", rank=1, nodes=2)])[0] == [0, 0]


@pytest.mark.parametrize("rank", [0, 1])
def test_one_is_told_to_stop(run, rank):
    processes = start_all(run, WAIT, nodes=2)
    wait_up(run, 2)
    processes[rank].terminate()
    codes, seconds = ends(run, processes)
    assert codes == [143, 143] and seconds < 5
    verdict = run.verdict()
    assert (verdict["node"], verdict["reason"]) == (rank, "stopped")
    assert verdict["message"] == "told to stop by SIGTERM; the command was killed by SIGTERM"


def test_all_are_told_to_stop_as_scancel_does(run):
    processes = start_all(run, WAIT)
    wait_up(run)
    for _ in range(2):
        for process in processes:
            process.terminate()
    codes, seconds = ends(run, processes)
    assert codes == [143, 143, 143] and seconds < 5
    assert {run.node(rank)["reason"] for rank in range(3)} == {"stopped"}


def test_told_to_stop_while_waiting_for_others(run):
    lonely = run.start("true", rank=0, nodes=2)
    run.wait_for(run.attempt / "head.json")
    lonely.terminate()
    assert run.end(lonely, 5) == 143
    assert run.node(0)["message"] == "told to stop by SIGTERM; the command had not been started"
    late = run.start("true", rank=1, nodes=2)
    assert run.end(late, 5) == 143
    assert run.node(1)["reason"] == "stopped"


def test_told_to_stop_after_its_own_command_ended(run):
    processes = start_all(run, f"[ $TUNEPLANE_NODE_RANK = 1 ] && exit 0; {WAIT}", nodes=2)
    run.until(lambda: (run.attempt / "node-1.json").exists())
    run.wait_for("up-0")
    processes[1].terminate()
    codes, seconds = ends(run, processes)
    assert codes == [143, 143] and seconds < 5
    assert run.verdict()["message"] == "told to stop by SIGTERM while waiting for the other nodes"
    assert run.node(1)["code"] == 0


def test_one_that_cannot_start(run):
    processes = [run.start("sleep", "60", nodes=2), run.start("no-such-program", rank=1, nodes=2)]
    codes, seconds = ends(run, processes)
    assert codes == [127, 127] and seconds < 5
    assert (run.verdict()["node"], run.verdict()["reason"]) == (1, "could-not-start")


def test_a_supervisor_that_fails_itself_ends_the_run(run, running):
    """A bug in the supervisor: its command does not go on unwatched, and there is something to report."""
    with (run.helper / "tuneplane/job/crew.py").open("a") as module:
        module.write(
            "\n\ndef collect(self):\n    if os.path.exists('go') and os.environ['TUNEPLANE_NODE_RANK'] == '0':\n"
            "        raise RuntimeError('boom')\n\n\nCrew.collect = collect\n"
        )
    processes = start_all(run, WAIT, nodes=2)
    pids = wait_up(run, 2)
    (run.experiment / "go").write_text("go")
    processes[0].send_signal(signal.SIGUSR1)
    assert run.end(processes[0]) == 125
    assert run.verdict()["message"] == "the supervisor of node 0 failed: RuntimeError('boom')"
    assert "in collect" in run.log()
    run.until(lambda: not running(pids[0]))


def test_sixteen_nodes(run):
    processes = start_all(run, "true", nodes=16, options=("--heartbeat-bound", "10"))
    assert ends(run, processes)[0] == [0] * 16
    assert sorted(path.name for path in run.attempt.glob("node-*.json")) == sorted(
        f"node-{r}.json" for r in range(16)
    )
