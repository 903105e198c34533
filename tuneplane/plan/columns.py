"""What a method's data files must be: names that upstream can read, and rows with the columns it reads."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuneplane.catalog.manifest import Layout
from tuneplane.catalog.params import written
from tuneplane.catalog.recipe import Recipe
from tuneplane.catalog.rules import holds
from tuneplane.errors import InputError, TuneplaneError, shown
from tuneplane.experiment.config import Located
from tuneplane.faults import Faults
from tuneplane.job.checks.columns import Columns, DataFile
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.model import Setting


def check_paths(inputs: Inputs, faults: Faults) -> None:
    """A fault for each path of data that upstream would split, and for each file of a format it does not read."""
    data, framework = inputs.recipe.data, inputs.recipe.framework
    endings = [f".{name}" for name in data.formats]
    for item in _data(inputs):
        for character in data.separators:
            if character in (item.path or ""):
                what = f"{framework} splits paths of data at {shown(character)}: {shown(item.path, 400)}"
                faults.add(
                    InputError, what, item.where, f"a path without {shown(character)}, such as a link to it"
                )
        if endings and _is_local(item) and posixpath.splitext(item.path or "")[1] not in endings:
            what = f"{inputs.recipe.name} does not read {shown(item.path, 400)}"
            expected = "a file whose name ends in " + ", ".join(f"`{ending}`" for ending in endings)
            faults.add(InputError, what, item.where, expected)


def data_files(inputs: Inputs, values: Mapping[str, Any], faults: Faults) -> tuple[DataFile, ...]:
    """The files whose columns are known; data sets of the Hub are none. values: what expressions see.

    Faults are the recipe's.
    """
    try:
        layouts = tuple(dict.fromkeys(_layouts(inputs.recipe, values)))
    except TuneplaneError as error:
        faults.take(error)
        return ()
    files = [item for item in _data(inputs) if _is_local(item)] if layouts else []
    return tuple(DataFile(item.key, item.path or "", layouts) for item in files)


def renaming(recipe: Recipe, settings: Sequence[Setting], column: str) -> str:
    """The parameter that says what a column is called; empty for none."""
    names = {name for layout in recipe.data.layouts for name in map(_parameter, layout.columns) if name}
    found = [item.key for item in settings if item.key in names and column in _words(item.value)]
    return next(iter(found), "")


def _layouts(recipe: Recipe, values: Mapping[str, Any]) -> Iterator[Columns]:
    for layout in recipe.data.layouts:
        columns = _columns(layout, values) if holds(layout.when, values) else ()
        if columns:
            yield columns


def _columns(layout: Layout, values: Mapping[str, Any]) -> Columns:
    """A parameter that is not set asks for no column."""
    words = [_words(values[_parameter(name)]) if _parameter(name) else [name] for name in layout.columns]
    return tuple(dict.fromkeys(word for some in words for word in some))


def _parameter(column: str) -> str:
    return column[1:-1] if column.startswith("{") else ""


def _words(value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [written(word) for word in words if word not in (None, "")]


def _data(inputs: Inputs) -> list[Located]:
    return [item for key, item in inputs.located.items() if key.startswith("data.")]


def _is_local(item: Located) -> bool:
    """Whether it is a path of the user's: what the Hub holds is a folder of its own making."""
    return item.path is not None and not item.commit
