"""A launch that is one program on each node: the command itself, or a launcher that starts its ranks."""

from __future__ import annotations

from typing import Dict, List, Optional

from tuneplane.job import processes
from tuneplane.job.failure import first_rank
from tuneplane.job.kinds.work import COMMAND, Scene
from tuneplane.job.outcome import Outcome

# How long a launcher may take until its ranks run, before nobody asks any more which ones they are.
RANKS_SECONDS = 600.0

# What ranks say that failed only because one elsewhere did, and how long the node of that one is given to speak first.
_LOST_PEER = (
    b"Connection closed by peer",
    b"Connection reset by peer",
    b"remote process exited",
    b"Broken pipe",
)
FIRST_SECONDS = 1.0


class Launch:
    """Runs `words`; `ranked` says that they are a launcher whose children are the ranks."""

    def __init__(
        self, scene: Scene, words: List[str], ranked: bool, also: Optional[Dict[str, str]] = None
    ) -> None:
        """`also` goes into the environment where it does not have these already."""
        self._scene, self._words, self._ranked = scene, words, ranked
        self._environment = {**(also or {}), **scene.environment}
        # With c10d the launchers agree on the ranks among themselves.
        self._asking = ranked and scene.options.rendezvous == "c10d"
        self._ask_until: Optional[float] = None
        self._give_way_until: Optional[float] = None

    def go(self) -> None:
        """Start at once, unless servers have to be there first."""
        if not self._scene.go.servers:
            self._start()

    def poll(self, now: float) -> Optional[Outcome]:
        """Start when the servers answer; the end of the command, in terms of its first failed rank."""
        crew = self._scene.crew
        if not crew.has(COMMAND):
            if "servers" in self._scene.team.stages:
                self._start()
            return None
        end = crew.end(COMMAND)
        if end is None and self._asking:
            self._ask(now)
        if end is None or end.code == 0 or not self._ranked:
            return end
        if self._give_way_until is None:
            self._give_way_until = now + (FIRST_SECONDS if self._lost_peer() else 0.0)
        return self._by_rank(end) if now >= self._give_way_until else None

    def main(self) -> str:
        """The command."""
        return COMMAND

    def grace(self) -> float:
        """As for the command."""
        return self._scene.crew.grace

    def warned(self) -> List[int]:
        """The ranks themselves, not the launcher; or all of the command."""
        pid = self._scene.crew.pid(COMMAND)
        if pid is None:
            return []
        return sorted(processes.workers_of(pid)) or processes.children_of(pid) if self._ranked else [-pid]

    def release(self) -> None:
        """There is nothing to remove."""

    def _start(self) -> None:
        self._scene.crew.start(COMMAND, self._words, self._environment)
        self._scene.phase("running")

    def _lost_peer(self) -> bool:
        """Whether ranks here complain of others, which may be on another node."""
        if self._scene.pool.nodes == 1:
            return False
        end = self._scene.records.end_of_log()
        return any(said in end for said in _LOST_PEER)

    def _by_rank(self, end: Outcome) -> Outcome:
        """A launcher ends with 1 whatever happened; what its summary says of the first rank is the truth."""
        records = self._scene.records
        first = first_rank(records.log_path(self._scene.place.rank))
        if first is None:
            return end
        how = f"was killed by {first.signal}" if first.signal else f"ended with exit code {first.code}"
        message = f"the command of rank {first.rank} {how}"
        return Outcome(first.code, first.signal, end.reason, message, first.rank)

    def _ask(self, now: float) -> None:
        """Tell the head which ranks run here, once they do."""
        self._ask_until = now + RANKS_SECONDS if self._ask_until is None else self._ask_until
        pid = self._scene.crew.pid(COMMAND)
        found = processes.workers_of(pid) if pid is not None else {}
        ranks = sorted(int(each["RANK"]) for each in found.values() if each.get("RANK", "").isdigit())
        if len(ranks) == self._scene.pool.processes:
            self._scene.team.ranks(ranks)
        self._asking = len(ranks) != self._scene.pool.processes and now < self._ask_until
