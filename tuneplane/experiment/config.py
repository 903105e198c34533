"""`config.yaml`: what the user asks for, every value with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tuneplane.documents.tree import Mapping, Mark, Node, Scalar, Sequence, flatten
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError, Problem, nearest, shown

CONFIG_FILE = "config.yaml"
COMMAND_LINE = "command line"
"""What a mark says instead of a file."""


@dataclass(frozen=True)
class Written:
    """A text, where it stands and under which key; lost: (source, text, place) of what it stands in place of."""

    text: str
    mark: Mark
    key: str
    lost: tuple[tuple[str, str, str], ...] = ()

    @property
    def where(self) -> str:
        return self.mark.at(self.key)

    @property
    def source(self) -> str:
        return COMMAND_LINE if self.mark.file == COMMAND_LINE else CONFIG_FILE


@dataclass(frozen=True)
class WrittenNode:
    """A value still to be read by its declared type, and where it stands."""

    node: Node
    mark: Mark
    key: str

    @property
    def where(self) -> str:
        return self.mark.at(self.key)


@dataclass(frozen=True)
class Located:
    """A model or data set. path: absolute, None when a Hub id is not in the cache; mount: what a container must
    see for it, the repository's folder for a Hub id whose files are links; real: that without links, where it is known;
    missing and remedy: why it cannot be used,
    and what to type."""

    key: str
    given: str
    path: str | None
    exists: bool
    commit: str = ""
    mount: str = ""
    real: str = ""
    where: str = ""
    missing: str = ""
    remedy: str = ""


@dataclass
class Config:
    """The sections of `config.yaml`; what is absent is empty.

    data: `train` and `validation`, and `train.1` and so on for the further files of a list; pools: of `resources`, a
    profile by its roles.
    """

    model: Written | None = None
    data: dict[str, Written] = field(default_factory=dict)
    params: dict[str, WrittenNode] = field(default_factory=dict)
    overrides: dict[str, WrittenNode] = field(default_factory=dict)
    env: dict[str, Written] = field(default_factory=dict)
    secrets: list[Written] = field(default_factory=list)
    tracking: list[Written] = field(default_factory=list)
    resources: dict[str, Written] = field(default_factory=dict)
    pools: dict[str, Written] = field(default_factory=dict)
    args: list[Written] = field(default_factory=list)


DATA_KEYS = ("train", "validation")
TRACKERS = ("console", "tensorboard", "wandb")


def read_config(text: str, name: str, resource_keys: tuple[str, ...]) -> Config:
    """The configuration in `text`; `name` is what messages call the file.

    Raises InputError with every fault of its shape. Parameters are checked later, by their recipe.
    """
    tree = parse(text, name)
    reader = _Reader()
    config = reader.config(tree, resource_keys)
    if reader.problems:
        raise InputError(*reader.problems)
    return config


class _Reader:
    """Reads section by section and goes on after a fault, so that all are reported together."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def fault(self, what: str, mark: Mark, key: str, expected: str = "", hint: str = "") -> None:
        self.problems.append(Problem(what, mark.at(key), expected, hint))

    def config(self, tree: Mapping, resource_keys: tuple[str, ...]) -> Config:
        config = Config()
        sections: dict[str, Callable[[Node, Mark], Any]] = {
            "model": lambda node, mark: self.text(node, mark, "model"),
            "data": self.data,
            "params": self.params,
            "overrides": self.overrides,
            "env": self.env,
            "secrets": lambda node, mark: self.words(node, mark, "secrets"),
            "tracking": self.tracking,
            "resources": lambda node, mark: self.resources(config, node, mark, resource_keys),
            "args": lambda node, mark: self.words(node, mark, "args"),
        }
        for key, node in tree.entries.items():
            mark = tree.mark_of(key)
            if key not in sections:
                self.unknown(key, mark, key, sections)
            elif not _empty(node):
                setattr(config, key, sections[key](node, mark))
        for written in config.secrets:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", written.text, re.ASCII):
                name, equals, _ = written.text.partition("=")
                what = f"{shown(name + '=…' if equals else name)} is no name of a variable"
                hint = "put the value into the secrets file" if equals else ""
                self.fault(what, written.mark, written.key, "a name alone", hint)
        return config

    def unknown(self, word: str, mark: Mark, key: str, known: Any, what: str = "key") -> None:
        close = nearest(word, known)
        expected = f"`{close}`?" if close else "one of " + ", ".join(known)
        self.fault(f"unknown {what} {shown(word)}", mark, key, expected)

    def text(self, node: Node, mark: Mark, key: str) -> Written | None:
        if not isinstance(node, Scalar) or (node.value is None and not node.quoted):
            self.fault(
                "a plain value is expected", node.mark if isinstance(node, Scalar) else mark, key, "text"
            )
            return None
        if not node.text or "\0" in node.text:
            what = "holds a NUL character" if node.text else "is empty"
            self.fault(f"the text {what}", node.mark, key, "text")
            return None
        return Written(node.text, node.mark, key)

    def mapping(self, node: Node, mark: Mark, key: str) -> Mapping:
        if isinstance(node, Mapping):
            return node
        self.fault(f"`{key}` is not a mapping", mark, key, "`key: value` lines")
        return Mapping({})

    def texts(self, node: Node, mark: Mark, section: str, known: tuple[str, ...]) -> dict[str, Written]:
        found = {}
        tree = self.mapping(node, mark, section)
        for key, value in tree.entries.items():
            place = tree.mark_of(key)
            if key not in known:
                self.unknown(key, place, f"{section}.{key}", known)
            elif written := self.text(value, place, f"{section}.{key}"):
                found[key] = written
        return found

    def data(self, node: Node, mark: Mark) -> dict[str, Written]:
        """The texts of the section, of which each may be a list."""
        found: dict[str, Written] = {}
        tree = self.mapping(node, mark, "data")
        single: dict[str, Node] = {}
        for key, value in tree.entries.items():
            if isinstance(value, Sequence) and key in DATA_KEYS:
                for i, written in enumerate(self.paths(value, tree.mark_of(key), f"data.{key}")):
                    found[f"{key}.{i}" if i else key] = written
            else:
                single[key] = value
        return {**self.texts(Mapping(single, tree.marks, tree.mark), mark, "data", DATA_KEYS), **found}

    def paths(self, node: Sequence, mark: Mark, key: str) -> list[Written]:
        """The paths of a data set, each once."""
        if not node.items:
            self.fault("the list is empty", mark, key, "a path, or a list of paths")
        found: list[Written] = []
        for i, item in enumerate(node.items):
            written = self.text(item, item.mark, f"{key}.{i}")
            if written and written.text in [other.text for other in found]:
                self.fault(f"{shown(written.text)} stands twice", item.mark, f"{key}.{i}")
            elif written and ":" in written.text and len(node.items) > 1:
                self.fault(
                    f"{shown(written.text)} holds a colon", item.mark, f"{key}.{i}", "paths without one"
                )
            elif written:
                found.append(written)
        return found

    def resources(self, config: Config, node: Node, mark: Mark, known: tuple[str, ...]) -> dict[str, Written]:
        """The texts of the section; `pools` in it becomes a section of its own."""
        if isinstance(node, Mapping) and "pools" in node.entries:
            entries = dict(node.entries)
            pools = self.mapping(entries.pop("pools"), node.mark_of("pools"), "resources.pools")
            for roles, value in pools.entries.items():
                if written := self.text(value, pools.mark_of(roles), f"resources.pools.{roles}"):
                    config.pools[roles] = written
            node = Mapping(entries, node.marks, node.mark)
        return self.texts(node, mark, "resources", known)

    def params(self, node: Node, mark: Mark) -> dict[str, WrittenNode]:
        tree = self.mapping(node, mark, "params")
        return {k: WrittenNode(v, tree.mark_of(k), f"params.{k}") for k, v in tree.entries.items()}

    def overrides(self, node: Node, mark: Mark) -> dict[str, WrittenNode]:
        found: dict[str, WrittenNode] = {}
        for key, value, place in flatten(self.mapping(node, mark, "overrides")):
            if key in found:
                self.fault(f"the key {shown(key)} stands twice", place, f"overrides.{key}")
            found[key] = WrittenNode(value, place, f"overrides.{key}")
        return found

    def env(self, node: Node, mark: Mark) -> dict[str, Written]:
        found = {}
        tree = self.mapping(node, mark, "env")
        for key, value in tree.entries.items():
            place = tree.mark_of(key)
            if not isinstance(value, Scalar) or (value.value is None and not value.quoted):
                self.fault("a variable's value is text", place, f"env.{key}", 'text; `""` for an empty one')
            else:
                found[key] = Written(value.text, place, f"env.{key}")
        return found

    def words(self, node: Node, mark: Mark, section: str) -> list[Written]:
        if not isinstance(node, Sequence):
            self.fault(f"`{section}` is not a list", mark, section, "a list such as `[a, b]`")
            return []
        found = []
        for i, item in enumerate(node.items):
            key = f"{section}.{i}"
            if not isinstance(item, Scalar) or (item.value is None and not item.quoted) or "\0" in item.text:
                self.fault("a word is expected", item.mark, key, 'text; `""` for an empty word')
            else:
                found.append(Written(item.text, item.mark, key))
        return found

    def tracking(self, node: Node, mark: Mark) -> list[Written]:
        words = self.words(node, mark, "tracking")
        for i, word in enumerate(words):
            if word.text not in TRACKERS:
                self.unknown(word.text, word.mark, word.key, TRACKERS, "tracker")
            elif word.text in [other.text for other in words[:i]]:
                self.fault(f"{shown(word.text)} stands twice", word.mark, word.key)
        return words


def _empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None and not node.quoted
