"""Who takes part in an attempt."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence

from tuneplane.job.options import Options
from tuneplane.job.records import Records
from tuneplane.job.team.pools import pool_of


class Entry(NamedTuple):
    """A node: its address, and a port that it holds for what it runs (its server, or Ray's node manager);
    all its ports lie between first and last.
    """

    rank: int
    host: str
    address: str
    port: int
    first: int
    last: int


def global_ranks(options: Options, rank: int) -> List[int]:
    """The ranks of the processes of a node, as far as they follow from the node's own.

    Ray places its workers itself, and with c10d the launchers agree on the ranks later.
    """
    pool = pool_of(options.pools, rank)
    if pool.server is not None or options.kind == "ray" or options.rendezvous == "c10d":
        return []
    first = (rank - pool.first) * pool.processes
    return list(range(first, first + pool.processes))


def write_nodes(
    records: Records, options: Options, roster: Sequence[Entry], ranks: Dict[int, List[int]]
) -> None:
    """Write nodes.json: every node with its pool and the global ranks that run on it."""
    nodes = [
        {
            "rank": entry.rank,
            "host": entry.host,
            "address": entry.address,
            "first": entry.first,
            "last": entry.last,
            "pool": pool_of(options.pools, entry.rank).name,
            "ranks": ranks.get(entry.rank, []),
        }
        for entry in roster
    ]
    records.write_json("nodes.json", {"nodes": nodes})
