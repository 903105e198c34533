"""Which values a parameter is tried with: its bounds, what lies between, every choice, awkward texts."""

from __future__ import annotations

import math
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import interval

LARGE = 2**30
"""What a range without an upper bound is tried with: a power of two, which GPUs and batches divide."""
TEXTS = (
    "plain",
    'it\'s {a} [b], "c" = $HOME %(y)s \\ # ~ é 中',
    "-begins like a flag",
    "ends with \\",
    " spaces around ",
    "null",
    "1e3",
)
"""Texts that a shell, Hydra, OmegaConf, YAML or argparse would read as something else."""


def tried(parameter: Parameter) -> list[Any]:
    """The values, each of the parameter's type."""
    if parameter.type == "list":
        items = _of_kind(parameter, parameter.items)
        return [items[:1], items]
    return _of_kind(parameter, parameter.type)


def _of_kind(parameter: Parameter, kind: str) -> list[Any]:
    if kind == "enum":
        return [*parameter.choices, *parameter.spelled.values()]
    if kind == "bool":
        return [True, False]
    if kind == "int":
        return _integers(parameter.range)
    if kind == "float":
        return _floats(parameter.range)
    if kind == "function":
        return [parameter.function and f"{FILE}:{parameter.function}", FILE]
    if kind == "content":
        return [TEMPLATE, *parameter.words]
    if kind == "path":
        return ["/elsewhere/it's {a} [b] $HOME é 中", FILE]
    return list(TEXTS) if kind == "str" else ["90m"]


FILE, TEMPLATE, MODEL = "folder of code/it's a file.py", "a template.jinja", "it's a model"
"""What is in each experiment: code, a chat template, a folder with a model's configuration and tokenizer."""


def _integers(text: str) -> list[int]:
    if not text:
        return [-1, 0, 3, LARGE]
    bounds = interval(text)
    low = -LARGE if bounds.low == -math.inf else int(bounds.low) + bounds.low_open
    high = LARGE if bounds.high == math.inf else int(bounds.high) - bounds.high_open
    return sorted({low, min(low + 2, high), high})


def _floats(text: str) -> list[float]:
    if not text:
        return [-2.5, 0.0, 1e-9, 1e22]
    bounds = interval(text)
    low = -1e22 if bounds.low == -math.inf else float(bounds.low)
    high = 1e22 if bounds.high == math.inf else float(bounds.high)
    between = low + min((high - low) / 4, 0.25)
    return sorted(
        {low + 1e-9 if bounds.low_open else low, between, high - 1e-9 if bounds.high_open else high}
    )
