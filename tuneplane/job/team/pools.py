"""The pools of a job: which nodes do what, in the order of the ranks."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")


class Server(NamedTuple):
    """A program that runs beside the launch; `ready` is the path that answers 200 within `timeout` seconds."""

    words: Tuple[str, ...]
    ready: str
    timeout: float


class Pool(NamedTuple):
    """Nodes of one sort, `first` being the rank of the first; one without `server` belongs to the launch."""

    name: str
    first: int
    nodes: int
    cpus: int
    gpus: int
    processes: int
    server: Optional[Server] = None

    @property
    def ranks(self) -> range:
        """The ranks of its nodes."""
        return range(self.first, self.first + self.nodes)


def read_pools(text: str) -> Tuple[Pool, ...]:
    """The pools from JSON; ValueError says what is wrong with it."""
    try:
        return _placed(json.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _placed(entries: List[Dict[str, Any]]) -> Tuple[Pool, ...]:
    pools: List[Pool] = []
    first = 0
    for entry in entries:
        name = str(entry["name"])
        numbers = {key: int(entry[key]) for key in ("nodes", "cpus", "gpus", "processes")}
        if not _NAME.match(name) or name in [pool.name for pool in pools]:
            raise ValueError(f"the pool name `{name}` is no name of its own")
        if min(numbers["nodes"], numbers["processes"], numbers["gpus"] + 1) < 1:
            raise ValueError(f"the pool `{name}` has a size below 1")
        server = entry.get("server")
        pools.append(Pool(name, first, server=None if server is None else _server(name, server), **numbers))
        first += numbers["nodes"]
    if not pools or pools[0].server is not None:
        raise ValueError("the first pool must be one without a server")
    return tuple(pools)


def _server(name: str, entry: Dict[str, Any]) -> Server:
    words, ready = tuple(str(word) for word in entry["words"]), str(entry["ready"])
    if not words or not ready.startswith("/"):
        raise ValueError(f"the server of the pool `{name}` has no words, or `ready` is no path")
    return Server(words, ready, float(entry["timeout"]))


def pool_of(pools: Tuple[Pool, ...], rank: int) -> Pool:
    """The pool of a node."""
    return next(pool for pool in pools if rank in pool.ranks)


def launch_ranks(pools: Tuple[Pool, ...]) -> List[int]:
    """The ranks of the nodes that belong to the launch."""
    return [rank for pool in pools if pool.server is None for rank in pool.ranks]


def variable(name: str) -> str:
    """The variable that holds the addresses of a server pool."""
    return f"TUNEPLANE_POOL_{name.upper().replace('-', '_')}_URLS"
