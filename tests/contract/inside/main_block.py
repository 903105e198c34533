"""A script's own `if __name__ == "__main__":`, run without what the rest of its package needs."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import Any


class Script:
    """`package/cli/NAME.py` below a folder. Its imports of the standard library and its last block are run alone."""

    def __init__(self, folder: Path, package: str, name: str) -> None:
        self.package, self.name = folder / package, name
        self.tree = ast.parse((self.package / "cli" / f"{name}.py").read_text())
        self.code = self._compiled(
            [node for node in self.tree.body if _is_standard_import(node) or _is_main(node)]
        )

    def run(self, words: list[str], **names: Any) -> None:
        """Run the block with these arguments, and with these names for what was not imported."""
        self._stand_in(self.package)
        self._stand_in(self.package / "utils")
        sys.argv = [self.name, *words]
        exec(self.code, {"__name__": "__main__", **names})

    def check(self, function: str, **names: Any) -> None:
        """Run what a function of the script asserts, under its own conditions, and nothing else that it does."""
        (found,) = (
            node for node in self.tree.body if isinstance(node, ast.FunctionDef) and node.name == function
        )
        exec(self._compiled(_assertions(found.body)), dict(names))

    def _compiled(self, body: list[ast.stmt]) -> types.CodeType:
        return compile(ast.Module(body, []), f"{self.name}.py", "exec")

    def _stand_in(self, folder: Path) -> None:
        """An empty package in place of the real one, so that a module in it is imported and its `__init__` is not."""
        name = ".".join(folder.relative_to(self.package.parent).parts)
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(folder)]


def _is_standard_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(item.name.split(".")[0] in sys.stdlib_module_names for item in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in sys.stdlib_module_names


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _assertions(body: list[ast.stmt]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Assert):
            kept.append(node)
        elif isinstance(node, ast.If):
            inside, instead = _assertions(node.body), _assertions(node.orelse)
            if inside or instead:
                made = ast.If(node.test, inside or [ast.Pass()], instead)
                kept.append(ast.fix_missing_locations(ast.copy_location(made, node)))
    return kept
