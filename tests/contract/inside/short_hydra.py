"""Composing one configuration with many sets of words: what does not change from one to the next is done once.

Words are parsed and applied by Hydra itself, and `composed` is what `hydra.main` does; tests hold one against the other.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import omegaconf.base
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import open_dict

omegaconf.base.parse = cache(omegaconf.base.parse)  # the same few hundred interpolations, each time


def composed(folder: str, name: str, words: list[str]) -> Any:
    """With Hydra's own section, as `hydra`."""
    with initialize_config_dir(config_dir=folder, version_base=None):
        return compose(name, overrides=words, return_hydra_config=True)


def overridden(folder: str, name: str, words: list[str]) -> Any:
    """The same in a fiftieth of the time."""
    config = pickle.loads(_defaults(folder, name))
    ConfigLoaderImpl._apply_overrides_to_config([_parsed(word) for word in words], config)
    return config


def without_hydra(config: Any) -> Any:
    """What the program sees of it."""
    with open_dict(config):
        del config["hydra"]
    return config


@cache
def _defaults(folder: str, name: str) -> bytes:
    return pickle.dumps(composed(folder, name, []))


@cache
def _parsed(word: str) -> Any:
    return OverridesParser.create().parse_overrides([word])[0]
