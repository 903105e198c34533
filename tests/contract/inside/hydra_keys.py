"""Every key of Hydra configurations with its type. It runs where hydra-core is: FOLDER NAME... gives JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import OmegaConfBaseException


def keys_of(section: Any, prefix: str = "") -> dict[str, str]:
    """The leaves; a section that is empty, or that stands elsewhere, is one of type `dict`."""
    found: dict[str, str] = {}
    for name in section:
        key, node = f"{prefix}{name}", section._get_node(name)
        if isinstance(node, DictConfig) and len(node) and not node._is_interpolation():
            found |= keys_of(node, f"{key}.")
        else:
            found[key] = kind(section, name, node)
    return found


def kind(section: Any, name: str, node: Any) -> str:
    """`missing` is what a user must give; a reference has the type of what it leads to."""
    if node._is_missing():
        return "missing"
    try:
        value = section[name]
    except OmegaConfBaseException:  # it leads to what a user must give
        return "missing"
    if isinstance(value, (DictConfig, ListConfig)):
        return "dict" if isinstance(value, DictConfig) else "list"
    return "null" if value is None else type(value).__name__


with initialize_config_dir(config_dir=sys.argv[1], version_base=None):
    json.dump({name: keys_of(compose(name)) for name in sys.argv[2:]}, sys.stdout)
