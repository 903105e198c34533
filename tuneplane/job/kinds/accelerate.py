"""How `accelerate launch` is started on each node."""

from __future__ import annotations

from typing import Dict, List, Sequence

from tuneplane.job.kinds.work import Scene

# Like `python -m accelerate.commands.launch`, but the working directory does not stand before the standard library,
# and the file that `accelerate config` left in the user's cache does not count: accelerate 1.15 lets it fill in
# whatever was not said.
LIKE_DASH_M = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    "from accelerate.commands import launch; launch.default_config_file = ''; launch.main()"
)

# What says itself how the ranks work together, beside which accelerate takes no --multi_gpu.
_WAYS = ("--multi_gpu", "--use_fsdp", "--use_deepspeed", "--use_megatron_lm", "--cpu", "--tpu")


def accelerate_words(scene: Scene) -> List[str]:
    """The command of one node; the words that were given are `train.py …` or `-m module …`.

    Every size and address is said, so that none is guessed. Sizes are of all nodes together.
    """
    options, place, go, pool = scene.options, scene.place, scene.go, scene.pool
    total = pool.nodes * pool.processes
    theirs = list(options.launcher_words)
    pairs = [
        ("--num_machines", str(pool.nodes)),
        ("--machine_rank", str(place.rank)),
        ("--num_processes", str(total)),
        ("--main_process_ip", go.address),
        ("--main_process_port", str(go.launch_port)),
        ("--rdzv_backend", "static"),
        ("--max_restarts", "0"),
    ]
    pairs += [(name, "no") for name in ("--mixed_precision", "--dynamo_backend") if not _says(theirs, name)]
    if _says(theirs, "--use_deepspeed") and not _says(theirs, "--deepspeed_multinode_launcher"):
        # Its other launchers go to the nodes by ssh.
        pairs.append(("--deepspeed_multinode_launcher", "standard"))
    flags = ["--same_network"]
    if total > 1 and not any(_says(theirs, way) for way in _WAYS):
        flags.append("--multi_gpu")
    ours = [word for pair in pairs for word in pair]
    words = list(options.words)
    if words[0] == "-m":
        words[0] = "--module"
    return [options.python, "-c", LIKE_DASH_M, *ours, *flags, *theirs, *words]


def accelerate_environment(scene: Scene) -> Dict[str, str]:
    """Without this accelerate 1.15 makes each rank a world of its own where there is no GPU; `--cpu` starts MPI."""
    return {} if scene.pool.gpus else {"ACCELERATE_USE_CPU": "true"}


def _says(words: Sequence[str], name: str) -> bool:
    return any(word.replace("-", "_") == name.replace("-", "_") for word in (w.split("=")[0] for w in words))
