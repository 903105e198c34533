"""An experiment taken to another method: what has its like there comes along, and the rest is told."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.manifest import TRAINER, Launch, Parameter
from tuneplane.catalog.params import function_of, read_node
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.documents.text import decoded, flow
from tuneplane.documents.tree import Scalar
from tuneplane.documents.yaml import parse
from tuneplane.experiment.carried import Carried
from tuneplane.experiment.config import CONFIG_FILE, Config, Written, WrittenNode, read_config
from tuneplane.experiment.counterpart import counterparts, other_defaults, unwritten
from tuneplane.experiment.locate import Experiment
from tuneplane.experiment.lock import Lock
from tuneplane.experiment.setting import yaml_text
from tuneplane.experiment.starter import Move
from tuneplane.faults import Faults
from tuneplane.names import looks_secret
from tuneplane.plan.overrides import override_values
from tuneplane.plan.pools import pools_by_role
from tuneplane.plan.settings import settle
from tuneplane.prepare import RESOURCE_KEYS, table_of_keys
from tuneplane.standing import origin_of, version_for


@dataclass(frozen=True)
class Left:
    """What the new method does not take. line: of the old configuration, 0 for what does not stand there."""

    what: str
    value: str
    line: int
    why: str


@dataclass
class Crossing:
    """What becomes of an experiment's configuration under another method.

    old: the recipe it was made with, None when nobody knows; came: (old key, new key, value) of all that comes along.
    """

    old: Recipe | None
    new: Recipe
    config: Config
    carried: Carried = field(default_factory=Carried)
    came: list[tuple[str, str, str]] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    def take(self, key: str, value: str, as_key: str = "") -> None:
        self.came.append((key, as_key or key, value))

    def leave(self, item: Written | WrittenNode, why: str) -> None:
        """Something of the configuration is left; a value that may be a secret is not shown."""
        if isinstance(item, Written):
            text = item.text
        else:
            text = item.node.text if isinstance(item.node, Scalar) else yaml_text(item.node)
        name = item.key.partition(".")[2]
        self.left.append(Left(item.key, "…" if looks_secret(name) else text, item.mark.line, why))


def read_old(experiment: Experiment, lock: Lock, catalog: Catalog, new: Recipe) -> Crossing:
    """The experiment's configuration, read as the recipe it was made with has it. Raises InputError."""
    name = f"{experiment.label}/{CONFIG_FILE}"
    config = read_config(decoded(experiment.read(CONFIG_FILE), name), name, RESOURCE_KEYS)
    origin = origin_of(lock, catalog) if catalog.has(lock.method) else None
    old = origin.recipe if origin else None
    if old is None and catalog.has(lock.method):
        manifest = catalog.manifest(lock.method)
        old = resolve(manifest, version_for(lock, manifest))
    return Crossing(old, new, config)


def cross(made: Crossing, catalog: Catalog, moved: Callable[[str], str], fresh: Collection[str]) -> None:
    """Fill in what comes along and what is left.

    moved: a path of the old experiment → the same for the new one; fresh: files that are the new starter's.
    """
    _inputs(made, moved)
    _params(made, moved, fresh)
    _overrides(made, catalog)
    _words(made)
    _resources(made)
    _pinned(made)
    if made.old is not None:
        differ = other_defaults(made.old, made.new, made.config.params)
        if differ:
            spoken = ", ".join(f"{name} {before} → {now}" for name, before, now in differ)
            made.notes.append(f"defaults that nobody set differ: {spoken}")


def _inputs(made: Crossing, moved: Callable[[str], str]) -> None:
    config, new = made.config, made.new
    if config.model is not None:
        if new.model == "none":
            made.leave(config.model, f"{new.name} takes no model")
        else:
            made.carried.model = moved(config.model.text)
            made.take("model", made.carried.model)
    for key, item in config.data.items():
        part = key.partition(".")[0]
        if (new.data.train if part == "train" else new.data.validation) == "none":
            made.leave(item, f"{new.name} takes no {part} data")
            continue
        path = moved(item.text)
        made.carried.data.setdefault(part, []).append(path)
        made.take(f"data.{key}", path)
        suffix = Path(path).suffix.lstrip(".")
        if suffix and new.data.formats and suffix not in new.data.formats:
            formats = ", ".join(new.data.formats)
            made.notes.append(f"data.{key} is {flow(path)}, and {new.name} reads {formats}")
    if made.carried.data and made.old is not None:
        _compare_data(made, made.old)


def _compare_data(made: Crossing, old: Recipe) -> None:
    new = made.new
    if old.data.kind != new.data.kind and "any" not in (old.data.kind, new.data.kind):
        made.notes.append(f"{old.name} starts from {old.data.kind}, {new.name} from {new.data.kind}")
    elif new.data.layouts and new.data.layouts != old.data.layouts:
        made.notes.append(f"{new.name} reads other columns: see `tp methods {new.name}`")


