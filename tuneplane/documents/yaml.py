"""YAML read with the meaning of the YAML 1.2 core schema, and nothing that surprises.

PyYAML alone reads YAML 1.1: `1e-6` is text there, `no` a boolean, `010` octal, `12:30` a base-60 number, and
of two equal keys the last wins in silence. Here numbers and booleans follow the core schema (YAML 1.2.2,
section 10.3), equal keys are refused, and so are merge keys, tags and documents that grow by aliases.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tuneplane.documents.text import MAX_BYTES, read_text
from tuneplane.documents.tree import Mapping, Mark, Node, Scalar, Sequence
from tuneplane.errors import InputError, Problem, shown

MAX_NODES = 100_000
MAX_DEPTH = 100
MAX_DIGITS = 400

_TAG = "tag:yaml.org,2002:"
_CORE = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    "int": (re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    "float": (
        re.compile(
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
        list("-+0123456789."),
    ),
}
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(_Base):  # type: ignore[misc]
    """PyYAML's loader with the core schema's resolvers in place of its own."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, (_pattern, _first) in _CORE.items():
    _CoreLoader.add_implicit_resolver(_TAG + _name, _pattern, _first)


def _value(tag: str, text: str) -> bool | int | float | str | None:
    kind = tag.removeprefix(_TAG)
    if kind in _CORE and not _CORE[kind][0].match(text):
        raise ValueError(f"{shown(text)} is not what its tag says")
    if kind in ("int", "float") and len(text) > MAX_DIGITS:
        raise ValueError(f"a number has {len(text)} characters, more than {MAX_DIGITS}")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return (
            int(text, 8) if text.startswith("0o") else int(text, 16) if text.startswith("0x") else int(text)
        )
    if kind == "float":
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def parse(text: str, name: str) -> Mapping:
    """The document's top mapping; `name` is what messages call the file. Raises InputError."""
    try:
        root = _root(text)
    except UnicodeEncodeError:
        raise InputError.of("the text is not Unicode", name) from None
    except yaml.YAMLError as error:
        raise InputError(_yaml_problem(error, name, text)) from None
    except (ValueError, RecursionError) as error:
        raise InputError.of(f"the YAML cannot be read: {error}", name) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value and not root.style):
        return Mapping({}, {}, Mark(name))
    if not isinstance(root, yaml.MappingNode):
        raise InputError.of(
            "the document is not a mapping", f"{name}:{root.start_mark.line + 1}", "`key: value` lines"
        )
    node = _Converter(name).node(root, "")
    assert isinstance(node, Mapping)
    return node


def _root(text: str) -> yaml.Node | None:
    loader = _CoreLoader(text)
    try:
        return loader.get_single_node()  # type: ignore[no-any-return]
    finally:
        loader.dispose()


def events(text: str) -> list[Any]:
    """What the parser finds in a text that `parse` has read, each with its place in characters."""
    return list(yaml.parse(text, Loader=_CoreLoader))


def scalar_starts(text: str) -> dict[int, int]:
    """Where a scalar ends → where it starts, without the anchor and the tag before it."""
    tokens = yaml.scan(text, Loader=_CoreLoader)
    return {t.end_mark.index: t.start_mark.index for t in tokens if isinstance(t, yaml.ScalarToken)}


def load(path: Path, name: str | None = None, limit: int = MAX_BYTES) -> Mapping:
    """`parse` of a file."""
    name = name or str(path)
    return parse(read_text(path, name, limit), name)


def _yaml_problem(error: yaml.YAMLError, name: str, text: str) -> Problem:
    """What the parser found, where. libyaml names neither a tab nor the line of a control character."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}"
        line = (text.split("\n")[mark.line :] or [""])[0]
        before, at = line[: mark.column], line[mark.column : mark.column + 1]
        if at == "\t" or ("\t" in before and not before.strip()):
            return Problem("a tab cannot indent or start a value in YAML", where, "spaces")
        return Problem(f"not valid YAML: {error.problem}", where)
    control = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if control is not None:
        line_number = text.count("\n", 0, control.start()) + 1
        what = f"the file holds the control character {shown(control[0])}"
        return Problem(
            what, f"{name}:{line_number}", 'printable text; `"\\xHH"` in double quotes escapes one'
        )
    return Problem(f"not valid YAML: {str(error).splitlines()[0]}", name)


class _Converter:
    """Turns PyYAML's nodes into ours, counting what aliases expand to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.open: set[int] = set()

    def node(self, node: yaml.Node, key: str) -> Node:
        mark = Mark(self.name, node.start_mark.line + 1)
        self.count += 1
        if self.count > MAX_NODES:
            raise InputError.of(
                "the document expands to too many values", mark.at(key), f"at most {MAX_NODES} values"
            )
        if id(node) in self.open:
            raise InputError.of("an alias contains itself", mark.at(key))
        if len(self.open) > MAX_DEPTH:
            raise InputError.of("the values are nested too deeply", str(mark), f"at most {MAX_DEPTH} levels")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, mark, key)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
                return self.mapping(node, mark, key)
            if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
                items = tuple(
                    self.node(item, f"{key}.{i}" if key else str(i)) for i, item in enumerate(node.value)
                )
                return Sequence(items, mark)
        finally:
            self.open.discard(id(node))
        raise InputError.of(f"the tag {shown(node.tag)} is not supported", mark.at(key))

    def scalar(self, node: yaml.ScalarNode, mark: Mark, key: str) -> Scalar:
        if node.tag.removeprefix(_TAG) not in {*_CORE, "str"}:
            raise InputError.of(f"the tag {shown(node.tag)} is not supported", mark.at(key))
        try:
            return Scalar(_value(node.tag, node.value), node.value, bool(node.style), mark)
        except ValueError as error:
            raise InputError.of(str(error), mark.at(key)) from None

    def mapping(self, node: yaml.MappingNode, mark: Mark, key: str) -> Mapping:
        entries: dict[str, Node] = {}
        marks: dict[str, Mark] = {}
        for key_node, value_node in node.value:
            place = Mark(self.name, key_node.start_mark.line + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                raise InputError.of("a key must be a plain word", place.at(key))
            word = key_node.value
            path = f"{key}.{word}" if key else word
            if word == "<<" and not key_node.style:
                raise InputError.of("merge keys are not supported", place.at(path), hint="write the keys out")
            if word in entries:
                raise InputError.of(
                    f"the key {shown(word)} stands twice", f"{place} and line {marks[word].line}"
                )
            marks[word] = place
            entries[word] = self.node(value_node, path)
        return Mapping(entries, marks, mark)
