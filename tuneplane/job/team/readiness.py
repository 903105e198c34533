"""How the head learns that every server of the job answers."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from tuneplane.job.team.pools import Pool, Server
from tuneplane.job.team.roster import Entry

# How often a server is asked, and how long it may take to answer; both in seconds.
ASK_SECONDS = 0.5
ANSWER_SECONDS = 3.0


class Question(NamedTuple):
    """One server, reached at `url`, that has to answer 200 at its path in its time."""

    rank: int
    pool: str
    url: str
    server: Server

    def complaint(self, answer: str) -> str:
        """That it did not, in words."""
        where, bound = f"{self.url}{self.server.ready}", f"{self.server.timeout:g} s"
        return f"the server of node {self.rank} (pool `{self.pool}`) did not answer 200 at {where} within {bound}: {answer}"


def questions_to(pools: Sequence[Pool], roster: Sequence[Entry]) -> List[Question]:
    """One question for each server of the job."""
    nodes = {entry.rank: entry for entry in roster}
    return [
        Question(rank, pool.name, f"http://{nodes[rank].address}:{nodes[rank].port}", pool.server)
        for pool in pools
        if pool.server is not None
        for rank in pool.ranks
    ]


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the key is for the servers of this job alone."""

    def redirect_request(self, *_: Any) -> None:
        """A redirection is an answer other than 200."""


class Asking:
    """Asks servers in a thread until each answered 200 once, so that the supervisor never waits for one."""

    def __init__(self, questions: List[Question], key: str, now: float) -> None:
        """`key` goes with each question; `now` is the supervisor's clock."""
        self._open = list(questions)
        self._key = key
        self._began = now
        self._answers: Dict[int, str] = {}
        self._over = threading.Event()
        # Nothing in the environment may send a question inside the job to a proxy.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
        threading.Thread(target=self._work, daemon=True).start()

    @property
    def ready(self) -> bool:
        """Whether all have answered."""
        return not self._open

    def overdue(self, now: float) -> Optional[Question]:
        """A server that did not answer in its time, or None."""
        late = [question for question in list(self._open) if now - self._began > question.server.timeout]
        return late[0] if late else None

    def last_answer(self, rank: int) -> str:
        """What a server said last instead of 200."""
        return self._answers.get(rank, "no answer yet")

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()

    def _work(self) -> None:
        while self._open and not self._over.is_set():
            for question in list(self._open):
                if self._ask(question):
                    self._open.remove(question)
            self._over.wait(ASK_SECONDS)

    def _ask(self, question: Question) -> bool:
        url, headers = question.url + question.server.ready, {"Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(url, headers=headers)
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                self._answers[question.rank] = f"status {answer.status}"
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            self._answers[question.rank] = f"status {error.code}"
        except Exception as error:
            # Whatever a half-started server sends; it is asked again.
            reason = getattr(error, "reason", error)
            self._answers[question.rank] = str(getattr(reason, "strerror", None) or reason)
        return False
