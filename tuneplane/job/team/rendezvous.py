"""How the nodes find the head: a file in the folder of the attempt, and what is said on first contact."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from tuneplane.job.records import Records
from tuneplane.job.team.ports import Claim
from tuneplane.job.team.wire import proof

HEAD = "head.json"
# Which of its free ports a node offers: the first two are the launcher's and the user's.
OFFERED = 2


class HeadFile(NamedTuple):
    """What the head publishes: `port` is where it listens, `first` to `last` is the range it claimed."""

    address: str
    port: int
    first: int
    last: int
    host: str
    token: str


class Go(NamedTuple):
    """What every node is told once all have arrived.

    `launch_port` is for the launcher, `user_port` for the user; `servers` are the addresses of each server pool.
    """

    address: str
    launch_port: int
    user_port: int
    servers: Dict[str, List[str]]


def publish(records: Records, held: Claim, address: str) -> Tuple[HeadFile, bool]:
    """Write head.json, readable by the user only; False beside it when it could not be written."""
    head = HeadFile(address, held.first, held.first, held.last, records.host, secrets.token_hex(32))
    return head, records.write_json(HEAD, head._asdict(), mode=0o600)


def find(folder: str) -> Optional[HeadFile]:
    """What the head published, or None while there is nothing.

    The folder is listed each time: a network filesystem remembers a lookup that failed, a listing it renews.
    """
    try:
        if HEAD not in os.listdir(folder):
            return None
        with open(os.path.join(folder, HEAD), encoding="utf-8") as file:
            return _read(json.load(file))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(data: Dict[str, Any]) -> HeadFile:
    numbers = {name: int(data[name]) for name in ("port", "first", "last")}
    return HeadFile(address=str(data["address"]), host=str(data["host"]), token=str(data["token"]), **numbers)


def read_go(data: Dict[str, Any]) -> Go:
    """The message `go`; KeyError, TypeError or ValueError when it is not one."""
    servers = {str(name): [str(url) for url in urls] for name, urls in data["servers"].items()}
    return Go(str(data["address"]), int(data["launch_port"]), int(data["user_port"]), servers)


def secret(token: str, purpose: str) -> str:
    """A secret of this attempt that every node can make by itself from the token, and nobody else."""
    return proof(token, "secret", purpose)


def beat_interval(bound: float) -> float:
    """Seconds between two signs of life when silence for `bound` seconds is death."""
    return min(5.0, bound / 4)
