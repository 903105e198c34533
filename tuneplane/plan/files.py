"""Files of the experiment that parameters name by what is in them: a function, a text."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import function_of
from tuneplane.errors import InputError, nearest, shown
from tuneplane.faults import Faults
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.limits import too_long
from tuneplane.plan.model import Setting


def file_of(parameter: Parameter, value: str) -> str | None:
    """The path, relative to the experiment, of the file whose content counts; None for a value that names none."""
    if parameter.type == "function":
        return posixpath.normpath(function_of(parameter, value)[0])
    if parameter.type == "content" and value not in parameter.words:
        return posixpath.normpath(value)
    return None


def check_files(inputs: Inputs, settings: Sequence[Setting], faults: Faults) -> None:
    """Add a fault for each such file that would not be frozen, or does not hold what it should."""
    for setting in settings:
        parameter = inputs.recipe.parameters[setting.key]
        file = file_of(parameter, setting.value) if setting.value is not None else None
        if file is None:
            continue
        where = setting.where or inputs.config_name
        text = inputs.texts.get(file)
        if text is None:
            what = f"no file {shown(file)} of the experiment would be frozen"
            faults.add(InputError, what, where, "a file in the experiment's folder, in UTF-8")
        elif parameter.type == "content":
            if too_long(text):
                faults.add(
                    InputError, f"{shown(file)} has {len(text.encode())} bytes", where, "less than 128 KiB"
                )
            if "\0" in text:
                faults.add(InputError, f"{shown(file)} holds a NUL character", where)
        else:
            check_function(text, file, function_of(parameter, setting.value)[1], where, faults)


def check_function(text: str, file: str, name: str, where: str, faults: Faults) -> None:
    """Whether a module defines the function, by reading it alone."""
    try:
        names = list(_defined(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        # the image's Python may be newer than this one
        names = re.findall(r"^(?:async +)?def +(\w+)", text, re.M)
    if name not in names:
        close = nearest(name, names)
        expected = f"`def {name}(…)`" + (f", did you mean `{close}`?" if close else "")
        faults.add(InputError, f"{file} defines no {shown(name)}", where, expected)


def _defined(tree: ast.AST) -> Iterator[str]:
    """Names that the module's own level gives something to, in branches of it too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.excepthandler)):
            yield from _defined(node)