def _params(made: Crossing, moved: Callable[[str], str], fresh: Collection[str]) -> None:
    """fresh: files that are the new starter's, whose functions have the names that the new method wants."""
    config, old, new = made.config, made.old, made.new
    default = unwritten(old, config.params) if old is not None else {}
    params = {**config.params, **default}
    found = counterparts(params, old, new)
    for key, name, text in found.found:
        parameter = new.parameters[name]
        if parameter.type == "path":
            text = flow(moved(getattr(params[key].node, "text", text)))
        elif parameter.type == "function":
            file = function_of(parameter, parameter_value(parameter, text))[0]
            text = flow(file) if file in fresh else text
            if key in default and text == flow(str(parameter.default)):
                continue
        made.carried.params[name] = text
        made.take(f"params.{key}", text, f"params.{name}")
    for key, why in found.left:
        if key in config.params:
            made.leave(config.params[key], why)


def _overrides(made: Crossing, catalog: Catalog) -> None:
    """Upstream's own keys mean something within one framework only."""
    config, new = made.config, made.new
    same = made.old is not None and made.old.framework == new.framework
    keys = table_of_keys(catalog, new) if config.overrides and same else None
    for key, item in config.overrides.items():
        if not same:
            made.leave(item, f"a key of {made.old.framework}" if made.old else "a key of another framework")
            continue
        alone, faults = Config(overrides={key: item}), Faults()
        settle(new, alone, (), faults)
        override_values(new, alone, keys, faults)
        if faults.found:
            problem = faults.found[0][1]
            made.leave(item, problem.what + (f", {problem.expected}" if problem.expected else ""))
        else:
            made.carried.overrides[key] = yaml_text(item.node)
            made.take(item.key, made.carried.overrides[key])


def _words(made: Crossing) -> None:
    """Environment, secrets, trackers and the program's own words."""
    config, new, carried = made.config, made.new, made.carried
    for name, item in config.env.items():
        carried.env[name] = item.text
        made.take(item.key, "…" if looks_secret(name) else item.text)
    carried.secrets = [item.text for item in config.secrets]
    if carried.secrets:
        made.take("secrets", ", ".join(carried.secrets))
    for item in config.tracking:
        if item.text in new.tracking:
            carried.tracking.append(item.text)
        else:
            made.leave(item, f"{new.name} tracks to {', '.join(new.tracking)}")
    if carried.tracking:
        made.take("tracking", ", ".join(carried.tracking))
    if config.args and not new.launch.words:
        for item in config.args:
            made.leave(item, f"{new.name} takes no words of its own")
    elif config.args:
        carried.args = [item.text for item in config.args]
        made.take("args", " ".join(map(flow, carried.args)))


def _resources(made: Crossing) -> None:
    config, new, carried = made.config, made.new, made.carried
    carried.resources = {key: item.text for key, item in config.resources.items()}
    for key, text in carried.resources.items():
        made.take(f"resources.{key}", text)
    for roles, item in config.pools.items():
        named = _roles(roles, made.old.launch if made.old else None, new.launch)
        if named is None:
            made.leave(item, f"{new.name} has no such nodes")
        else:
            carried.pools[named] = item.text
            made.take(item.key, item.text, f"resources.pools.{named}")
    missing = set(_needed(new.launch)) - {_pool(new.launch, roles) for roles in carried.pools}
    for name in sorted(missing):
        made.notes.append(f"{new.name} needs nodes for {name}: `resources.pools`")


def _roles(text: str, old: Launch | None, new: Launch) -> str | None:
    """What the pool of these roles is called in the new method; None where it has none of the kind."""
    if _pool(new, text) is not None:
        return text
    # the nodes of the launch itself are there in every method, whatever they are called beside
    return TRAINER if old is not None and _pool(old, text) == TRAINER else None


def _pool(launch: Launch, text: str) -> str | None:
    """The pool that all of these roles belong to."""
    owner = pools_by_role(launch)
    names = {owner.get(role.strip()) for role in text.split(",")}
    return names.pop() if len(names) == 1 else None


def _needed(launch: Launch) -> Iterator[str]:
    return (name for name, pool in launch.pools.items() if pool.need == "required")


def _pinned(made: Crossing) -> None:
    """What makes the one method and not the other."""
    if made.old is None:
        return
    old, new = made.old, made.new
    for key, value in old.pinned.items():
        now = new.pinned.get(key)
        if now != value:
            why = f"{new.name} has {now}" if now is not None else f"{new.name} does not pin it"
            if old.framework != new.framework:
                why = f"what makes {old.name}, a key of {old.framework}"
            made.left.append(Left(f"pinned {key}", value, 0, why))
    if pins := [f"{key} = {value}" for key, value in new.pinned.items() if key not in old.pinned]:
        made.notes.append(f"{new.name} always has {', '.join(pins)}")


def parameter_value(parameter: Parameter, text: str) -> Any:
    """The value that YAML text gives a parameter; a file of the experiment by its plain path."""
    value = read_node(parameter, parse(f"v: {text}", "value").entries["v"])
    return posixpath.normpath(value) if parameter.type == "function" else value
