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
from tuneplane.documents.tree import Mapping, Node, at, plain
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
    key = cache_key("checked", _fingerprint(kind), repr(data))
    if cache_get(key) is None:
        problems = _faults(kind, tree, data)
        if problems:
            raise InputError(*problems)
        cache_put(key, b"ok")
    return construct(kind, data)  # type: ignore[no-any-return]


def construct(cls: Any, data: Any) -> Any:
    """Data that has been checked before, as `cls`: dataclasses, lists, mappings and unions of these."""
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin in (typing.Union, types.UnionType):
        return _construct_union(arguments, data)
    if _is_document(cls):
        hints = _hints(cls)
        return cls(**{name: construct(hints[name], value) for name, value in data.items()})
    if origin is list:
        return [construct(arguments[0], item) for item in data]
    if origin is tuple:
        return tuple(construct(arguments[0], item) for item in data)
    if origin is dict:
        return {key: construct(arguments[1], value) for key, value in data.items()}
    return float(data) if cls is float else data


def _construct_union(arguments: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    for candidate in arguments:
        if _is_document(candidate) and isinstance(data, dict):
            return construct(candidate, data)
        if typing.get_origin(candidate) is list and isinstance(data, list):
            return construct(candidate, data)
    return data


def _is_document(cls: Any) -> bool:
    return dataclasses.is_dataclass(cls)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@cache
def _fingerprint(cls: Any) -> str:
    """A text that changes when the shape of `cls` does."""
    if not _is_document(cls):
        return repr(cls) + "".join(_fingerprint(argument) for argument in typing.get_args(cls))
    hints = _hints(cls)
    return f"{cls.__qualname__}{{{','.join(f'{name}:{_fingerprint(hint)}' for name, hint in hints.items())}}}"


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
    path = tuple(step for step in item["loc"] if not _is_union_label(step))
    mark, key = at(tree, path)
    kind, value = item["type"], item["input"]
    if kind == "unexpected_keyword_argument":
        known = _fields_at(cls, path[:-1])
        close = nearest(str(path[-1]), known)
        expected = f"`{close}`?" if close else f"one of {', '.join(sorted(known))}"
        return Problem(f"unknown key {shown(path[-1])}", mark.at(key), expected)
    if kind in ("missing", "missing_argument"):
        return Problem(f"the key {shown(path[-1])} is missing", mark.at(key))
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return Problem(f"{shown(value)} is not text", mark.at(key), "text", "put it in quotes")
    if kind == "value_error":
        return Problem(str(item["ctx"]["error"]), mark.at(key))
    what = shown(value) if isinstance(value, (str, int, float, bool)) else f"a {type(value).__name__}"
    return Problem(f"{what} does not fit", mark.at(key), item["msg"][0].lower() + item["msg"][1:])


def _is_union_label(step: str | int) -> bool:
    """pydantic puts the tried member of a union into the path: `Text`, `str`, `list[str]`."""
    return isinstance(step, str) and (
        step in {"str", "int", "float", "bool"} or step[:1].isupper() or "[" in step
    )


def _fields_at(cls: Any, path: tuple[str | int, ...]) -> list[str]:
    """Names of the fields of the dataclass that stands at `path` below `cls`."""
    for step in path:
        if _is_document(cls):
            cls = _hints(cls)[str(step)]
        elif typing.get_origin(cls) in (dict, list):
            cls = typing.get_args(cls)[-1]
        cls = next((c for c in typing.get_args(cls) if _is_document(c)), cls)
    return [field.name for field in dataclasses.fields(cls)] if _is_document(cls) else []
