"""What a recipe's expressions see beside parameters and sizes, and the values they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneplane.catalog.recipe import Recipe
from tuneplane.catalog.rules import SURROUNDINGS, pool_names, value_of
from tuneplane.experiment.config import DATA_KEYS, Config
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.model import Pool, Ref, Setting
from tuneplane.plan.paths import path_value
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Folder:
    """A folder or file known only in the job: `output / "checkpoints"` is one below it. It is no text."""

    ref: Ref

    def __truediv__(self, name: str) -> Folder:
        suffix = self.ref.suffix
        assert isinstance(suffix, str)
        return Folder(Ref(self.ref.place, f"{suffix}/{name}", self.ref.prefix))

    def __str__(self) -> str:
        raise TypeError("a folder that only the job knows is no text; `folder / name` is what lies in it")


def sizes(recipe: Recipe, held: Sequence[Pool]) -> dict[str, Any]:
    """The names of rules that are no parameters. held: the pools, the launch's own first."""
    made = held[0].topology
    values: dict[str, Any] = {
        "nodes": made.nodes,
        "gpus_per_node": made.gpus_per_node,
        "processes_per_node": made.processes_per_node,
        "world_size": made.world_size,
        "cpus_per_node": made.cpus_per_node,
    }
    values |= dict.fromkeys(pool_names(recipe.launch), 0)
    for pool in held[1:]:
        name = pool.name.replace("-", "_")
        values |= {f"{name}_nodes": pool.topology.nodes, f"{name}_gpus_per_node": pool.topology.gpus_per_node}
    return values


def surroundings(inputs: Inputs) -> dict[str, Any]:
    """What is neither a parameter nor a size: paths, trackers, the site's network."""
    return {
        "model": _path(inputs, "model"),
        "train_data": _paths(inputs, "data.train"),
        "validation_data": _paths(inputs, "data.validation"),
        "output": Folder(Ref("output")),
        "files": Folder(Ref("files")),
        "tracking": tracked(inputs),
        "online": inputs.site.network.online,
        "experiment": inputs.experiment,
        "joined": _joined,
    }


def without_paths(config: Config, site: Site) -> dict[str, Any]:
    """The same where no run is planned: what the configuration says, wherever it lies."""
    data = {
        key: [item.text for name, item in config.data.items() if is_part_of(name, key)] for key in DATA_KEYS
    }
    return {
        **dict.fromkeys(SURROUNDINGS),
        "model": config.model.text if config.model else None,
        **{f"{key}_data": texts for key, texts in data.items()},
        "tracking": [item.text for item in config.tracking],
        "output": Folder(Ref("output")),
        "files": Folder(Ref("files")),
        "online": site.network.online,
        "joined": _joined,
    }


def tracked(inputs: Inputs) -> list[str]:
    """Where metrics go: what the user says, else the console and TensorBoard as far as the method has them."""
    if inputs.config.tracking:
        return [item.text for item in inputs.config.tracking]
    return [word for word in ("console", "tensorboard") if word in inputs.recipe.tracking]


def _path(inputs: Inputs, key: str) -> str | None:
    return inputs.located[key].path if key in inputs.located else None


def _paths(inputs: Inputs, key: str) -> list[str]:
    """The paths of a data set, one for each of its files."""
    named = [item for item in inputs.located if is_part_of(item, key)]
    return [path for path in (_path(inputs, item) for item in named) if path]


def is_part_of(name: str, key: str) -> bool:
    """Whether it is a data set, or one of its further files."""
    return name == key or name.startswith(f"{key}.")


def _joined(items: Sequence[str], separator: str) -> str | None:
    return separator.join(items) if items else None


def seen(inputs: Inputs, settings: Sequence[Setting]) -> dict[str, Any]:
    """The parameters as expressions see them: paths lead to where they lie in the job."""
    parameters = inputs.recipe.parameters
    return {
        setting.key: _seen(inputs, setting.value) if parameters[setting.key].type == "path" else setting.value
        for setting in settings
    }


def _seen(inputs: Inputs, value: Any) -> Any:
    if value is None:
        return None
    found = path_value(inputs.experiment_dir, inputs.has_file, value)
    return Folder(found) if isinstance(found, Ref) else found


def evaluated(expression: str, values: Mapping[str, Any]) -> Any:
    """The value that is sent: text, number, truth, a reference, a list of these, or None for nothing.

    Raises InputError for an expression that cannot be evaluated.
    """
    return _plain(value_of(expression, values))


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.ref if isinstance(value, Folder) else value
