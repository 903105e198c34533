"""The side of every other node: it finds the head, joins, hears it, and notices when it is gone."""

from __future__ import annotations

import secrets
import socket
import time
from typing import List, Optional, Set

from tuneplane.job.loop import Loop
from tuneplane.job.options import Options
from tuneplane.job.outcome import LAUNCH_FAILED, Outcome, Verdict, launch_failure, read_verdict, verdict_of
from tuneplane.job.records import Records
from tuneplane.job.settings import Place
from tuneplane.job.team import wire
from tuneplane.job.team.head import STOP_MARGIN_SECONDS
from tuneplane.job.team.ports import Offer
from tuneplane.job.team.rendezvous import Go, HeadFile, beat_interval, find, read_go, secret
from tuneplane.job.team.roster import Entry
from tuneplane.job.team.wire import Channel, Message

# Looking for head.json: often at first, then sparing the file server.
LOOK_SECONDS = 0.1
LATER_LOOK_SECONDS = 1.0
OFTEN_UNTIL_SECONDS = 30.0
CONNECT_SECONDS = 3.0


class Follower:
    """A node other than 0. `go`, `stages`, `verdict`, `trouble` and `final` are what it tells its own node."""

    def __init__(
        self, loop: Loop, options: Options, place: Place, records: Records, address: str, offer: Offer
    ) -> None:
        """`address` is how the others reach this node."""
        self.go: Optional[Go] = None
        self.verdict: Optional[Verdict] = None
        self.trouble: Optional[Outcome] = None
        self.final: Optional[int] = None
        self.refused = False
        self.stages: Set[str] = set()
        self._address, self._offer = address, offer
        self._loop, self._options, self._place, self._records = loop, options, place, records
        self._channel: Optional[Channel] = None
        self._head: Optional[HeadFile] = None
        self._nonce = secrets.token_hex(16)
        self._joined = False
        self._head_gone = False
        self._obstacle = "the head (node 0) published no address"
        self._began = loop.now
        self._look_at = loop.now
        self._ended_at: Optional[float] = None

    def phase(self, phase: str, **_more: object) -> None:
        """A milestone of this node, for the head to write down; before we joined it knows from our greeting."""
        self._say("phase", phase=phase, t=time.time())

    def announce(self, stage: str) -> None:
        """Only the head has something to announce."""

    def roster(self) -> List[Entry]:
        """Only the head knows."""
        return []

    @property
    def others_ended(self) -> bool:
        """Only the head knows."""
        return False

    def secret(self, purpose: str) -> str:
        """A secret of this attempt that every node knows; empty before the head was found."""
        return secret(self._head.token, purpose) if self._head is not None else ""

    def ranks(self, ranks: List[int]) -> None:
        """The global ranks that run on this node, where the launcher chose them."""
        self._say("ranks", ranks=ranks)

    def failing(self, outcome: Outcome) -> None:
        """This node will end badly: the others need not wait until it has."""
        if self.verdict is None:
            self.verdict = self._records.claim(verdict_of(self._place.rank, self._place.host, outcome))
            self._say("failing", **outcome._asdict())

    def close(self) -> None:
        """There is nothing to leave half written."""

    def ended(self, outcome: Outcome) -> None:
        """This node ended: leave the verdict if it failed, tell the head, and wait for its word."""
        self._ended_at = self._loop.now
        if self.refused:
            self.final = LAUNCH_FAILED
            return
        if outcome.code != 0 and self.verdict is None:
            self.verdict = self._records.claim(verdict_of(self._place.rank, self._place.host, outcome))
        if not self._say("ended", **outcome._asdict()):
            self.final = self.verdict.code if self.verdict is not None else LAUNCH_FAILED

    def tick(self) -> None:
        """Do what is due."""
        now, channel = self._loop.now, self._channel
        if self.final is not None or self.trouble is not None or self._head_gone:
            return
        if channel is None:
            self._seek()
        elif not self._joined:
            if channel.closed is not None or now - channel.heard > self._options.heartbeat_bound:
                why = channel.closed or "it is silent"
                self._obstacle = f"the head at {self._where()} does not answer: {why}"
                self._look_at = now + LATER_LOOK_SECONDS
                self._leave()
        else:
            if now - channel.sent >= beat_interval(self._options.heartbeat_bound):
                channel.send(now, type="beat")
            channel.flush()
            self._judge(channel)

    def _judge(self, channel: Channel) -> None:
        """Notice that the head is gone, or that it forgot us."""
        bound = self._options.heartbeat_bound
        if channel.closed is not None:
            self._lose_head(channel.closed)
        elif self._loop.now - channel.heard > bound:
            self._lose_head(f"nothing was heard from it for {bound:g} s")
        elif self._ended_at is not None and self.verdict is not None:
            patience = self._options.stop_grace + 2 * STOP_MARGIN_SECONDS
            self.final = self.verdict.code if self._loop.now > self._ended_at + patience else None

    def _seek(self) -> None:
        """Look for the head, and for a verdict that makes looking needless; give up at the deadline."""
        waited = self._loop.now - self._began
        if self._loop.now < self._look_at:
            return
        self._look_at = self._loop.now + (
            LOOK_SECONDS if waited < OFTEN_UNTIL_SECONDS else LATER_LOOK_SECONDS
        )
        self.verdict = self._records.verdict()
        if self.verdict is not None:
            return
        if waited > self._options.rendezvous_timeout:
            message = f"node {self._place.rank} did not reach the head within {self._options.rendezvous_timeout:g} s"
            self.trouble = launch_failure("rendezvous", f"{message}: {self._obstacle}", "rendezvous")
            return
        self._head = find(self._place.attempt_folder)
        if self._head is not None:
            self._connect(self._head)

    def _connect(self, head: HeadFile) -> None:
        try:
            handle = socket.create_connection((head.address, head.port), timeout=CONNECT_SECONDS)
        except OSError as error:
            self._obstacle = f"cannot connect to the head at {self._where()}: {error.strerror or error}"
            self._look_at = self._loop.now + LATER_LOOK_SECONDS
            return
        self._channel = channel = Channel(handle, self._loop.now)
        self._loop.watch(handle, lambda: self._hear(channel))

    def _hear(self, channel: Channel) -> None:
        for message in channel.receive(self._loop.now):
            try:
                self._obey(channel, message)
            except (KeyError, TypeError, ValueError):
                channel.closed = "it does not speak our language"

    def _obey(self, channel: Channel, message: Message) -> None:
        kind, head = message["type"], self._head
        if head is None:
            return
        if kind == "challenge" and not self._joined:
            rank, host = self._place.rank, self._place.host
            shown = wire.proof(head.token, "node", message["nonce"], rank, host, self._nonce)
            hello = {"rank": rank, "host": host, "nonce": self._nonce, "started": self._records.started}
            where = {"address": self._address, **self._offer._asdict()}
            channel.send(self._loop.now, type="hello", proof=shown, **hello, **where)
        elif kind == "refused" and not self._joined:
            self.refused = True
            self.trouble = launch_failure("rendezvous", f"the head refused this node: {message['message']}")
        elif kind == "welcome":
            self._joined = wire.is_proof(message["proof"], head.token, "head", self._nonce)
            if not self._joined:
                channel.closed = "it does not know the token of this attempt"
        elif self._joined and kind == "go":
            self.go = read_go(message)
        elif self._joined and kind == "stage":
            self.stages.add(str(message["name"]))
        elif self._joined and kind == "stop":
            self.verdict = self.verdict or read_verdict(message)
        elif self._joined and kind == "done":
            self.final = int(message["code"])

    def _lose_head(self, why: str) -> None:
        if self.final is not None:
            return
        self._head_gone = True
        host = self._head.host if self._head is not None else None
        phase = "rendezvous" if self.go is None else "running"
        outcome = launch_failure("lost", f"the head, node 0 ({host}), was lost: {why}", phase)
        self._records.say(outcome.message)
        self.verdict = self._records.claim(self.verdict or verdict_of(0, host, outcome))
        self._leave()
        if self._ended_at is not None:
            self.final = self.verdict.code

    def _leave(self) -> None:
        if self._channel is not None:
            self._loop.forget(self._channel.handle)
            self._channel.close()
            self._channel = None

    def _say(self, kind: str, **message: object) -> bool:
        """Tell the head, if there is one that we joined."""
        if self._channel is None or not self._joined or self._head_gone:
            return False
        self._channel.send(self._loop.now, type=kind, **message)
        return True

    def _where(self) -> str:
        return f"{self._head.address}:{self._head.port}" if self._head is not None else "an unknown address"
