"""Plan → the sbatch script."""

from __future__ import annotations

import re
from typing import Any

from tuneplane.durations import parse_duration
from tuneplane.experiment.secrets import READ_SH
from tuneplane.experiment.snapshot import CHECK_SH
from tuneplane.plan.model import Plan, Pool, Ref, Variable
from tuneplane.plan.paths import site_path
from tuneplane.plan.pools import components
from tuneplane.render import encode
from tuneplane.render.header import header
from tuneplane.render.templates import filled
from tuneplane.runtimes.node_sh import CHECK_IMAGE_SH, STAGE_SH
from tuneplane.sites.model import Site
from tuneplane.sizes import parse_size

ALIAS = "TUNEPLANE_ENV_"
"""Before the names of variables that `contained` gives their own names inside."""
PARAMS_END = "TUNEPLANE_PARAMS"
_LAUNCHES = {
    "process": "once on each node",
    "torchrun": "torchrun on each node, one process for each GPU (or as many as the profile says)",
    "accelerate": "Accelerate's launcher on each node, one process for each GPU (or as many as the profile says)",
    "ray": "a Ray cluster of all nodes, and the command once on its head",
}
"""What the command is started with, by launch kind."""
PREFIXES = {"host": "", "apptainer": "APPTAINERENV_", "pyxis": ALIAS, "enroot": ALIAS}
"""What a runtime wants before the name of a variable that is to arrive inside."""


def render(plan: Plan, site: Site) -> str:
    """The script's text. Raises InputError for a value that no script can hold, SiteError above the site's size."""
    return filled("job.sbatch.j2", _context(plan, site), site.slurm.max_script_size)


def _context(plan: Plan, site: Site) -> dict[str, Any]:
    everywhere, on_node = _variables(plan)
    return {
        "plan": plan,
        "site": site,
        "header": header(plan, site),
        "audit": " ".join(encode.word(item) for item in plan.provenance.command),
        "everywhere": everywhere,
        "on_node": on_node,
        "node": "plugin" if plan.runtime == "pyxis" else "own",
        "parts": list(components(list(plan.pools) or [Pool("", plan.topology)])),
        "launch_text": _LAUNCHES[plan.launch_kind],
        "end": encode.verbatim("tp_finish" if plan.scheduler == "slurm" else "tp_end"),
        "node_functions": _node_functions(plan, site),
        "gpu": site.runtime.gpu if plan.topology.gpus_per_node else "none",
        "names": _names(plan) if PREFIXES[plan.runtime] == ALIAS else [],
        "prefix": encode.verbatim(PREFIXES[plan.runtime]),
        "path": ":".join(site.path),
        "inherited": set(site.inherit),
        "secrets_file": site_path(site.folders.secrets),
        "model_cache": site_path(site.folders.model_cache),
        "mounts": _mounts(plan),
        "scratch": site_path(site.folders.scratch),
        "binds": [
            (site_path(bind.removesuffix(":ro")), "ro" if bind.endswith(":ro") else "rw")
            for bind in site.runtime.binds
        ],
        "staging_folder": site_path(site.runtime.staging.folder),
        "staging_free": parse_size(site.runtime.staging.keep_free),
        "staging_age": parse_duration(site.runtime.staging.max_age),
        "check_image_sh": encode.verbatim(CHECK_IMAGE_SH.strip("\n")),
        "stage_sh": encode.verbatim(STAGE_SH.strip("\n")),
        "check_sh": encode.verbatim(CHECK_SH.strip("\n")),
        "read_sh": encode.verbatim(READ_SH.strip("\n")),
        "params": encode.heredoc(plan.params, PARAMS_END),
        "params_end": encode.verbatim(PARAMS_END),
    }


def _variables(plan: Plan) -> tuple[list[Variable], list[Variable]]:
    """Variables the batch shell exports, and those that each node sets because they hold its scratch folder."""
    here: list[Variable] = []
    there: list[Variable] = []
    for variable in plan.environment:
        on_node = isinstance(variable.value, Ref) and variable.value.place == "scratch"
        (there if on_node else here).append(variable)
    return here, there


def _names(plan: Plan) -> list[str]:
    """Names of all variables that are handed in, those of the secrets too."""
    own = ["TUNEPLANE_RUN_ID", "TUNEPLANE_ATTEMPT", "TUNEPLANE_RESUME_FROM"]
    own += ["TUNEPLANE_NODE_RANK"] if plan.runtime == "enroot" else []
    return [*own, *(variable.name for variable in plan.environment), *plan.secrets]


def _node_functions(plan: Plan, site: Site) -> list[str]:
    """The script's functions that the nodes' own shells need."""
    names = ["tp_say", "tp_fail"]
    if plan.image:
        names += ["tp_take_image", *functions(CHECK_IMAGE_SH)]
        names += functions(STAGE_SH) if site.runtime.staging.folder else []
    if plan.runtime == "pyxis":
        return names
    names += ["tp_wait", "tp_sweep", "tp_start", "tp_supervise"]
    names += ["tp_mount", "tp_mount_all", "tp_see"] if plan.image else []
    names += ["tp_rc"] if plan.runtime == "enroot" else []
    return names + (["tp_read_secret"] if plan.secrets else [])


def functions(text: str) -> list[str]:
    """Names of the functions that a piece of bash defines."""
    return re.findall(r"^(tp_\w+)\(\)", text, re.M)


def _mounts(plan: Plan) -> list[str]:
    """Paths a container must see, each once, in the plan's order."""
    return list(dict.fromkeys(item.mount or item.path for item in plan.located if item.path))
