"""What a node runs, as its supervisor drives it."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Protocol, Union

from tuneplane.job.crew import Crew
from tuneplane.job.options import Options
from tuneplane.job.outcome import Outcome
from tuneplane.job.records import Records
from tuneplane.job.settings import Place
from tuneplane.job.team.follower import Follower
from tuneplane.job.team.head import Head
from tuneplane.job.team.pools import Pool
from tuneplane.job.team.ports import Claim
from tuneplane.job.team.rendezvous import Go

# The name of the program whose end is the end of the run.
COMMAND = "command"


class Scene(NamedTuple):
    """What a work has at hand; `own` is this node's address, `offered` the port the others know, `phase` is told
    each milestone.
    """

    options: Options
    place: Place
    pool: Pool
    go: Go
    own: str
    offered: int
    held: Claim
    crew: Crew
    team: Union[Head, Follower]
    records: Records
    phase: Callable[[str], None]
    environment: Dict[str, str]


class Work(Protocol):
    """One way of running a node. `go` and `poll` raise CouldNotStart."""

    def go(self) -> None:
        """All nodes are there: start what need not wait for anything else."""

    def poll(self, now: float) -> Optional[Outcome]:
        """Do what is due; how this node's work ended, once that is sure. What still runs is then stopped."""

    def main(self) -> str:
        """The program whose end counts when all is stopped."""

    def grace(self) -> float:
        """How many seconds after TERM what still runs gets KILL."""

    def warned(self) -> List[int]:
        """The processes that hear of a warning; a negative number is a group, as for `kill`."""

    def release(self) -> None:
        """Everything ended: remove what lay on this node."""
