"""What the supervisors are told: one list of options for all nodes, see `tuneplane.job.settings`."""

from __future__ import annotations

import json
from typing import Any

from tuneplane.catalog.recipe import Recipe
from tuneplane.durations import parse_duration
from tuneplane.job.checks.columns import DataFile, written_files
from tuneplane.plan.model import Pool
from tuneplane.sites.model import Site
from tuneplane.sizes import parse_size


def launch_options(
    site: Site,
    recipe: Recipe,
    held: list[Pool],
    requires: tuple[str, ...],
    data: tuple[DataFile, ...] = (),
) -> tuple[tuple[str, str], ...]:
    """(option, value) in a fixed order; an option that would say the default is left out where it would be noise."""
    if not held:
        return ()
    launch, made, heartbeat = recipe.launch, held[0].topology, parse_duration(site.network.heartbeat)
    nodes = sum(pool.topology.nodes for pool in held)
    options = {
        "--kind": launch.kind,
        "--nodes": str(nodes),
        "--processes-per-node": "" if launch.kind in ("process", "ray") else str(made.processes_per_node),
        "--cpus": str(made.cpus_per_node),
        "--gpus": str(made.gpus_per_node),
        "--rendezvous": "c10d" if launch.rendezvous == "c10d" else "",
        "--launcher-words": _json(_words(launch.options)) if launch.options else "",
        "--pools": _json([_pool(pool) for pool in held]) if len(held) > 1 else "",
        "--interface": site.network.interface,
        "--heartbeat-bound": str(heartbeat) if nodes > 1 and heartbeat != 60 else "",
        "--warning": _warning(recipe),
        "--old-ray": "allowed" if launch.kind == "ray" and site.runtime.old_ray else "",
        "--requires": " ".join(requires),
        "--columns": written_files(data),
        **_preflight(site),
    }
    return tuple((option, value) for option, value in options.items() if value)


def _words(options: dict[str, str]) -> list[str]:
    """Flags of Accelerate's launcher; `true` is a flag without a value."""
    return [f"--{name}" if value == "true" else f"--{name}={value}" for name, value in options.items()]


def _pool(pool: Pool) -> dict[str, Any]:
    made = pool.topology
    data = {
        "name": pool.name,
        "nodes": made.nodes,
        "cpus": made.cpus_per_node,
        "gpus": made.gpus_per_node,
        "processes": made.processes_per_node,
    }
    if pool.words:
        data["server"] = {"words": list(pool.words), "ready": pool.ready, "timeout": pool.timeout}
    return data


def _warning(recipe: Recipe) -> str:
    notice = recipe.checkpoints.warning if recipe.checkpoints else None
    return f"signal:{notice.signal}" if notice and notice.tell == "signal" else ""


def _preflight(site: Site) -> dict[str, str]:
    need = site.preflight
    free = {
        "scratch": parse_size(need.scratch),
        "shared_memory": parse_size(need.shared_memory),
        "run": parse_size(need.run_folder),
        "inodes": need.inodes,
    }
    memlock = need.memlock
    return {
        "--free": _json(free),
        "--memlock": memlock if memlock in ("", "unlimited") else str(parse_size(memlock)),
        "--gpu-count": need.gpus,
        "--gpu-vendor": site.runtime.gpu,
    }


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
