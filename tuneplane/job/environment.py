"""The environment of what a node runs: what came in, less what others left for their own ranks, plus ours."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional

from tuneplane.job.options import Options
from tuneplane.job.records import WARNING
from tuneplane.job.team.address import interface_of
from tuneplane.job.team.pools import variable
from tuneplane.job.team.rendezvous import Go

# torch 2.13 reads PET_* as if they were its options; an MPI that finds the others believes that it was started by
# one and waits for its peers.
_OTHERS = ("PET_", "PMI_", "PMIX_", "OMPI_", "MV2_")
# Libraries inside Ray's workers that find these take the whole job for one of theirs.
_SCHEDULER = ("SLURM_", "SRUN_", "SBATCH_")

# Images with PYTORCH_VERSION get RANK, WORLD_SIZE and MASTER_* from pyxis 0.24, computed for one task per rank.
_OTHERS_RANKS = frozenset(
    [f"{level}RANK" for level in ("", "LOCAL_", "GROUP_", "ROLE_")]
    + [f"{level}WORLD_SIZE" for level in ("", "LOCAL_", "GROUP_", "ROLE_")]
    + [f"TORCHELASTIC_{name}" for name in ("RUN_ID", "RESTART_COUNT", "MAX_RESTARTS", "USE_AGENT_STORE")]
    + ["MASTER_ADDR", "MASTER_PORT"]
)

# Slurm without a driver's library sets those of every vendor; with two of them set, torch on ROCm filters twice and
# programs refuse to start.
_VISIBLE = {
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    "nvidia": ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
}


def _one_vendor(environment: Dict[str, str], vendor: str) -> None:
    """Leave the one variable of visible GPUs that the vendor's programs read first."""
    held = [name for name in _VISIBLE.get(vendor, _VISIBLE["nvidia"]) if name in environment]
    for name in held[1:]:
        del environment[name]


def command_environment(
    given: Mapping[str, str], options: Options, helper: str, folder: str, go: Go, own: str, key: str
) -> Dict[str, str]:
    """The environment of every program of this node.

    `folder` is the attempt's, `own` this node's address, `key` what the servers of the job ask for.
    """
    unwanted = _OTHERS + (_SCHEDULER if options.kind == "ray" else ())
    result = {k: v for k, v in given.items() if k not in _OTHERS_RANKS and not k.startswith(unwanted)}
    _one_vendor(result, options.needs.gpu_vendor)
    result["TUNEPLANE_HEAD_ADDRESS"] = go.address
    result["TUNEPLANE_HEAD_PORT"] = str(go.user_port)
    result["TUNEPLANE_WARNING_FILE"] = os.path.join(folder, WARNING)
    theirs = given.get("PYTHONPATH", "")
    result["PYTHONPATH"] = helper + (os.pathsep + theirs if theirs else "")
    result.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    for pool, addresses in go.servers.items():
        result[variable(pool)] = " ".join(addresses)
    if go.servers:
        result["TUNEPLANE_API_KEY"] = key
    name = _interface(options, own)
    if name is not None:
        # gloo takes the host's name otherwise, which may resolve to loopback or to nothing.
        result.setdefault("GLOO_SOCKET_IFNAME", name)
    return result


def _interface(options: Options, own: str) -> Optional[str]:
    return interface_of(own) if options.nodes > 1 else None


def helper_folder() -> str:
    """The folder that holds `tuneplane/`, for PYTHONPATH."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
