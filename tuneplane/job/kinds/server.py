"""A node of a server pool."""

from __future__ import annotations

from typing import List, Optional

from tuneplane.job.kinds.work import Scene
from tuneplane.job.outcome import Outcome, launch_failure

SERVER = "server"


class Serving:
    """A node of a server pool: it ends well only when the launch is over."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def go(self) -> None:
        """Start the server with the port that the others were told."""
        scene, server = self._scene, self._scene.pool.server
        assert server is not None
        url = scene.go.servers[scene.pool.name][scene.place.rank - scene.pool.first]
        port = url.rpartition(":")[2]
        words = [word.replace("{host}", scene.own).replace("{port}", port) for word in server.words]
        scene.crew.start(SERVER, words, scene.environment)
        scene.phase("serving")

    def poll(self, now: float) -> Optional[Outcome]:
        """Well when the launch is over, a failure when the server ends before."""
        if "finish" in self._scene.team.stages:
            return Outcome(0, None, "exited", "the server was ended after the launch")
        end = self._scene.crew.end(SERVER)
        if end is None:
            return None
        message = f"{end.message} before the launch was over (pool `{self._scene.pool.name}`)"
        failed = launch_failure("server", message)
        return failed._replace(code=end.code or failed.code, signal=end.signal)

    def main(self) -> str:
        """The server."""
        return SERVER

    def grace(self) -> float:
        """As for the command."""
        return self._scene.crew.grace

    def warned(self) -> List[int]:
        """Nobody: what has to be saved is in the launch."""
        return []

    def release(self) -> None:
        """There is nothing to remove."""
