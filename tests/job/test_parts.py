"""The parts that can be tried without a supervisor."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tuneplane.job import options, records, settings
from tuneplane.job.outcome import Verdict, of_wait_status
from tuneplane.job.team import address
from tuneplane.job.team.wire import Channel, is_proof, proof


def test_addresses():
    assert address.own_address(1, None) == "127.0.0.1"
    assert address.own_address(2, "lo") == "127.0.0.1"
    with pytest.raises(address.NoAddress, match="the interface `nope` is not up"):
        address.own_address(2, "nope")


def test_the_head_of_several_nodes_is_never_loopback_by_itself(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo")])
    with pytest.raises(address.NoAddress, match=r"interfaces here: lo 127\.0\.0\.1"):
        address.own_address(2, None)


def test_a_stale_address_of_the_host_name_is_not_used(monkeypatch):
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.9", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answer)
    monkeypatch.setattr(socket, "if_nameindex", lambda: [])
    with pytest.raises(address.NoAddress):
        address.own_address(2, None)


def test_the_interface_of_an_address():
    assert address.interface_of("127.0.0.1") == "lo"
    assert address.interface_of("203.0.113.9") is None
    for _, name in socket.if_nameindex():
        own = address.interface_address(name)
        assert own is None or address.interface_of(own) == name


def verdict(node: int) -> Verdict:
    return Verdict(node, node, f"n{node}", None, "exited", "é")


def _claim(folder: str, node: int, barrier: object, queue: object) -> None:
    barrier.wait()
    queue.put(records.Records(folder, None, "h").claim(verdict(node)))


def test_one_verdict_stands(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(8), context.Queue()
    claimants = [context.Process(target=_claim, args=(str(tmp_path), n, barrier, queue)) for n in range(1, 9)]
    for claimant in claimants:
        claimant.start()
    seen = {queue.get(timeout=10) for _ in claimants}
    for claimant in claimants:
        claimant.join()
    assert len(seen) == 1
    assert (tmp_path / "verdict").read_text().startswith(f"{seen.pop().code}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["verdict"]


@pytest.mark.parametrize("error", [PermissionError, FileExistsError, OSError])
def test_a_verdict_without_links(tmp_path, monkeypatch, error):
    def refuse(*_: object) -> None:
        raise error(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    paper = records.Records(str(tmp_path), None, "h")
    assert paper.claim(verdict(1)) == verdict(1)
    assert paper.claim(verdict(2)) == verdict(1)
    assert [path.name for path in tmp_path.iterdir()] == ["verdict"]


def test_a_link_that_worked_though_the_server_said_no(tmp_path, monkeypatch):
    original = os.link

    def lie(source: str, target: str) -> None:
        original(source, target)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", lie)
    assert records.Records(str(tmp_path), None, "h").claim(verdict(1)) == verdict(1)


def test_lines_of_the_log_are_single_and_readable_bytes(tmp_path):
    paper = records.Records(str(tmp_path), 0, "h")
    paper.say("a\nb\x1b[31m é \udce9")
    assert (tmp_path / "node-0.log").read_bytes() == "tuneplane: a\\nb\\x1b[31m é \\udce9\n".encode()
    os.close(paper.log)


def test_wait_statuses():
    assert of_wait_status(7 << 8)[:3] == (7, None, "exited")
    assert of_wait_status(9)[:3] == (137, "SIGKILL", "signal")
    assert of_wait_status(40)[:2] == (168, "signal 40")


def test_proofs():
    assert is_proof(proof("t", "node", 1), "t", "node", 1)
    for other in (
        proof("u", "node", 1),
        proof("t", "node", 2),
        proof("t", "head", 1),
        None,
        5,
        "é",
        "\ud800",
    ):
        assert not is_proof(other, "t", "node", 1)


def test_a_channel_survives_what_its_peer_does():
    ours, theirs = _tcp_pair()
    channel = Channel(ours, 0.0)
    theirs.sendall(b'{"type": "be')
    _readable(ours)
    assert channel.receive(1.0) == [] and channel.closed is None
    theirs.sendall(b'at"}\n{"type": "x"}\n')
    _readable(ours)
    assert channel.receive(2.0) == [{"type": "beat"}, {"type": "x"}] and channel.heard == 2.0
    for _ in range(40):
        channel.send(3.0, type="beat", fill="x" * 500000)
    assert channel.closed is None, "a peer that does not read is not an error, only silent"
    theirs.close()
    _readable(ours)
    channel.receive(4.0)
    assert channel.closed is not None
    channel.send(5.0, type="beat")
    channel.close()


def _tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return server.accept()[0], client


def _readable(handle: socket.socket) -> None:
    import select

    assert select.select([handle], [], [], 5)[0]


def test_options():
    given = options.read_options(["--kind", "process", "--nodes", "2", "--", "a", "--", "b"])
    assert (given.nodes, given.words, given.pools[0].processes) == (2, ("a", "--", "b"), 1)
    assert (given.rendezvous_timeout, given.heartbeat_bound, given.stop_grace) == (300, 60, 10)
    for wrong in (
        ["x"],
        ["--kind", "process", "--nodes", "1", "--"],
        ["--kind", "--", "x"],
        ["--kind", "process", "--", "x"],
    ):
        with pytest.raises(settings.Refusal):
            options.read_options(wrong)


def test_it_rides_alone():
    """The helper imports the standard library and itself, nothing else of the package."""
    folder = Path(settings.__file__).parent
    program = (
        "import sys; before = set(sys.modules); import tuneplane.job.main\n"
        "print(sorted(m for m in sys.modules if m.startswith('tuneplane') and not m.startswith('tuneplane.job')))"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "['tuneplane']"
