"""A node that joins the Ray cluster of the head."""

from __future__ import annotations

from typing import List, Optional

from tuneplane.job.kinds.ray_node import GRACE_SECONDS, RayNode
from tuneplane.job.kinds.work import Scene
from tuneplane.job.outcome import Outcome

WORKER = "Ray worker"
# Ray 2.60 gives a node 30 s to come up and no more, which a loaded host or a cold image can exceed.
STARTS = 5


class RayWorker:
    """Serves the cluster until the head says that the launch is over."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._node = RayNode(scene)
        self._running = False
        self._starts = 0

    def go(self) -> None:
        """The head's Ray has to be there first."""

    def poll(self, now: float) -> Optional[Outcome]:
        """Join when the head can be joined; well when the launch is over, a failure when Ray ends before."""
        crew, stages = self._scene.crew, self._scene.team.stages
        if "finish" in stages:
            return Outcome(0, None, "exited", "Ray was ended after the command of the head")
        if "ray" in stages and not crew.has(WORKER):
            self._starts += 1
            self._node.start(WORKER, head=False)
        if "running" in stages and not self._running:
            self._running = True
            self._scene.phase("running")
        end = crew.end(WORKER)
        if end is None:
            return None
        if "running" in stages or self._starts == STARTS:
            return self._node.failure(end)
        self._scene.records.say(f"{end.message} before the cluster was whole; starting it again")
        crew.forget(WORKER)
        self._node.release()
        return None

    def main(self) -> str:
        """Ray."""
        return WORKER

    def grace(self) -> float:
        """Short, since what the command has to save is on the head."""
        return min(GRACE_SECONDS, self._scene.crew.grace)

    def warned(self) -> List[int]:
        """Nobody: the command on the head hears of it."""
        return []

    def release(self) -> None:
        """Remove Ray's folder."""
        self._node.release()
