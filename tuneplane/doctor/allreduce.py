"""An all-reduce over the nodes of a job with nothing but sockets: whether all reach each other, and how fast.

It rides in an experiment of `tp doctor --job` and runs once on each node, with a Python as old as 3.8. The nodes meet at
the head, then each sends to the next in a ring. Rank r brings the numbers (r + 1) * i; everybody must end with their sum.
"""

# ruff: noqa: B905, UP006, UP035 (an image may hold a Python as old as 3.8)
from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from array import array
from typing import Any, Dict, List, Tuple

NUMBERS = 1 << 18
ROUNDS = 20
SMALL_BYTES = 1024
BULK_BYTES, BULKS = 16 << 20, 4
MEET_SECONDS = 120.0
QUIET_SECONDS = 60.0


class Failed(Exception):
    """Why this node could not do its part, in one sentence."""


def send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(struct.pack("!Q", len(data)) + data)


def receive(channel: socket.socket) -> bytes:
    (size,) = struct.unpack("!Q", exactly(channel, 8))
    return exactly(channel, size)


def exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(1 << 20, size - len(data)))
        if not part:
            raise Failed("a node hung up before the end")
        data += part
    return bytes(data)


def reach(host: str, port: int, what: str) -> socket.socket:
    """A connection to another node, tried until it listens."""
    deadline = time.monotonic() + MEET_SECONDS
    while True:
        try:
            channel = socket.create_connection((host, port), timeout=5)
            channel.settimeout(QUIET_SECONDS)
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return channel
        except OSError as error:
            if time.monotonic() > deadline:
                raise Failed(f"cannot reach {what} at {host}:{port}: {error}") from None
            time.sleep(0.2)


def listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(1024)
    listener.settimeout(MEET_SECONDS)
    return listener


def meet(
    rank: int, nodes: int, head: Tuple[str, int], run: str
) -> Tuple[socket.socket, List[Tuple[str, int]]]:
    """This node's listener for the ring, and where each node listens, by rank."""
    if rank != 0:
        channel = reach(head[0], head[1], "the head")
        own = listen(channel.getsockname()[0], 0)
        hello = {"run": run, "rank": rank, "at": own.getsockname()[:2]}
        send(channel, json.dumps(hello).encode())
        return own, [(host, port) for host, port in json.loads(receive(channel).decode())]
    door, own = listen(*head), listen(head[0], 0)
    table: Dict[int, Any] = {0: own.getsockname()[:2]}
    channels = []
    while len(table) < nodes:
        try:
            channel, _ = door.accept()
        except TimeoutError:
            missing = ", ".join(str(r) for r in range(nodes) if r not in table)
            raise Failed(
                f"node {missing} did not come to {head[0]}:{head[1]} in {MEET_SECONDS:.0f} s"
            ) from None
        channel.settimeout(QUIET_SECONDS)
        hello = json.loads(receive(channel).decode())
        if hello.get("run") == run:
            table[int(hello["rank"])] = hello["at"]
            channels.append(channel)
    rows = [table[r] for r in range(nodes)]
    for channel in channels:
        send(channel, json.dumps(rows).encode())
    return own, [(host, port) for host, port in rows]


class Ring:
    """Connections to the next node and from the one before, which all nodes have."""

    def __init__(self, rank: int, table: List[Tuple[str, int]], own: socket.socket) -> None:
        after = (rank + 1) % len(table)
        accepted: List[socket.socket] = []
        door = threading.Thread(target=lambda: accepted.append(own.accept()[0]), daemon=True)
        door.start()
        self.next = reach(table[after][0], table[after][1], f"node {after}")
        door.join(MEET_SECONDS)
        if not accepted:
            raise Failed(
                f"node {(rank - 1) % len(table)} did not reach this one at {table[rank][0]}:{table[rank][1]}"
            )
        self.last = accepted[0]
        self.last.settimeout(QUIET_SECONDS)
        self.last.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, data: bytes) -> bytes:
        """Send to the next node while receiving from the one before."""
        if len(data) <= SMALL_BYTES:
            # it fits into the socket's buffer: a thread would take longer than the network
            send(self.next, data)
            return receive(self.last)
        sender = threading.Thread(target=send, args=(self.next, data), daemon=True)
        sender.start()
        got = receive(self.last)
        sender.join(QUIET_SECONDS)
        return got

    def seconds(self, data: bytes, rounds: int) -> float:
        """How long an exchange of `data` takes, once all are there."""
        self.exchange(b"x")
        began = time.monotonic()
        for _ in range(rounds):
            self.exchange(data)
        return (time.monotonic() - began) / rounds


def all_reduce(ring: Ring, rank: int, nodes: int, numbers: array[int]) -> None:
    """Sum `numbers` of all nodes in place: chunks travel once around to be summed, once to be told."""
    edges = [len(numbers) * i // nodes for i in range(nodes + 1)]
    for step in range(2 * (nodes - 1)):
        at = (rank - step) % nodes if step < nodes - 1 else (rank + 1 - (step - nodes + 1)) % nodes
        got = array("q", ring.exchange(numbers[edges[at] : edges[at + 1]].tobytes()))
        low, high = edges[(at - 1) % nodes], edges[(at - 1) % nodes + 1]
        if step < nodes - 1:
            got = array("q", (a + b for a, b in zip(numbers[low:high], got)))
        numbers[low:high] = got


def measure(rank: int, nodes: int, head: Tuple[str, int], run: str) -> Dict[str, Any]:
    """Do it all; returns what this node has to say."""
    own, table = meet(rank, nodes, head, run)
    ring = Ring(rank, table, own)
    numbers = array("q", ((rank + 1) * i for i in range(NUMBERS)))
    all_reduce(ring, rank, nodes, numbers)
    total = nodes * (nodes + 1) // 2
    if any(value != total * i for i, value in enumerate(numbers)):
        raise Failed("the sum is wrong")
    latency = ring.seconds(b"x", ROUNDS)
    bulk = ring.seconds(bytes(BULK_BYTES), BULKS)
    return {"address": table[rank][0], "bytes_per_second": BULK_BYTES / bulk, "latency_seconds": latency}


def main() -> int:
    rank, nodes = int(os.environ["TUNEPLANE_NODE_RANK"]), int(os.environ["TUNEPLANE_NODES"])
    result: Dict[str, Any] = {"node": rank, "host": socket.gethostname()}
    try:
        if nodes > 1:
            head = os.environ["TUNEPLANE_HEAD_ADDRESS"], int(os.environ["TUNEPLANE_HEAD_PORT"])
            result.update(measure(rank, nodes, head, os.environ.get("TUNEPLANE_RUN_ID", "")))
    except (Failed, OSError, ValueError) as error:
        print(f"all-reduce failed on node {rank}: {error}", flush=True)
        return 1
    path = os.path.join(os.environ["TUNEPLANE_OUTPUT_DIR"], f"allreduce-{rank}.json")
    with open(path + ".part", "w") as file:
        json.dump(result, file)
    os.replace(path + ".part", path)
    print(f"all-reduce over {nodes} nodes: the sum is right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
