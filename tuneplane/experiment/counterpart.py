"""Parameters of one method in another one: the same canonical name means the same."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import BadValue, as_set, default_value, function_of, read_node, read_text
from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.text import flow
from tuneplane.documents.tree import Mark, Node, Scalar
from tuneplane.experiment.config import CONFIG_FILE, WrittenNode
from tuneplane.experiment.setting import setting_text
from tuneplane.experiment.succession import parameter_of


@dataclass
class Counterparts:
    """What became of an experiment's parameters.

    found: (key, the new parameter, its value as YAML text) of each that has its like; left: (key, why) of the others.
    """

    found: list[tuple[str, str, str]] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)


def counterparts(params: Mapping[str, WrittenNode], old: Recipe | None, new: Recipe) -> Counterparts:
    """Each key of `params`, read as the new method reads it. old: None where nobody knows that recipe."""
    made = Counterparts()
    for key, item in params.items():
        name = counterpart(key, old, new)
        if name is None:
            made.left.append((key, f"{new.name} has nothing of that name"))
            continue
        taken = {other: word for word, other, _ in made.found}
        parameter = new.parameters[name]
        beside = [
            other for other in taken if other in parameter.excludes or name in new.parameters[other].excludes
        ]
        if name in taken:
            made.left.append((key, f"{taken[name]} is the same in {new.name}"))
        elif beside:
            made.left.append((key, f"{new.name} does not take it beside {beside[0]}"))
        else:
            before = old.parameters.get(parameter_of(old, key) or "") if old else None
            try:
                made.found.append((key, name, _text(parameter, before, item.node)))
            except BadValue as error:
                made.left.append((key, f"{name} in {new.name}: {error.what}, expected {error.expected}"))
    return made


def counterpart(key: str, old: Recipe | None, new: Recipe) -> str | None:
    """The new method's parameter that means what the key means in the old one."""
    name = parameter_of(old, key) if old else None
    if old is None or name is None:
        return parameter_of(new, key)
    meaning = _canonical(name, old.parameters[name])
    like = {_canonical(other, parameter): other for other, parameter in new.parameters.items()}
    if meaning in like:
        return like[meaning]
    # within a framework one name means one thing
    return name if old.framework == new.framework and name in new.parameters else None


def unwritten(old: Recipe, params: Mapping[str, WrittenNode]) -> dict[str, WrittenNode]:
    """Functions of the experiment's own files that are called although nobody set them: a default names them."""
    written = {parameter_of(old, key) for key in params}
    found = {}
    for name, parameter in old.parameters.items():
        beside = {*parameter.excludes, *(n for n, p in old.parameters.items() if name in p.excludes)}
        if parameter.type == "function" and parameter.default is not None and not written & {name, *beside}:
            text = str(parameter.default)
            node = Scalar(text, text, True, Mark(CONFIG_FILE))
            found[name] = WrittenNode(node, node.mark, f"params.{name}")
    return found


def other_defaults(old: Recipe, new: Recipe, params: Mapping[str, WrittenNode]) -> list[tuple[str, str, str]]:
    """(parameter of the new method, old default, new default) where nothing is set and the two differ."""
    written = {parameter_of(old, key) for key in params}
    found = []
    for name, parameter in old.parameters.items():
        like = counterpart(name, old, new)
        if name in written or like is None:
            continue
        before, now = (_default(p) for p in (parameter, new.parameters[like]))
        if before != now and before and now:
            found.append((like, before, now))
    return found


def _canonical(name: str, parameter: Parameter) -> str:
    return parameter.alias or name


def _default(parameter: Parameter) -> str:
    value = default_value(parameter)
    return "" if value is None else as_set(parameter, value)


def _text(new: Parameter, old: Parameter | None, node: Node) -> str:
    """The value for the new parameter: as the user wrote it where that reads the same. Raises BadValue."""
    text = _spoken(old, node)
    if new.type == "function" and old is not None and old.type == "function" and text is not None:
        return setting_text(new, read_text(new, _function(new, old, text)))
    value = read_node(new, node) if text is None else read_text(new, text)
    try:
        if isinstance(node, Scalar) and read_node(new, node) == value and not isinstance(value, list):
            return _as_written(new, node, value)
    except BadValue:
        pass
    return setting_text(new, value)


def _as_written(new: Parameter, node: Scalar, value: object) -> str:
    """`1e-6` stays `1e-6`; a choice that has several spellings is written as the new method shows it."""
    return setting_text(new, value) if new.type in ("enum", "bool", "function") else flow(node.text)


def _spoken(old: Parameter | None, node: Node) -> str | None:
    """The value as the old method means it; None where it did not take it, or where nobody knows."""
    if old is None:
        return None
    try:
        return as_set(old, read_node(old, node))
    except BadValue:
        return None


def _function(new: Parameter, old: Parameter, text: str) -> str:
    """The same function where the new method may be told its name; else the file, with the name that it wants."""
    file, name = function_of(old, text)
    file = posixpath.normpath(file)
    return f"{file}:{name}" if new.function_path else file
