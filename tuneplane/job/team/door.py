"""Where nodes reach the head: who knows the token and has a rank of its own comes in, others are refused."""

from __future__ import annotations

import secrets
import socket
import time
from typing import Callable, List, Optional

from tuneplane.job.loop import Loop
from tuneplane.job.team import wire
from tuneplane.job.team.ports import Offer
from tuneplane.job.team.wire import Channel, Message

# How long a connection may take to say who it is, and how many may be at it.
GREETING_SECONDS = 10.0
MOST_STRANGERS = 1024


class Member:
    """A node that has joined; `started` in unix seconds by its own clock."""

    def __init__(
        self, channel: Channel, rank: int, host: str, started: float, address: str, offer: Offer
    ) -> None:
        self.channel = channel
        self.rank = rank
        self.host = host
        self.started = started
        self.address = address
        self.offer = offer
        self.phase = "rendezvous"


class _Stranger:
    def __init__(self, channel: Channel, until: float, peer: str) -> None:
        self.channel = channel
        self.until = until
        self.peer = peer
        self.nonce = secrets.token_hex(16)


class Door:
    """The listening side of the head."""

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        token: str,
        objection: Callable[[object, str], Optional[str]],
        enter: Callable[[Member], None],
        note: Callable[[str], None],
    ) -> None:
        """`objection(rank, host)` says why such a node may not join; `enter` gets each that may, before it is
        welcomed; `note` gets a line about each refusal."""
        self._loop, self._listener, self._token = loop, listener, token
        self._objection, self._enter, self._note = objection, enter, note
        self._strangers: List[_Stranger] = []
        loop.watch(listener, self._accept)

    def tick(self) -> None:
        """Forget those who hung up or took too long."""
        for stranger in list(self._strangers):
            if stranger.channel.closed is not None or self._loop.now > stranger.until:
                self._strangers.remove(stranger)
                self._loop.forget(stranger.channel.handle)
                stranger.channel.close()

    def _accept(self) -> None:
        try:
            handle, peer = self._listener.accept()
        except OSError:
            return
        channel = Channel(handle, self._loop.now)
        if len(self._strangers) >= MOST_STRANGERS:
            channel.close()
            return
        stranger = _Stranger(channel, self._loop.now + GREETING_SECONDS, f"{peer[0]}:{peer[1]}")
        self._strangers.append(stranger)
        self._loop.watch(handle, lambda: self._hear(stranger))
        channel.send(self._loop.now, type="challenge", nonce=stranger.nonce)

    def _hear(self, stranger: _Stranger) -> None:
        messages = stranger.channel.receive(self._loop.now)
        if messages:
            self._strangers.remove(stranger)
            self._loop.forget(stranger.channel.handle)
            self._greet(stranger, messages[0])

    def _greet(self, stranger: _Stranger, hello: Message) -> None:
        rank, host, nonce = hello.get("rank"), str(hello.get("host")), hello.get("nonce")
        if not wire.is_proof(hello.get("proof"), self._token, "node", stranger.nonce, rank, host, nonce):
            why = f"a connection from {stranger.peer} does not know the token of this attempt"
            return self._refuse(stranger, why)
        objection = self._objection(rank, host)
        if objection is not None or not isinstance(rank, int):
            return self._refuse(stranger, objection or f"{host} says no rank")
        channel = stranger.channel
        channel.send(self._loop.now, type="welcome", proof=wire.proof(self._token, "head", nonce))
        started = hello.get("started")
        began = float(started) if isinstance(started, (int, float)) else time.time()
        ports = hello.get("port"), hello.get("first"), hello.get("last")
        offer = Offer(*(port if isinstance(port, int) else 0 for port in ports))
        self._enter(Member(channel, rank, host, began, str(hello.get("address")), offer))

    def _refuse(self, stranger: _Stranger, why: str) -> None:
        self._note(why)
        stranger.channel.send(self._loop.now, type="refused", message=why)
        stranger.channel.hang_up()
        stranger.channel.close()
