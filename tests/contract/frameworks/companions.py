"""What a value must have beside it to be legal: small functions from a parameter's value to other parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Companions = Callable[[Any], Mapping[str, Any]]
USUAL: Sequence[tuple[str, Mapping[str, Any]]] = (
    (
        "several files",
        {
            "more": {
                "data": {
                    "train": ["/data/one.parquet", "/data/it's two.parquet"],
                    "validation": "/data/v.parquet",
                }
            }
        },
    ),
    (
        "tracked to wandb",
        {"more": {"tracking": ["console", "tensorboard", "wandb"], "secrets": ["WANDB_API_KEY"]}},
    ),
    ("tracked to the console alone", {"more": {"tracking": ["console"]}}),
)
"""Variants that every method of the catalog has."""


def beside(**params: Any) -> Companions:
    """These parameters; a function among them is given the value."""
    return lambda value: {key: item(value) if callable(item) else item for key, item in params.items()}


def one_gpu(**params: Any) -> Companions:
    """The same on one GPU, which divides every batch."""
    return beside(profile="h200:1", **params)


def same(value: Any) -> Any:
    return value


def together(*parts: Mapping[str, Companions]) -> dict[str, Companions]:
    """Several tables as one; where a parameter is in more of them, the later one adds to the earlier."""
    made: dict[str, Companions] = {}
    for part in parts:
        for name, function in part.items():
            made[name] = _both(made[name], function) if name in made else function
    return made


def _both(first: Companions, second: Companions) -> Companions:
    return lambda value: {**first(value), **second(value)}


def each(names: str, function: Companions) -> dict[str, Companions]:
    """One function for several parameters."""
    return dict.fromkeys(names.split(), function)
