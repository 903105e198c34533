"""The edge where data files are read for the columns that a plan needs of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, nearest
from tuneplane.job.checks.columns import Unfit, unfit
from tuneplane.job.checks.rows import NotTold
from tuneplane.plan.columns import renaming
from tuneplane.plan.model import Plan, Refusal


def column_refusals(plan: Plan, recipe: Recipe) -> Iterator[Refusal]:
    """What is wrong with the data; the job looks itself for what cannot be told here, and once more at all of it."""
    where = {item.key: item.where for item in plan.located}
    for file in plan.data:
        try:
            found = unfit(file) if os.path.exists(file.path) else None
        except NotTold:
            continue
        if found:
            yield Refusal(InputError.exit_code, found.sentence, where[file.key], _remedy(plan, recipe, found))


def _remedy(plan: Plan, recipe: Recipe, found: Unfit) -> str:
    """How to say that a column is called otherwise, where the method has a parameter for that."""
    renamed = [(column, renaming(recipe, plan.settings, column)) for column in found.lacking]
    parameters = [(column, name) for column, name in renamed if name]
    if not parameters:
        return f"tp methods {recipe.name}" if found.lacking else ""
    if len(found.lacking) == 1 and (close := nearest(found.lacking[0], found.present)):
        return f"--set {shlex.quote(f'{parameters[0][1]}={close}')}"
    names = [*dict.fromkeys(f"`params.{name}`" for _, name in parameters)]
    column = "column" if len(parameters) == 1 else "columns"
    return f"name the {column} with {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}"
