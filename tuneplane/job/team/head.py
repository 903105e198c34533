"""The head's side: it gathers the nodes, releases them at once, hears them, and says when the run is over."""

from __future__ import annotations

import time
from signal import SIGTERM
from typing import Dict, List, Optional, Set

from tuneplane.job.loop import Loop
from tuneplane.job.options import Options
from tuneplane.job.outcome import Outcome, Verdict, launch_failure, read_outcome, verdict_of
from tuneplane.job.records import STOP, WARNING, Records
from tuneplane.job.team.alive import Alive
from tuneplane.job.team.door import Door, Member
from tuneplane.job.team.pools import launch_ranks
from tuneplane.job.team.ports import Claim, Offer, free_port
from tuneplane.job.team.readiness import Asking, questions_to
from tuneplane.job.team.rendezvous import Go, HeadFile, beat_interval, secret
from tuneplane.job.team.roster import Entry, global_ranks, write_nodes

# How much longer than the stop grace the others may take to end, and how long they may take to hang up.
STOP_MARGIN_SECONDS = 10.0
FAREWELL_SECONDS = 2.0


class Head:
    """Node 0 as the hub of the others.

    `go`, `stages`, `verdict`, `trouble` and `final` are what it tells its own node. The stages, of which all nodes
    hear: `servers` (every server answers), `ray` (Ray's head can be joined), `warned` (the time limit is near),
    `finish` (the launch ended well).
    """

    def __init__(
        self, loop: Loop, options: Options, records: Records, held: Claim, head: HeadFile, offer: Offer
    ) -> None:
        self.go: Optional[Go] = None
        self.verdict: Optional[Verdict] = None
        self.trouble: Optional[Outcome] = None
        self.final: Optional[int] = None
        self.refused = False
        self.stages: Set[str] = set()
        self._asking: Optional[Asking] = None
        self._phase = "started"
        self._ranks: Dict[int, List[int]] = {}
        self._alive = Alive(records, beat_interval(options.heartbeat_bound))
        self._loop, self._options, self._records, self._held, self._head = loop, options, records, held, head
        self._members: Dict[int, Member] = {}
        self._outcomes: Dict[int, Outcome] = {}
        self._lost: Set[int] = set()
        self._notes: List[str] = []
        self._deadline = loop.now + options.rendezvous_timeout
        self._look_at = 0.0
        self._script_at = 0.0
        self._stop_until: Optional[float] = None
        self._farewell_until: Optional[float] = None
        # Servers and Ray's other nodes serve until these have ended.
        self._deciding = [0] if options.kind == "ray" else launch_ranks(options.pools)
        self._offer = offer
        self._door: Optional[Door] = None
        if options.nodes > 1:
            self._door = Door(loop, held.listener, head.token, self._objection, self._enter, self._note)

    def phase(self, phase: str, **more: object) -> None:
        """A milestone of the head's own node."""
        self._phase = phase
        self._records.phase(0, phase, time.time(), **more)

    def announce(self, stage: str) -> None:
        """Tell every node of a stage, once."""
        if stage not in self.stages:
            self.stages.add(stage)
            self._tell("stage", name=stage)

    def secret(self, purpose: str) -> str:
        """A secret of this attempt that every node knows."""
        return secret(self._head.token, purpose)

    def ranks(self, ranks: List[int]) -> None:
        """The global ranks that run on the head's own node, where the launcher chose them."""
        self._set_ranks(0, ranks)

    def roster(self) -> List[Entry]:
        """Every node that takes part, by rank."""
        members = [self._members[rank] for rank in sorted(self._members)]
        return [Entry(0, self._records.host, self._head.address, *self._offer)] + [
            Entry(member.rank, member.host, member.address, *member.offer) for member in members
        ]

    @property
    def others_ended(self) -> bool:
        """Whether every other node has ended."""
        return all(rank in self._outcomes for rank in range(1, self._options.nodes))

    def failing(self, outcome: Outcome) -> None:
        """The head's own node will end badly: the others need not wait until it has."""
        self._fail(verdict_of(0, self._records.host, outcome))

    def close(self) -> None:
        """Leave nothing half written."""
        self._alive.close()

    def ended(self, outcome: Outcome) -> None:
        """The head's own node ended."""
        self._node_ended(0, self._records.host, outcome)

    def tick(self) -> None:
        """Do what is due."""
        if self._door is not None:
            self._door.tick()
        if self.go is None and self.verdict is None:
            self._gather()
        self._ask()
        self._beat()
        self._alive.beat(self._loop.now, self._phase)
        self._look_at_the_job()
        self._settle()

    def _gather(self) -> None:
        missing = [rank for rank in range(1, self._options.nodes) if rank not in self._members]
        if not missing:
            self._release()
        elif self._loop.now >= self._deadline:
            message = _missing(missing, self._options) + "".join(f"; {note}" for note in self._notes[:5])
            self.trouble = launch_failure("rendezvous", message, self._phase)
            self._fail(verdict_of(missing[0], None, self.trouble))
        elif self._loop.now >= self._look_at:
            # A node that fails before it reaches us can only leave its verdict.
            self._look_at = self._loop.now + 1.0
            standing = self._records.verdict()
            if standing is not None:
                self._fail(standing)

    def _release(self) -> None:
        """All are here: say so, and write down who they are."""
        roster = self.roster()
        questions = questions_to(self._options.pools, roster)
        servers: Dict[str, List[str]] = {}
        for question in questions:
            servers.setdefault(question.pool, []).append(question.url)
        self._ranks = {entry.rank: global_ranks(self._options, entry.rank) for entry in roster}
        self._write_nodes()
        launch_port, user_port = free_port(self._held), free_port(self._held, skip=1)
        self.go = Go(self._head.address, launch_port, user_port, servers)
        self._tell("go", **self.go._asdict())
        if questions:
            self._asking = Asking(questions, self.secret("api key"), self._loop.now)

    def _write_nodes(self) -> None:
        write_nodes(self._records, self._options, self.roster(), self._ranks)

    def _set_ranks(self, rank: int, ranks: List[int]) -> None:
        self._ranks[rank] = ranks
        if self.verdict is None:
            self._write_nodes()

    def _ask(self) -> None:
        """Follow the questions to the servers."""
        asking = self._asking
        if asking is None or "servers" in self.stages or self.verdict is not None:
            return
        late = asking.overdue(self._loop.now)
        if asking.ready:
            self.announce("servers")
        elif late is not None:
            asking.stop()
            member = self._members.get(late.rank)
            failed = launch_failure("server", late.complaint(asking.last_answer(late.rank)))
            if member is not None:
                self._fail(verdict_of(late.rank, member.host, failed._replace(phase=member.phase)))

    def _look_at_the_job(self) -> None:
        """What the job's script says, by files: a warning signal to a step of Slurm reaches every process in it, and a
        srun that is told to end kills them all at once.
        """
        if self._loop.now < self._script_at:
            return
        self._script_at = self._loop.now + 1.0
        present = self._records.present()
        if WARNING in present:
            self.announce("warned")
        if self.verdict is None and STOP in present:
            why = "the job's script says that its time has come"
            told = Outcome(128 + SIGTERM, None, "stopped", why, phase=self._phase)
            self._fail(verdict_of(0, self._records.host, told))

    def _beat(self) -> None:
        bound = self._options.heartbeat_bound
        for member in list(self._members.values()):
            channel = member.channel
            if self._loop.now - channel.sent >= beat_interval(bound):
                channel.send(self._loop.now, type="beat")
            channel.flush()
            if channel.closed is not None:
                self._lose(member, channel.closed)
            elif self._loop.now - channel.heard > bound:
                self._lose(member, f"nothing was heard from it for {bound:g} s")

    def _settle(self) -> None:
        """Leave when the run is over and everyone has hung up."""
        if self._farewell_until is None:
            self._conclude()
        if self._farewell_until is None or self.verdict is None:
            return
        if not self._members or self._loop.now >= self._farewell_until:
            self.final = self.verdict.code

    def _conclude(self) -> None:
        """Decide whether the launch or the run is over, and say so."""
        if all(rank in self._outcomes for rank in self._deciding) and self.verdict is None:
            self.announce("finish")
        if self.verdict is None and len(self._outcomes) == self._options.nodes:
            who = "the node" if self._options.nodes == 1 else f"all {self._options.nodes} nodes"
            self.verdict = self._records.claim(
                Verdict(0, None, None, None, "exited", f"{who} ended with exit code 0")
            )
        if self.verdict is None or 0 not in self._outcomes:
            return
        running = [rank for rank in self._members if rank not in self._outcomes]
        if running and self._stop_until is not None and self._loop.now < self._stop_until:
            return
        self._tell("done", code=self.verdict.code)
        for member in self._members.values():
            member.channel.hang_up()
        self._farewell_until = self._loop.now + FAREWELL_SECONDS

    def _objection(self, rank: object, host: str) -> Optional[str]:
        """Why a node that says `rank` may not join, or None."""
        if not isinstance(rank, int) or not 0 < rank < self._options.nodes:
            return f"{host} says it is node {rank}, which is not one of 1 to {self._options.nodes - 1}"
        if rank in self._lost:
            return f"{host} says it is node {rank}, which was lost"
        if rank in self._members:
            return f"{host} says it is node {rank}, which {self._members[rank].host} is already"
        return None

    def _enter(self, member: Member) -> None:
        self._members[member.rank] = member
        self._loop.watch(member.channel.handle, lambda: self._hear(member))
        self._records.phase(member.rank, "started", member.started, host=member.host)
        self._records.phase(member.rank, "preflight", member.started)
        self._records.phase(member.rank, "rendezvous", time.time())
        if self.verdict is not None:
            member.channel.send(self._loop.now, type="stop", **self.verdict._asdict())

    def _note(self, refusal: str) -> None:
        self._notes.append(refusal)
        self._records.say(f"refused: {refusal}")

    def _hear(self, member: Member) -> None:
        for message in member.channel.receive(self._loop.now):
            try:
                if message["type"] == "phase":
                    member.phase = str(message["phase"])
                    self._records.phase(member.rank, member.phase, float(message["t"]))
                elif message["type"] == "ranks":
                    self._set_ranks(member.rank, [int(rank) for rank in message["ranks"]])
                elif message["type"] == "failing":
                    self._fail(verdict_of(member.rank, member.host, read_outcome(message)))
                elif message["type"] == "ended":
                    self._node_ended(member.rank, member.host, read_outcome(message))
            except (KeyError, TypeError, ValueError):
                member.channel.closed = "it does not speak our language"
        if member.channel.closed is not None:
            self._lose(member, member.channel.closed)

    def _node_ended(self, rank: int, host: str, outcome: Outcome) -> None:
        self._outcomes[rank] = outcome
        self._records.phase(rank, "ended", time.time(), code=outcome.code, reason=outcome.reason)
        if outcome.code != 0:
            self._fail(verdict_of(rank, host, outcome))

    def _lose(self, member: Member, why: str) -> None:
        """Give up a connection. Before the node said that it ended, this is the death of the node."""
        rank = member.rank
        if self._members.pop(rank, None) is None:
            return
        self._loop.forget(member.channel.handle)
        member.channel.close()
        if rank in self._outcomes or self._farewell_until is not None:
            return
        self._lost.add(rank)
        outcome = launch_failure("lost", f"node {rank} ({member.host}) was lost: {why}", member.phase)
        self._records.say(outcome.message)
        self._records.phase(rank, "lost", time.time())
        self._records.other_node(rank, member.host, member.started, outcome)
        self._fail(verdict_of(rank, member.host, outcome))

    def _fail(self, verdict: Verdict) -> None:
        """Stop everyone because of the first failure; later ones change nothing."""
        if self.verdict is None:
            self.verdict = self._records.claim(verdict)
            self._stop_until = self._loop.now + self._options.stop_grace + STOP_MARGIN_SECONDS
            self._tell("stop", **self.verdict._asdict())

    def _tell(self, kind: str, **message: object) -> None:
        for member in self._members.values():
            member.channel.send(self._loop.now, type=kind, **message)


def _missing(ranks: List[int], options: Options) -> str:
    shown = ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")
    names = f"node {shown}" if len(ranks) == 1 else f"nodes {shown}"
    return f"{names} of {options.nodes} did not arrive within {options.rendezvous_timeout:g} s"
