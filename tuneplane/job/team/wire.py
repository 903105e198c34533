"""Messages between two supervisors: one JSON object per line over TCP."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from typing import Any, Dict, List, Optional

LONGEST_LINE = 65536

Message = Dict[str, Any]


class Channel:
    """A connection that never blocks and never raises: when it breaks, `closed` says why."""

    def __init__(self, handle: socket.socket, now: float) -> None:
        handle.setblocking(False)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.handle = handle
        self.closed: Optional[str] = None
        self.heard = now
        self.sent = now
        self._in = b""
        self._out = b""

    def send(self, now: float, **message: Any) -> None:
        """Queue a message and send what the other side takes."""
        self._out += json.dumps(message).encode() + b"\n"
        self.sent = now
        self.flush()

    def flush(self) -> None:
        """Send what is still queued, as far as it goes."""
        try:
            while self._out and self.closed is None:
                self._out = self._out[self.handle.send(self._out) :]
        except BlockingIOError:
            return
        except OSError as error:
            self.closed = f"the connection broke ({error.strerror})"

    def receive(self, now: float) -> List[Message]:
        """The messages that arrived whole."""
        try:
            while self.closed is None and len(self._in) <= LONGEST_LINE:
                data = self.handle.recv(LONGEST_LINE)
                if not data:
                    self.closed = "the connection was closed"
                    break
                self._in += data
                self.heard = now
        except BlockingIOError:
            pass
        except OSError as error:
            self.closed = f"the connection broke ({error.strerror})"
        *lines, self._in = self._in.split(b"\n")
        messages = [message for message in map(_parse, lines) if message is not None]
        if len(messages) < len(lines) or len(self._in) > LONGEST_LINE:
            self.closed = "it does not speak our language"
        return messages

    def hang_up(self) -> None:
        """Say that no more comes, but stay able to read: closing with unread data can lose what was said."""
        try:
            self.handle.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """Close the connection."""
        self.closed = self.closed or "closed here"
        self.handle.close()


def _parse(line: bytes) -> Optional[Message]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None


def proof(token: str, *parts: object) -> str:
    """Shows that the speaker knows `token`, for these parts only; the token itself never travels."""
    text = json.dumps([str(part) for part in parts])
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, token: str, *parts: object) -> bool:
    """Whether `given` is the proof for these parts, in constant time."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode("utf-8", "replace"), proof(token, *parts).encode()
    )
