"""Node 0 of a Ray cluster: Ray's head, the check that all nodes joined, then the command."""

from __future__ import annotations

import json
import os
import socket
from typing import List, Optional

from tuneplane.job.kinds.ray_node import GRACE_SECONDS, TOKEN, RayNode, no_ray
from tuneplane.job.kinds.ray_version import OWN_FOLDERS
from tuneplane.job.kinds.work import COMMAND, Scene
from tuneplane.job.outcome import Outcome, launch_failure
from tuneplane.job.team.pools import Pool

HEAD = "Ray head"
CHECK = "check of the cluster"
ANSWER = ".ray-check"
# How much longer than its own time the check may take, and how long a local connection may.
CHECK_MARGIN_SECONDS = 15.0
CONNECT_SECONDS = 0.2
# How long the other nodes may take to end their Ray before the head's goes too.
OTHERS_SECONDS = 10.0

CHECKING = "import sys; sys.path[:] = [p for p in sys.path if p]; from tuneplane.job.kinds.ray_check import main; sys.exit(main())"


class RayHead:
    """The end of the command is the end of the run."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._node = RayNode(scene)
        self._answer = os.path.join(scene.place.attempt_folder, ANSWER)
        self._deadline: Optional[float] = None
        self._wait_until: Optional[float] = None

    def go(self) -> None:
        """Write the token, then start Ray's head."""
        records, ray = self._scene.records, self._node.ray
        if ray.authenticated:
            self._write_token()
        else:
            records.say(
                f"Ray {ray.text} has no authentication: whoever reaches its ports can run code in this job"
            )
        self._node.start(HEAD, head=True)

    def poll(self, now: float) -> Optional[Outcome]:
        """Go on to the next step when the one before is done."""
        crew = self._scene.crew
        if self._deadline is None:
            self._deadline = now + self._scene.options.rendezvous_timeout
        if crew.has(COMMAND):
            return self._ended(now)
        end = crew.end(HEAD)
        if end is not None:
            return self._node.failure(end)
        if not crew.has(CHECK):
            return self._look(now, self._deadline)
        checked = crew.end(CHECK)
        if checked is None:
            return self._late(
                now, self._deadline + CHECK_MARGIN_SECONDS, "the check of the Ray cluster did not end"
            )
        if checked.code != 0:
            return launch_failure("ray", self._shortfall() or checked.message)
        if not self._scene.go.servers or "servers" in self._scene.team.stages:
            crew.start(COMMAND, self._scene.options.words, self._node.environment)
            self._scene.team.announce("running")
            self._scene.phase("running")
        return None

    def main(self) -> str:
        """The command, or Ray before it was started."""
        return COMMAND if self._scene.crew.has(COMMAND) else HEAD

    def grace(self) -> float:
        """As for the command while it runs; without it nobody has anything to save."""
        crew = self._scene.crew
        return crew.grace if crew.pid(COMMAND) is not None else min(GRACE_SECONDS, crew.grace)

    def warned(self) -> List[int]:
        """The command."""
        pid = self._scene.crew.pid(COMMAND)
        return [] if pid is None else [-pid]

    def release(self) -> None:
        """Remove Ray's folder and what the check left."""
        self._node.release()
        if os.path.lexists(self._answer):
            os.unlink(self._answer)

    def _look(self, now: float, deadline: float) -> Optional[Outcome]:
        """Let the others join as soon as Ray's head answers, and start to look who did."""
        if not all(map(self._answers, self._needed())):
            return self._late(now, deadline, "Ray's head did not answer")
        self._scene.team.announce("ray")
        wanted = [rank for pool in self._pools() for rank in pool.ranks]
        question = {
            "nodes": [entry._asdict() for entry in self._scene.team.roster() if entry.rank in wanted],
            "cpus": sum(pool.nodes * pool.cpus for pool in self._pools()),
            "gpus": sum(pool.nodes * pool.gpus for pool in self._pools()),
            "seconds": max(1.0, deadline - now),
            "answer": self._answer,
        }
        words = [self._node.ray.python, "-c", CHECKING, json.dumps(question)]
        self._scene.crew.start(CHECK, words, self._node.environment)
        return None

    def _needed(self) -> List[int]:
        """The ports that answer before another node may join."""
        scene = self._scene
        # Nodes of one host share a folder in an old Ray, and the first that is there takes the head's socket.
        own = [scene.offered] if self._node.ray.version < OWN_FOLDERS else []
        return [scene.go.launch_port, *own]

    def _answers(self, port: int) -> bool:
        try:
            socket.create_connection((self._scene.own, port), timeout=CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    def _late(self, now: float, deadline: float, what: str) -> Optional[Outcome]:
        if now < deadline:
            return None
        return launch_failure("ray", f"{what} within {self._scene.options.rendezvous_timeout:g} s")

    def _ended(self, now: float) -> Optional[Outcome]:
        """The end of the command; when it is good, the others' Ray ends before the one they need."""
        crew, team = self._scene.crew, self._scene.team
        end = crew.end(COMMAND)
        if end is None:
            lost = crew.end(HEAD)
            return None if lost is None else self._node.failure(lost)
        if end.code != 0:
            return end
        team.announce("finish")
        self._wait_until = now + OTHERS_SECONDS if self._wait_until is None else self._wait_until
        return end if team.others_ended or now > self._wait_until else None

    def _pools(self) -> List[Pool]:
        return [pool for pool in self._scene.options.pools if pool.server is None]

    def _shortfall(self) -> str:
        """What the check said about who is missing."""
        try:
            with open(self._answer, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, ValueError):
            return ""

    def _write_token(self) -> None:
        path = os.path.join(self._scene.place.attempt_folder, TOKEN)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, self._scene.team.secret("ray").encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise no_ray(HEAD, error) from error
