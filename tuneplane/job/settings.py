"""Where this supervisor runs: what the environment of the job says."""

from __future__ import annotations

import os
import socket
from typing import Mapping, NamedTuple, Optional


class Refusal(Exception):
    """The arguments or the environment are wrong; the text says how."""


class Place(NamedTuple):
    """Where this supervisor runs: `attempt_folder` is absolute and exists, `host` is Slurm's name of the node."""

    run_id: str
    attempt: str
    attempt_folder: str
    experiment_folder: str
    rank: int
    host: str


def attempt_folder(environment: Mapping[str, str]) -> str:
    """The folder of this attempt, where everything is written. Raises Refusal when there is none."""
    run, attempt = (_need(environment, name) for name in ("TUNEPLANE_RUN_DIR", "TUNEPLANE_ATTEMPT"))
    folder = os.path.abspath(os.path.join(run, "attempts", attempt))
    if not os.path.isdir(folder):
        raise Refusal(f"there is no folder `{folder}`")
    return folder


def read_place(environment: Mapping[str, str], nodes: int) -> Place:
    """Read the job's environment and hold it against `--nodes`. Raises Refusal.

    A launcher that placed fewer nodes than were asked for must never run at half size silently.
    """
    placed = _need(environment, "TUNEPLANE_NODES")
    if placed != str(nodes):
        raise Refusal(
            f"the launcher placed `{placed}` nodes (TUNEPLANE_NODES), but the job is for {nodes} (--nodes)"
        )
    text = _need(environment, "TUNEPLANE_NODE_RANK")
    rank = rank_of(environment)
    if rank is None or rank >= nodes:
        raise Refusal(
            f"TUNEPLANE_NODE_RANK is `{text}`, which is not one of 0 to {nodes - 1} (--nodes {nodes})"
        )
    experiment = _need(environment, "TUNEPLANE_EXPERIMENT_DIR")
    if not os.path.isdir(experiment):
        raise Refusal(f"there is no folder `{experiment}` (TUNEPLANE_EXPERIMENT_DIR)")
    run_id, attempt = (_need(environment, name) for name in ("TUNEPLANE_RUN_ID", "TUNEPLANE_ATTEMPT"))
    return Place(
        run_id, attempt, attempt_folder(environment), os.path.abspath(experiment), rank, host_of(environment)
    )


def rank_of(environment: Mapping[str, str]) -> Optional[int]:
    """TUNEPLANE_NODE_RANK as a number, or None when it is not one."""
    text = environment.get("TUNEPLANE_NODE_RANK", "")
    return int(text) if text.isascii() and text.isdigit() else None


def host_of(environment: Mapping[str, str]) -> str:
    """The name by which the admin knows this node: Slurm's if it says one, else the host's own."""
    return environment.get("SLURMD_NODENAME") or socket.gethostname()


def job_key(environment: Mapping[str, str], place: Place) -> str:
    """What tells this start from others on the same host: the Slurm job (or the run) and the attempt."""
    return f"{environment.get('SLURM_JOB_ID') or place.run_id}/{place.attempt}"


def _need(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise Refusal(f"{name} is not set")
    return value
