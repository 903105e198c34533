"""Documents checked against dataclasses and turned into them.

The dataclasses are plain, so that reading what was checked before needs no pydantic: its import costs more
than a whole compile. Checking does use pydantic, and a document that passed is remembered by its digest.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.documents.tree import Mapping, Node, Scalar, Sequence, at, find, plain
from tuneplane.errors import InputError, Problem, nearest, shown

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def document(cls: type[T]) -> type[T]:
    """A frozen dataclass whose YAML form takes no unknown key and coerces nothing."""
    made: Any = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    made.__pydantic_config__ = {"extra": "forbid", "strict": True}
    return made  # type: ignore[no-any-return]


def checked(cls: type[T], tree: Mapping) -> T:
    """The document as an instance of the dataclass `cls`.

    Raises InputError with one problem for each fault, naming file, line and key.
    """
    data = plain(tree)
    kind: Any = cls
    key = cache_key("checked", fingerprint(kind), repr(data))
    if cache_get(key) is None:
        problems = _faults(kind, tree, data)
        if problems:
            raise InputError(*problems)
        cache_put(key, b"ok")
    return construct(kind, data)  # type: ignore[no-any-return]


def construct(cls: Any, data: Any) -> Any:
    """Data that has been checked before, as `cls`: dataclasses, lists, mappings and unions of these."""
    members = _members(cls)
    if len(members) > 1 or data is None:
        cls = next((member for member in members if _takes(member, data)), Any)
    else:
        cls = members[0]
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if _is_document(cls):
        hints = _hints(cls)
        return cls(**{name: construct(hints[name], value) for name, value in data.items()})
    if origin is list:
        return [construct(arguments[0], item) for item in data]
    if origin is dict:
        return {key: construct(arguments[1], value) for key, value in data.items()}
    return float(data) if cls is float else data


def _takes(member: Any, data: Any) -> bool:
    """Whether `data` has the outer form of a member of a union."""
    if _is_document(member):
        return isinstance(data, dict)
    kind = typing.get_origin(member) or member
    return kind in (dict, list, str, bool, int, float) and type(data) is kind


def _is_document(cls: Any) -> bool:
    return dataclasses.is_dataclass(cls)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@cache
def fingerprint(cls: Any) -> str:
    """A text that changes when the shape of `cls` does."""
    if not _is_document(cls):
        return repr(cls) + "".join(fingerprint(argument) for argument in typing.get_args(cls))
    hints = _hints(cls)
    return f"{cls.__qualname__}{{{','.join(f'{name}:{fingerprint(hint)}' for name, hint in hints.items())}}}"


def _faults(cls: Any, tree: Mapping, data: Any) -> list[Problem]:
    from pydantic import TypeAdapter, ValidationError

    try:
        # JSON mode: there a strict dataclass is met by a mapping, in Python mode only by an instance of it
        TypeAdapter(cls).validate_json(json.dumps(data))
    except ValidationError as error:
        return [_problem(cls, tree, item) for item in error.errors(include_url=False)]
    return []


def _problem(cls: Any, tree: Node, item: Any) -> Problem:
    """pydantic's account of one fault in our words."""
    path, _ = _walk(cls, item["loc"])
    mark, key = at(tree, path)
    kind = item["type"]
    if kind == "unexpected_keyword_argument":
        known = _fields(_walk(cls, item["loc"][:-1])[1])
        close = nearest(str(path[-1]), known)
        expected = f"`{close}`?" if close else f"one of {', '.join(sorted(known))}"
        return Problem(f"unknown key {shown(path[-1])}", mark.at(key), expected)
    if kind in ("missing", "missing_argument"):
        return Problem(f"the key {shown(path[-1])} is missing", mark.at(key))
    if kind == "value_error":
        return Problem(str(item["ctx"]["error"]), mark.at(key))
    found = find(tree, path)
    if kind == "string_type" and isinstance(found, Scalar) and found.value is not None:
        return Problem(f"{shown(found.text)} is not text", mark.at(key), "text", "put it in quotes")
    return Problem(f"{_named(found)} does not fit", mark.at(key), item["msg"][0].lower() + item["msg"][1:])


def _named(node: Node | None) -> str:
    if isinstance(node, Scalar):
        return shown(node.text) if node.value is not None else "an empty value"
    return "a list" if isinstance(node, Sequence) else "a mapping"


def _walk(cls: Any, steps: tuple[str | int, ...]) -> tuple[tuple[str | int, ...], Any]:
    """The keys among `steps`, and the type that stands there below `cls`.

    Between the keys pydantic names the member of a union that it tried: `Text`, `str`, `list[str]`.
    """
    path: list[str | int] = []
    for step in steps:
        members = _members(cls)
        if len(members) > 1:
            cls = next((m for m in members if _label(m) == str(step).partition("[")[0]), Any)
            continue
        path.append(step)
        cls = members[0]
        if _is_document(cls):
            cls = _hints(cls).get(str(step), Any)
        else:
            cls = typing.get_args(cls)[-1] if typing.get_origin(cls) in (dict, list, tuple) else Any
    return tuple(path), cls


def _members(cls: Any) -> list[Any]:
    """The members of a union less None; any other type alone."""
    if typing.get_origin(cls) not in (typing.Union, types.UnionType):
        return [cls]
    return [member for member in typing.get_args(cls) if member is not types.NoneType]


def _label(member: Any) -> str:
    return str(getattr(typing.get_origin(member) or member, "__name__", ""))


def _fields(cls: Any) -> list[str]:
    """Names of the fields of a dataclass, or of the only one in a union."""
    found = next((member for member in _members(cls) if _is_document(member)), None)
    return [field.name for field in dataclasses.fields(found)] if found else []
