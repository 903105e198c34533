"""One place that waits: for sockets, for signals, for children and for time."""

from __future__ import annotations

import selectors
import signal
import socket
import time
from typing import Callable, List

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Loop:
    """Sockets with their callbacks, the signals that arrived, and a clock.

    The clock, `now`, in seconds, counts only while this process runs: after a gap (`scontrol suspend`, a
    stalled filesystem) it goes on by `longest_step` at most, so that our own absence is never taken for the
    silence of others.
    """

    def __init__(self, longest_step: float) -> None:
        self.now = 0.0
        self.longest_step = longest_step
        self.stops: List[int] = []
        self.passed_on: List[int] = []
        self._last = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._wakeup, wakeup_end = socket.socketpair()
        for end in (self._wakeup, wakeup_end):
            end.setblocking(False)
        self._wakeup_end = wakeup_end
        signal.set_wakeup_fd(wakeup_end.fileno(), warn_on_full_buffer=False)
        self.watch(self._wakeup, self._drain)
        self._handle_signals()

    def watch(self, handle: socket.socket, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `handle` can be read."""
        self._selector.register(handle, selectors.EVENT_READ, callback)

    def forget(self, handle: socket.socket) -> None:
        """Stop watching `handle`; also right for one that is not watched."""
        try:
            self._selector.unregister(handle)
        except (KeyError, ValueError):
            return

    def wait(self, seconds: float) -> None:
        """Return after something happened and was handled, at the latest after `seconds`."""
        ready = self._selector.select(min(seconds, self.longest_step / 2))
        # What arrived while we were away is read before anyone's silence is judged.
        for key, _ in ready:
            key.data()
        current = time.monotonic()
        self.now += min(current - self._last, self.longest_step)
        self._last = current

    def _handle_signals(self) -> None:
        for number in STOP_SIGNALS:
            # What was ignored stays ignored: that is what nohup does with SIGHUP.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda n, _frame: self.stops.append(n))
        for number in PASSED_ON:
            signal.signal(number, lambda n, _frame: self.passed_on.append(n))
        signal.signal(signal.SIGCHLD, lambda _n, _frame: None)

    def _drain(self) -> None:
        try:
            while self._wakeup.recv(4096):
                pass
        except OSError:
            return
