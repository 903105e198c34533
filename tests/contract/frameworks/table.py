"""The frameworks whose methods are held against upstream, by the name of their folder in `recipes/`."""

from __future__ import annotations

from collections.abc import Mapping

from contract.frameworks.openrlhf import OpenRLHF
from contract.frameworks.verl import Verl
from contract.named import methods
from contract.suite import Framework

FRAMEWORKS: Mapping[str, Framework] = {"verl": Verl(), "openrlhf": OpenRLHF()}
RELEASES = [(name, version) for name, framework in FRAMEWORKS.items() for version in framework.versions]
METHODS = [
    (method, version) for name, version in RELEASES for method in methods() if method.split("/")[0] == name
]
"""Every method on every release."""
