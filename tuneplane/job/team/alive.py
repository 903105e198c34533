"""The sign of life that the head leaves in the attempt's folder, for those who look from outside the job."""

from __future__ import annotations

import threading
import time
from typing import Optional

from tuneplane.job.records import Records

ALIVE = "alive.json"
CLOSE_SECONDS = 5.0


class Alive:
    """Writes alive.json in a thread: a filesystem that hangs must not silence the head towards its nodes."""

    def __init__(self, records: Records, interval: float) -> None:
        self._records, self._interval = records, interval
        self._due = 0.0
        self._phase: Optional[str] = None
        self._asked = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def beat(self, now: float, phase: str) -> None:
        """Say that the supervisor lives and what it does: at once when that is new, else once per interval."""
        if phase != self._phase or now >= self._due:
            self._phase, self._due = phase, now + self._interval
            self._asked.set()

    def close(self) -> None:
        """Write no more, and wait a moment for what is being written."""
        self._over = True
        self._asked.set()
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while self._asked.wait() and not self._over:
            self._asked.clear()
            sign = {"t": round(time.time(), 3), "phase": self._phase}
            self._records.write_json(ALIVE, sign, lasting=False)
