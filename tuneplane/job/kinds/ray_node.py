"""What the head of a Ray cluster and the nodes that join it have in common."""

from __future__ import annotations

import importlib.util
import os
from typing import Dict, List, Optional

from tuneplane.job.crew import CouldNotStart
from tuneplane.job.kinds.ray_folder import RayFolder, folder_path
from tuneplane.job.kinds.ray_ports import RayPorts, assign
from tuneplane.job.kinds.ray_version import OWN_FOLDERS, Ray, find_ray
from tuneplane.job.kinds.work import Scene
from tuneplane.job.outcome import LAUNCH_FAILED, Outcome, launch_failure
from tuneplane.job.settings import job_key
from tuneplane.job.team.ports import NoPorts

TOKEN = "ray_token"
# Once the command is over nothing in Ray has anything to save; measured: some of it outlives TERM by far.
GRACE_SECONDS = 1.0

# Like the program `ray`, whose script need not be beside the interpreter, nor on PATH.
RAY = "import sys; sys.path[:] = [p for p in sys.path if p]; from ray.scripts.scripts import main; sys.exit(main())"


def no_ray(name: str, error: Exception) -> CouldNotStart:
    """That what Ray needs on this node is not to be had."""
    why = f"`{error.filename}`: {error.strerror}" if isinstance(error, OSError) else str(error)
    return CouldNotStart(f"the {name} could not start: {why}", LAUNCH_FAILED, "ray")


class RayNode:
    """Ray on one node: its ports, its folder, its environment, and the words that start it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        found = find_ray()
        # Looked for before anything was started.
        self.ray = found if found is not None else Ray(scene.options.python, "0.0")
        self.environment = self._environment()
        self._folder: Optional[RayFolder] = None
        self._ports: Optional[RayPorts] = None

    @property
    def address(self) -> str:
        """Where the cluster is reached."""
        return f"{self._scene.go.address}:{self._scene.go.launch_port}"

    def start(self, name: str, head: bool) -> None:
        """Start Ray in the foreground. Raises CouldNotStart."""
        try:
            ports = self._ports = assign(self._scene.held, self._taken(), self._scene.offered)
            path = self._make_folder()
        except (NoPorts, OSError) as error:
            raise no_ray(name, error) from error
        self.environment.update({variable: str(port) for variable, port in ports.variables.items()})
        where = ["--head", f"--port={self._scene.go.launch_port}"] if head else [f"--address={self.address}"]
        options = dict(ports.options)
        if head:
            where += ["--include-dashboard=false", "--dashboard-host=127.0.0.1"]
            options.update(ports.head_options)
            if importlib.util.find_spec("grpc") is None:
                # Without grpc there is no client server, and the option is an error.
                del options["--ray-client-server-port"]
        words = [f"{option}={port}" for option, port in options.items()]
        words += [
            f"--worker-port-list={','.join(map(str, ports.workers))}",
            f"--node-ip-address={self._scene.own}",
            f"--num-cpus={self._scene.pool.cpus}",
            f"--num-gpus={self._scene.pool.gpus}",
            f"--temp-dir={path}",
            "--disable-usage-stats",
            "--block",
        ]
        environment = (
            {k: v for k, v in self.environment.items() if k != "RAY_ADDRESS"} if head else self.environment
        )
        self._scene.crew.start(name, [self.ray.python, "-c", RAY, "start", *where, *words], environment)
        self._scene.phase("ray")

    def failure(self, end: Outcome) -> Outcome:
        """Ray ended though nobody asked it to."""
        failed = launch_failure("ray", f"{end.message} before the run was over")
        return failed._replace(code=end.code or failed.code, signal=end.signal)

    def release(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.remove()

    def _taken(self) -> List[int]:
        go = self._scene.go
        return [go.launch_port, go.user_port]

    def _make_folder(self) -> str:
        scene = self._scene
        rank, scratch = scene.place.rank, os.environ.get("TMPDIR", "")
        if self.ray.version < OWN_FOLDERS:
            # A node that joins uses the path of the head's, whatever it is told.
            rank, scratch = 0, ""
        path = folder_path(job_key(os.environ, scene.place), rank, scratch)
        if rank == scene.place.rank or scene.own != scene.go.address:
            self._folder = RayFolder(path)
        return path

    def _environment(self) -> Dict[str, str]:
        result = dict(self._scene.environment)
        result["RAY_ADDRESS"] = self.address
        result["RAY_USAGE_STATS_ENABLED"] = "0"
        # Ray 2.60 lets a node that is told to stop wait 30 s for its work; by then the run is over.
        result["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
        if self.ray.authenticated:
            result["RAY_AUTH_MODE"] = "token"
            result["RAY_AUTH_TOKEN_PATH"] = os.path.join(self._scene.place.attempt_folder, TOKEN)
            result.pop("RAY_AUTH_TOKEN", None)
        return result
