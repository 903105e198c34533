"""A document read, checked and remembered: what passed once is constructed again without a parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from tuneplane.cache import cache_get, cache_key, cache_put
from tuneplane.documents.shape import checked, construct, fingerprint
from tuneplane.documents.tree import Mapping
from tuneplane.errors import InputError, Problem, TuneplaneError

T = TypeVar("T")


def load(
    cls: type[T],
    text: str,
    name: str,
    problems: Callable[[T, Mapping], Iterable[Problem]],
    error: type[TuneplaneError] = InputError,
) -> T:
    """The document of a file's text; `name` is what messages call the file.

    problems: faults that the shape alone does not show. Raises InputError for faults of the shape, `error` for those.
    """
    kind: Any = cls
    key = cache_key(cls.__qualname__, fingerprint(kind), name, text)
    stored = cache_get(key)
    if stored:
        return construct(kind, json.loads(stored))  # type: ignore[no-any-return]
    from tuneplane.documents.yaml import parse

    tree = parse(text, name)
    found = checked(cls, tree)
    faults = list(problems(found, tree))
    if faults:
        raise error(*faults)
    cache_put(key, json.dumps(asdict(found)).encode())  # type: ignore[call-overload]
    return found
