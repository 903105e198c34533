"""Recipe folders on disk: shared pieces merged in, site recipes laid over bundled ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuneplane.documents.text import read_text
from tuneplane.documents.tree import Mapping, Node, Scalar, merged
from tuneplane.documents.tree import Sequence as TreeSequence
from tuneplane.errors import InputError, Problem, TuneplaneError, shown
from tuneplane.files import sha256


@dataclass(frozen=True)
class Layer:
    """One folder of recipes.

    files: each YAML file's path below it → its text; tables: the same for tables of upstream's keys → sha256.
    """

    root: Path
    files: dict[str, str]
    tables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path) -> Layer:
        """Every YAML file below `root`. Raises InputError when the folder cannot be read."""
        if not root.is_dir():
            raise InputError.of(f"the recipe folder {shown(root)} does not exist")
        paths = sorted([*root.glob("*.yaml"), *root.glob("*/*.yaml"), *root.glob("*/*/recipe.yaml")])
        tables = {
            path.relative_to(root).as_posix(): sha256(path.read_bytes())
            for path in root.glob("*/_keys/*.json")
        }
        texts = {path.relative_to(root).as_posix(): read_text(path, str(path)) for path in paths}
        return cls(root, texts, dict(sorted(tables.items())))

    def methods(self) -> Iterator[str]:
        """Names of the methods that have a manifest here."""
        for path in self.files:
            parts = path.split("/")
            if len(parts) == 3 and not any(part.startswith(("_", ".")) for part in parts):
                yield f"{parts[0]}/{parts[1]}"


@dataclass(frozen=True)
class Source:
    """A method's merged manifest and the folders it came from, the topmost last."""

    name: str
    tree: Mapping
    folders: tuple[Path, ...]


def gather(layers: Sequence[Layer]) -> dict[str, Source]:
    """The merged manifest of every method of `layers`, later ones laid over earlier.

    A method of two layers is an error unless the later says `extends: NAME`. Raises InputError with all faults.
    """
    problems: list[Problem] = []
    found: dict[str, Source] = {}
    for layer in layers:
        for name in layer.methods():
            try:
                found[name] = _joined(layer, name, found.get(name))
            except TuneplaneError as error:
                problems.extend(error.problems)
    if problems:
        raise InputError(*problems)
    return dict(sorted(found.items()))


def _joined(layer: Layer, name: str, below: Source | None) -> Source:
    tree = _with_includes(layer, f"{name}/recipe.yaml", ())
    folder = layer.root / name
    extends = tree.entries.get("extends")
    if extends is None:
        if below is not None:
            raise InputError.of(
                f"{name} is in {below.folders[-1]} already",
                str(tree.mark.file),
                f"`extends: {name}` to lay this manifest over that one",
            )
        return Source(name, tree, (folder,))
    mark = tree.mark_of("extends")
    if not isinstance(extends, Scalar) or extends.text != name:
        raise InputError.of(
            "a manifest extends the method of its own name", mark.at("extends"), f"`extends: {name}`"
        )
    if below is None:
        raise InputError.of(f"there is no {name} below to extend", mark.at("extends"))
    return Source(name, _laid(below.tree, _without(tree, "extends")), (*below.folders, folder))


def _laid(base: Mapping, over: Mapping) -> Mapping:
    """`over` laid on `base`; the rules of both hold."""
    whole = merged(base, over)
    assert isinstance(whole, Mapping)
    held, more = base.entries.get("rules"), over.entries.get("rules")
    if isinstance(held, TreeSequence) and isinstance(more, TreeSequence):
        rules = TreeSequence((*held.items, *more.items), more.mark)
        whole = Mapping({**whole.entries, "rules": rules}, whole.marks, whole.mark)
    return whole


def _without(tree: Mapping, key: str) -> Mapping:
    return Mapping({k: v for k, v in tree.entries.items() if k != key}, tree.marks, tree.mark)


def _with_includes(layer: Layer, path: str, chain: tuple[str, ...]) -> Mapping:
    """The file's tree laid over the shared pieces it names under `include`."""
    from tuneplane.documents.yaml import parse

    tree = parse(layer.files[path], str(layer.root / path))
    include = tree.entries.get("include")
    if include is None:
        return tree
    base = Mapping({})
    where = tree.mark_of("include").at("include")
    for shared in _include_paths(layer, path, include, where):
        if shared in chain or shared == path:
            cycle = " → ".join((*chain, path, shared))
            raise InputError.of(f"shared pieces include each other: {cycle}", where)
        base = _laid(base, _with_includes(layer, shared, (*chain, path)))
    return _laid(base, _without(tree, "include"))


def _include_paths(layer: Layer, path: str, include: Node, where: str) -> Iterator[str]:
    if not isinstance(include, TreeSequence):
        raise InputError.of("`include` is not a list", where, "a list of files beside or above the manifest")
    for item in include.items:
        if not isinstance(item, Scalar):
            raise InputError.of("`include` names files", where)
        parts = path.split("/")[:-1]
        for step in item.text.split("/"):
            if step == "..":
                if not parts:
                    raise InputError.of(f"{shown(item.text)} leads out of the recipe folder", where)
                parts.pop()
            elif step != ".":
                parts.append(step)
        name = "/".join(parts)
        if name not in layer.files or not parts[-1].startswith("_"):
            raise InputError.of(
                f"there is no shared piece {shown(item.text)}",
                where,
                "a file `_NAME.yaml` of the recipe folder",
            )
        yield name
