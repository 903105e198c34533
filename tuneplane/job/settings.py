"""What the supervisor was asked to do: its arguments and the environment of the job."""

from __future__ import annotations

import os
import socket
import sys
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

KINDS = ("process", "torchrun")


class Refusal(Exception):
    """The arguments or the environment are wrong; the text says how."""


class Options(NamedTuple):
    """The arguments before `--`; times in seconds."""

    kind: str
    nodes: int
    processes_per_node: int
    interface: Optional[str]
    rendezvous_timeout: float
    heartbeat_bound: float
    stop_grace: float
    python: str
    requires: Tuple[str, ...]
    words: Tuple[str, ...]


class Place(NamedTuple):
    """Where this supervisor runs: `attempt_folder` is absolute and exists, `host` is Slurm's name of the node."""

    run_id: str
    attempt: str
    attempt_folder: str
    experiment_folder: str
    rank: int
    host: str


def read_options(arguments: List[str]) -> Options:
    """Read `--option VALUE … -- WORD…`; the form `--option=VALUE` is not taken. Raises Refusal."""
    if "--" not in arguments:
        raise Refusal("the arguments have no `--` before the command")
    split = arguments.index("--")
    given, words = arguments[:split], tuple(arguments[split + 1 :])
    if not words:
        raise Refusal("no command after `--`")
    if len(given) % 2:
        raise Refusal(f"the option `{given[-1]}` has no value")
    values = {given[i]: given[i + 1] for i in range(0, len(given), 2)}
    kind = values.pop("--kind", "")
    if kind not in KINDS:
        raise Refusal(f"`--kind {kind}` is none of {', '.join(KINDS)}")
    options = Options(
        kind=kind,
        nodes=_whole("--nodes", values.pop("--nodes", "")),
        processes_per_node=_whole("--processes-per-node", values.pop("--processes-per-node", "1")),
        interface=values.pop("--interface", None),
        rendezvous_timeout=_seconds("--rendezvous-timeout", values.pop("--rendezvous-timeout", "300")),
        heartbeat_bound=_seconds("--heartbeat-bound", values.pop("--heartbeat-bound", "60")),
        stop_grace=_seconds("--stop-grace", values.pop("--stop-grace", "10")),
        python=values.pop("--python", "") or sys.executable or "python3",
        requires=tuple(values.pop("--requires", "").split()),
        words=words,
    )
    if values:
        raise Refusal(f"unknown option `{sorted(values)[0]}`")
    return options


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


def _whole(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise Refusal(f"`{option} {text}` is not a whole number from 1")
    return int(text)


def _seconds(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise Refusal(f"`{option} {text}` is not a number of seconds above 0")
    return value


def command_environment(
    environment: Mapping[str, str], helper: str, address: str, port: int
) -> Dict[str, str]:
    """The environment of the command: what came in, less what others set for ranks, plus ours.

    Images with PYTORCH_VERSION get RANK, WORLD_SIZE and MASTER_* from pyxis 0.24, computed for one task per
    rank; torch 2.13 reads PET_* as if they were its options. Neither is true of a supervised node.
    """
    result = {k: v for k, v in environment.items() if k not in _OTHERS_RANKS and not k.startswith("PET_")}
    result["TUNEPLANE_HEAD_ADDRESS"] = address
    result["TUNEPLANE_HEAD_PORT"] = str(port)
    theirs = environment.get("PYTHONPATH", "")
    result["PYTHONPATH"] = helper + (os.pathsep + theirs if theirs else "")
    result.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    return result


_OTHERS_RANKS = frozenset(
    [f"{level}RANK" for level in ("", "LOCAL_", "GROUP_", "ROLE_")]
    + [f"{level}WORLD_SIZE" for level in ("", "LOCAL_", "GROUP_", "ROLE_")]
    + [f"TORCHELASTIC_{name}" for name in ("RUN_ID", "RESTART_COUNT", "MAX_RESTARTS", "USE_AGENT_STORE")]
    + ["MASTER_ADDR", "MASTER_PORT"]
)
