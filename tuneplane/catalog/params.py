"""Parameter types: how their text is read, which values they take, how they are written out again."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from tuneplane.catalog.manifest import Parameter
from tuneplane.documents.text import flow
from tuneplane.documents.tree import Node, Scalar, Sequence
from tuneplane.durations import FORMS, parse_duration, spoken
from tuneplane.errors import nearest, shown

_INT = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INTERVAL = re.compile(r"([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\Z")
MAX_DIGITS = 400


class BadValue(ValueError):
    """A text that a parameter does not take; `expected` says what it would."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected


@dataclass(frozen=True)
class Interval:
    """A range of numbers whose ends are open or closed each by itself."""

    low: int | float
    high: int | float
    low_open: bool
    high_open: bool

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, (int, float)):
            return False
        above = number > self.low if self.low_open else number >= self.low
        below = number < self.high if self.high_open else number <= self.high
        return above and below


@cache
def interval(text: str) -> Interval:
    """`[1, inf)` and the like. Raises ValueError for anything that is not an interval with numbers in it."""
    match = _INTERVAL.match(text)
    if not match:
        raise ValueError(f"{text} is not an interval such as `[0, 1)`")
    opening, low_text, high_text, closing = match.groups()
    try:
        low, high = _bound(low_text), _bound(high_text)
    except ValueError:
        raise ValueError(f"{text} is not an interval such as `[0, 1)`") from None
    if (
        math.isnan(low)
        or math.isnan(high)
        or low > high
        or (low == high and (opening, closing) != ("[", "]"))
    ):
        raise ValueError(f"{text} holds no number")
    return Interval(low, high, opening == "(", closing == ")")


def _bound(text: str) -> int | float:
    """Whole numbers stay exact: a float cannot tell 2**64 - 1 from 2**64."""
    return int(text) if _INT.match(text) else float(text)


def expectation(parameter: Parameter) -> str:
    """What the parameter takes, in a few words."""
    if parameter.type == "list":
        return f"a list, each item {_expectation(parameter, parameter.items)}"
    return _expectation(parameter, parameter.type)


def _expectation(parameter: Parameter, kind: str) -> str:
    if kind == "enum":
        return "one of " + ", ".join(f"`{choice}`" for choice in parameter.choices)
    if kind == "function":
        return (
            "FILE or FILE:FUNCTION"
            if parameter.function_path
            else f"a file that defines {parameter.function}"
        )
    if kind == "content":
        return " or ".join(["a file", *(f"`{word}`" for word in parameter.words)])
    words = {
        "int": "a whole number",
        "float": "a finite number",
        "bool": "`true` or `false`",
        "str": "text",
        "duration": FORMS,
        "path": "a path",
    }[kind]
    if parameter.range:
        words += f" in {parameter.range}"
    return f"{words}, in {parameter.unit}" if parameter.unit else words


def read_node(parameter: Parameter, node: Node) -> Any:
    """The value that a node of `config.yaml` gives the parameter. Raises BadValue."""
    if isinstance(node, Scalar):
        if node.value is None and not node.quoted:
            raise BadValue("the value is empty", expectation(parameter))
        return read_text(parameter, node.text)
    if parameter.type == "list" and isinstance(node, Sequence):
        texts = []
        for item in node.items:
            if not isinstance(item, Scalar) or (item.value is None and not item.quoted):
                raise BadValue("a member of the list is no plain value", expectation(parameter))
            texts.append(item.text)
        return [_read(parameter, parameter.items, text) for text in texts]
    kind = "list" if isinstance(node, Sequence) else "mapping"
    raise BadValue(f"a {kind} is no {parameter.type} value", expectation(parameter))


def read_text(parameter: Parameter, text: str) -> Any:
    """The value that a text gives the parameter, as on the command line. Raises BadValue."""
    if parameter.type != "list":
        return _read(parameter, parameter.type, text)
    if text.startswith("["):
        from tuneplane.documents.yaml import parse
        from tuneplane.errors import InputError

        try:
            tree = parse(f"v: {text}", "value")
        except InputError:
            tree = None
        if tree is None or list(tree.entries) != ["v"] or not isinstance(tree.entries["v"], Sequence):
            raise BadValue(f"{shown(text)} is not a list", expectation(parameter))
        return read_node(parameter, tree.entries["v"])
    return [_read(parameter, parameter.items, item.strip()) for item in text.split(",")] if text else []


