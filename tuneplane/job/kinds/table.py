"""The ways of running a node, in one table."""

from __future__ import annotations

from typing import Callable, Dict

from tuneplane.job.kinds.accelerate import accelerate_environment, accelerate_words
from tuneplane.job.kinds.launch import Launch
from tuneplane.job.kinds.ray_head import RayHead
from tuneplane.job.kinds.ray_worker import RayWorker
from tuneplane.job.kinds.server import Serving
from tuneplane.job.kinds.torchrun import torchrun_words
from tuneplane.job.kinds.work import Scene, Work

_WORKS: Dict[str, Callable[[Scene], Work]] = {
    "process": lambda scene: Launch(scene, list(scene.options.words), ranked=False),
    "torchrun": lambda scene: Launch(scene, torchrun_words(scene), ranked=True),
    "accelerate": lambda scene: Launch(scene, accelerate_words(scene), True, accelerate_environment(scene)),
    "ray": RayHead,
    "ray, joining": RayWorker,
    "server": Serving,
}


def work_of(scene: Scene) -> Work:
    """What runs on this node."""
    if scene.pool.server is not None:
        return _WORKS["server"](scene)
    joins = scene.options.kind == "ray" and scene.place.rank != 0
    return _WORKS["ray, joining" if joins else scene.options.kind](scene)
