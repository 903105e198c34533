"""The job's environment: the platform's variables, then the site's, the recipe's and the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane.catalog.params import written
from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, TuneplaneError, shown
from tuneplane.experiment.config import Config, Located, Written
from tuneplane.faults import Faults
from tuneplane.names import VARIABLE, looks_secret, owned
from tuneplane.plan.expressions import evaluated, is_part_of
from tuneplane.plan.hydra import VARIABLES
from tuneplane.plan.limits import too_long
from tuneplane.plan.model import Pool, Ref, Value, Variable


def platform(
    held: Sequence[Pool], located: Mapping[str, Located], online: bool, model_cache: Value | None
) -> list[Variable]:
    """What every job sees. held: the pools, the launch's own first. Paths that only the job knows are references."""
    made = held[0].topology

    def path_of(key: str) -> str:
        """The path, or those of all its files with a colon between them."""
        return ":".join(item.path or "" for name, item in located.items() if is_part_of(name, key))

    values: dict[str, Value] = {
        "TUNEPLANE_RUN_DIR": Ref("run"),
        "TUNEPLANE_OUTPUT_DIR": Ref("output"),
        "TUNEPLANE_EXPERIMENT_DIR": Ref("files"),
        "TUNEPLANE_PARAMS": Ref("attempt", "/params.json"),
        "TUNEPLANE_MODEL": path_of("model"),
        "TUNEPLANE_TRAIN_DATA": path_of("data.train"),
        "TUNEPLANE_VALIDATION_DATA": path_of("data.validation"),
        "TUNEPLANE_NODES": str(sum(pool.topology.nodes for pool in held)),
        "TUNEPLANE_GPUS_PER_NODE": str(made.gpus_per_node),
        "OMP_NUM_THREADS": str(made.cpus_per_process),
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "LANG": "C.UTF-8",
        "USER": Ref("user"),
        "LOGNAME": Ref("user"),
        "TUNEPLANE_HOME": Ref("scratch", "/home"),
        "TMPDIR": Ref("scratch", "/tmp"),
        "XDG_CACHE_HOME": Ref("scratch", "/cache"),
        "XDG_CONFIG_HOME": Ref("scratch", "/config"),
        "XDG_DATA_HOME": Ref("scratch", "/data"),
        "TRITON_CACHE_DIR": Ref("scratch", "/cache/triton"),
        "TORCHINDUCTOR_CACHE_DIR": Ref("scratch", "/cache/inductor"),
        "VLLM_CACHE_ROOT": Ref("scratch", "/cache/vllm"),
        "HF_DATASETS_CACHE": Ref("scratch", "/cache/datasets"),
        "HF_MODULES_CACHE": Ref("scratch", "/cache/modules"),
    }
    for pool in held if len(held) > 1 else ():
        name = f"TUNEPLANE_POOL_{pool.name.upper().replace('-', '_')}"
        values[f"{name}_NODES"] = str(pool.topology.nodes)
        values[f"{name}_GPUS_PER_NODE"] = str(pool.topology.gpus_per_node)
    if model_cache is not None:
        values["HF_HOME"] = model_cache
    if not online:
        values |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return [Variable(name, value, "platform") for name, value in values.items()]


ELSEWHERE = {
    "HOME": "TUNEPLANE_HOME: Apptainer lets nobody hand it in",
    "TUNEPLANE_RUN_ID": "the run folder's name",
    "TUNEPLANE_ATTEMPT": "1, and one more at each restart",
    "TUNEPLANE_RESUME_FROM": "the newest complete checkpoint of earlier attempts, else empty",
    "TUNEPLANE_WARNING_FILE": "a file that appears when the time limit is near",
    "TUNEPLANE_NODE_RANK": "0 on the head",
    "TUNEPLANE_HEAD_ADDRESS": "numeric, published by the head",
    "TUNEPLANE_HEAD_PORT": "a free port of the head",
}
"""Variables that the job itself finds out, and what they hold."""


def computed(recipe: Recipe, values: Mapping[str, Any], faults: Faults) -> dict[str, Value]:
    """The recipe's variables that follow from values. values: what expressions see."""
    found: dict[str, Value] = {}
    for name, expression in recipe.variables.items():
        try:
            value = evaluated(expression, values)
        except TuneplaneError as error:
            faults.take(error)
            continue
        if value is not None:
            found[name] = value if isinstance(value, Ref) else written(value)
    return found


def with_home(base: list[Variable], words: Sequence[Value]) -> list[Variable]:
    """The variables with the one for the user's own home folder, where a word of the command asks for it."""
    name = VARIABLES["home"]
    asked = any(f"oc.env:{name}}}" in str(word) for word in words)
    return [*base, Variable(name, Ref("home"), "platform")] if asked else base


def layered(
    base: list[Variable], site: Mapping[str, str], recipe: Mapping[str, Value], config: Config, faults: Faults
) -> list[Variable]:
    """The variables in force, by name: the user's over the recipe's over the site's over the platform's."""
    stacked: dict[str, list[Variable]] = {variable.name: [variable] for variable in base}
    layers: tuple[tuple[str, Mapping[str, Value]], ...] = (("site", {**site}), ("recipe", recipe))
    for source, mapping in layers:
        for name, value in mapping.items():
            stacked.setdefault(name, []).append(Variable(name, value, source))
    for secret in config.secrets:
        if owned(secret.text):
            faults.add(
                InputError, f"{shown(secret.text)} belongs to the launcher", secret.where, "another name"
            )
    for name, item in config.env.items():
        if _allowed(name, item, config, faults):
            stacked.setdefault(name, []).append(Variable(name, item.text, "config.yaml", item.where))
    return [_top(stack) for _, stack in sorted(stacked.items())]


def _top(stack: list[Variable]) -> Variable:
    top = stack[-1]
    lost = tuple((v.source, str(v.value), v.where) for v in reversed(stack[:-1]))
    return Variable(top.name, top.value, top.source, top.where, lost)


def _allowed(name: str, item: Written, config: Config, faults: Faults) -> bool:
    if not VARIABLE.match(name):
        faults.add(
            InputError, f"{shown(name)} is no name of a variable", item.where, "letters, digits and `_`"
        )
    elif owned(name):
        faults.add(InputError, f"{shown(name)} belongs to the launcher", item.where, "another name")
    elif looks_secret(name):
        hint = f"add `{name}` to `secrets` and put the value into the secrets file"
        faults.add(InputError, f"{shown(name)} looks like a secret", item.where, hint=hint)
    elif any(name == secret.text for secret in config.secrets):
        faults.add(InputError, f"{shown(name)} stands under `secrets` too", item.where)
    elif "\0" in item.text:
        faults.add(InputError, f"the value of {shown(name)} holds a NUL character", item.where)
    elif too_long(f"{name}={item.text}"):
        faults.add(
            InputError,
            f"the value of {shown(name)} has {len(item.text.encode())} bytes",
            item.where,
            "less than 128 KiB",
        )
    else:
        return True
    return False