def default_value(parameter: Parameter) -> Any:
    """The default as a value of the parameter's type, None when there is none."""
    default = parameter.default
    if isinstance(default, list):
        return [_read(parameter, parameter.items, written(item)) for item in default]
    return None if default is None else read_text(parameter, written(default))


def _read(parameter: Parameter, kind: str, text: str) -> Any:
    expected = _expectation(parameter, kind)
    if "\0" in text:
        raise BadValue(f"{shown(text)} holds a NUL character", expected)
    if kind == "enum":
        return _choice(parameter, text, expected)
    if kind == "bool":
        if text.lower() in ("true", "false") and text in ("true", "True", "TRUE", "false", "False", "FALSE"):
            return text.lower() == "true"
        raise BadValue(f"{shown(text)} is neither true nor false", expected)
    if kind == "duration":
        try:
            return parse_duration(text)
        except ValueError as error:
            raise BadValue(str(error), expected) from None
    if kind in ("path", "content", "function") and not text:
        raise BadValue("the path is empty", expected)
    if kind == "function":
        return _function(parameter, text, expected)
    if kind in ("str", "path", "content"):
        return text
    number = _integer(text, expected) if kind == "int" else _finite(text, expected)
    if parameter.range and number not in interval(parameter.range):
        raise BadValue(f"{shown(text)} is out of range", expected)
    return number


_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def _function(parameter: Parameter, text: str, expected: str) -> str:
    file, colon, name = text.rpartition(":") if ":" in text else (text, "", parameter.function)
    if not file or not _NAME.match(name):
        raise BadValue(f"{shown(text)} names no function of a file", expected)
    if not parameter.function_path and name != parameter.function:
        raise BadValue(f"the function cannot be called {shown(name)}", expected)
    return f"{file}:{name}" if colon and name != parameter.function else file


def function_of(parameter: Parameter, value: str) -> tuple[str, str]:
    """File and function that the value of a `function` names."""
    file, colon, name = value.rpartition(":")
    return (file, name) if colon else (value, parameter.function)


def _choice(parameter: Parameter, text: str, expected: str) -> str:
    if text in parameter.choices:
        return text
    for ours, theirs in parameter.spelled.items():
        if text == theirs:
            return ours
    close = nearest(text, parameter.choices)
    raise BadValue(
        f"{shown(text)} is not a choice" + (f", did you mean `{close}`?" if close else ""), expected
    )


def _integer(text: str, expected: str) -> int:
    if len(text) > MAX_DIGITS or not _INT.match(text):
        raise BadValue(f"{shown(text)} is not a whole number", expected)
    return int(text, 8) if text.startswith("0o") else int(text, 16) if text.startswith("0x") else int(text)


def _finite(text: str, expected: str) -> float:
    if len(text) > MAX_DIGITS or not _FLOAT.match(text):
        raise BadValue(f"{shown(text)} is not a finite number", expected)
    number = float(text)
    if not math.isfinite(number):
        raise BadValue(f"{shown(text)} is not a finite number", expected)
    return number


def as_set(parameter: Parameter, value: Any) -> str:
    """The value as a user writes it: read again by `read_text` it is the same value."""
    if isinstance(value, list):
        return _list_text([written(item) for item in value])
    return spoken(value) if parameter.type == "duration" else written(value)


def _list_text(words: list[str]) -> str:
    """Words with commas between them, or `[…]` where a word holds what would be read otherwise."""
    text = ",".join(words)
    if text[:1] != "[" and [word.strip() for word in text.split(",")] == words and (text or not words):
        return text
    return "[" + ", ".join(map(flow, words)) + "]" if words else ""


def sent(parameter: Parameter, value: Any) -> Any:
    """The value as upstream spells it."""
    if isinstance(value, list):
        return [parameter.spelled.get(written(item), item) for item in value]
    return parameter.spelled.get(written(value), value) if parameter.spelled else value


def shown_value(value: Any) -> str:
    """A value that is sent, in a table."""
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else written(value)


def written(value: Any) -> str:
    """The value as a word of the method's command; a duration is a number of seconds there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
