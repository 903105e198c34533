"""Values as they stand in `config.yaml`, in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import as_set, default_value, written
from tuneplane.documents.text import flow, quoted
from tuneplane.documents.tree import Mapping, Node, Scalar


def setting_text(parameter: Parameter, value: Any) -> str:
    """A value of the parameter as YAML text of one line."""
    if isinstance(value, list):
        return "[" + ", ".join(flow(written(item)) for item in value) + "]"
    return flow(as_set(parameter, value))


def given_text(parameter: Parameter, given: Any) -> str:
    """The same of a value as a manifest writes it."""
    return setting_text(parameter, default_value(replace(parameter, default=given)))


def yaml_text(node: Node) -> str:
    """Any value as YAML text of one line that means the same."""
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {yaml_text(item)}" for key, item in node.entries.items()) + "}"
    if not isinstance(node, Scalar):
        return "[" + ", ".join(map(yaml_text, node.items)) + "]"
    if node.quoted:
        return quoted(node.text)
    return "null" if node.value is None else flow(node.text) if isinstance(node.value, str) else node.text
