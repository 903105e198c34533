"""What a new experiment takes from another one, as its `config.yaml` says it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Carried:
    """Sections of `config.yaml`; what is absent is empty.

    model, env, resources and the like: texts as they are meant; params and overrides: YAML text of one line by key;
    data: paths by `train` and `validation`; pools: a profile by its roles.
    """

    model: str = ""
    data: dict[str, list[str]] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    tracking: list[str] = field(default_factory=list)
    resources: dict[str, str] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
