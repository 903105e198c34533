"""`overrides`: upstream's own keys, held against the table of those that the locked release has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.tree import Mapping as Tree
from tuneplane.documents.tree import Node, Scalar, Sequence
from tuneplane.errors import InputError, nearest, shown
from tuneplane.experiment.config import CONFIG_FILE, Config, WrittenNode
from tuneplane.faults import Faults
from tuneplane.plan.model import Setting

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*\Z")
"""A key below an open section, which nothing else holds: any other character could be read as Hydra's grammar."""


def override_values(
    recipe: Recipe, config: Config, keys: Mapping[str, str] | None, faults: Faults
) -> list[Setting]:
    """The overrides as they are sent. Unknown keys, and values that no key has, are faults.

    keys: upstream's → their types, None where there is no table of them. Keys that are pinned, owned, ignored or a parameter's are refused elsewhere, see `plan.settings`.
    """
    found = []
    for key, item in config.overrides.items():
        if keys is None or not _known(recipe, keys, key, item, faults):
            continue
        kind = keys.get(key, "")
        try:
            value = _read(item.node)
            _check(value, kind)
        except ValueError as error:
            faults.add(InputError, str(error), item.where, _EXPECTED.get(kind.rstrip("*"), ""))
            continue
        found.append(Setting(key, value, CONFIG_FILE, item.where))
    return found


def _known(recipe: Recipe, keys: Mapping[str, str], key: str, item: WrittenNode, faults: Faults) -> bool:
    if key in keys:
        return True
    if any(key.startswith(f"{section}.") for section in recipe.config.open):
        if not _PLAIN.match(key):
            faults.add(
                InputError,
                f"{shown(key)} is no key",
                item.where,
                "words of letters, digits and `_` with dots between",
            )
        return _PLAIN.match(key) is not None
    inside = [known for known in keys if known.startswith(f"{key}.")]
    release = f"{recipe.framework} {recipe.framework_version}"
    if inside:
        what, expected = f"{shown(key)} is a section of {release}", f"its keys, such as `{inside[0]}`"
    else:
        close = nearest(key.lstrip("+-~"), keys)
        what, expected = f"{release} has no key {shown(key)}", f"`{close}`?" if close else ""
    faults.add(InputError, what, item.where, expected)
    return False


def _read(node: Node) -> Any:
    """Raises ValueError for what is no plain value, list of these or empty mapping."""
    if isinstance(node, Scalar):
        if "\0" in node.text:
            raise ValueError("the value holds a NUL character")
        return node.text if node.quoted else node.value
    if isinstance(node, Sequence):
        if not all(isinstance(item, Scalar) for item in node.items):
            raise ValueError("a member of the list is no plain value")
        return [_read(item) for item in node.items]
    assert isinstance(node, Tree)
    return {}


_EXPECTED = {"flag": "`true` or `false`", "int": "a whole number", "float": "a number"}


def _check(value: Any, kind: str) -> None:
    """What a command line cannot carry. Raises ValueError."""
    if kind == "flag" and not isinstance(value, bool):
        raise ValueError("the flag takes no value")
    if (
        kind.rstrip("*") in ("int", "float")
        and not kind.endswith("*")
        and isinstance(value, (str, list, dict))
    ):
        raise ValueError(f"{shown(str(value))} is not a number")
