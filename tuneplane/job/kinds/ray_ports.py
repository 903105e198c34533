"""Which of a node's ports is for what in Ray; nothing is left for Ray to choose."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from tuneplane.job.team.ports import Claim, NoPorts, is_free

# Options of `ray start` that are ports, for each node and for the head alone.
_EACH = (
    "--object-manager-port",
    "--runtime-env-agent-port",
    "--dashboard-agent-grpc-port",
    "--dashboard-agent-listen-port",
    "--metrics-export-port",
)
_HEAD = ("--dashboard-port", "--ray-client-server-port")
# Ports that only the environment can set; Ray 2.60 takes 44217 and 44227 otherwise.
_VARIABLES = ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")


class RayPorts(NamedTuple):
    """Ports by the option or variable that sets them; `workers` are for Ray's own worker processes."""

    options: Dict[str, int]
    head_options: Dict[str, int]
    variables: Dict[str, int]
    workers: List[int]


def ports_needed(cpus: int) -> int:
    """How many ports a node claims: two workers for each CPU, their helpers, and Ray's services."""
    return 40 + 2 * cpus + 32


def assign(held: Claim, taken: List[int], node_manager: int) -> RayPorts:
    """Give every service of Ray a port of the claim, beside those in `taken`. Raises NoPorts."""
    free = [port for port in held.ports if port not in taken and port != node_manager and is_free(port)]
    count = len(_EACH) + len(_HEAD) + len(_VARIABLES)
    if len(free) <= count:
        raise NoPorts(f"too few ports are left between {held.first} and {held.last} for Ray")
    take = iter(free)
    options = {"--node-manager-port": node_manager, **{name: next(take) for name in _EACH}}
    head_options = {name: next(take) for name in _HEAD}
    return RayPorts(options, head_options, {name: next(take) for name in _VARIABLES}, list(take))
