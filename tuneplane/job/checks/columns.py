"""Whether a data file has the columns that a method reads."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, NamedTuple, Optional, Set, Tuple

from tuneplane.job.checks.rows import Malformed

_SHOWN_NAMES, _SHOWN_CHARACTERS = 12, 60
_KINDS = {list: "a list", str: "a text", float: "a number", bool: "true or false", type(None): "null"}

Columns = Tuple[str, ...]
"""Columns of one row; a dotted name is one inside an object."""


class DataFile(NamedTuple):
    """A file under the key of the configuration that names it; each of its rows has all columns of one layout."""

    key: str
    path: str
    layouts: Tuple[Columns, ...]


class Unfit(NamedTuple):
    """What is wrong with a file, in one sentence; lacking: columns of the nearest layout; present: those there are."""

    sentence: str
    lacking: Columns = ()
    present: Columns = ()


def unfit(file: DataFile) -> Optional[Unfit]:
    """What is wrong with the file, None when nothing was found. Raises NotTold when its columns cannot be told."""
    from tuneplane.job.checks.beginning import beginning

    try:
        for number, row in beginning(file.path):
            found = _against(row, file.layouts)
            if found is not None:
                return found._replace(sentence=_sentence(file, number, found.sentence))
    except Malformed as error:
        return Unfit(_sentence(file, error.row, error.why))
    return None


def read_files(text: str) -> Tuple[DataFile, ...]:
    """The value of the option `--columns`. Raises ValueError."""
    try:
        files = tuple(
            DataFile(key, path, tuple(map(tuple, layouts))) for key, path, layouts in json.loads(text)
        )
        words = [word for file in files for word in (file.key, file.path, *sum(file.layouts, ()))]
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not all(isinstance(word, str) for word in words):
        raise ValueError("a name is no text")
    return files


def written_files(files: Tuple[DataFile, ...]) -> str:
    """The same as text in ASCII, empty for no files."""
    return json.dumps(files, separators=(",", ":")) if files else ""


def _sentence(file: DataFile, row: int, why: str) -> str:
    subject = f"row {row} of {shown(file.path)}" if row else shown(file.path)
    return f"{file.key} cannot be used: {subject} {why}"


def _against(row: Any, layouts: Tuple[Columns, ...]) -> Optional[Unfit]:
    """What a row lacks, in a sentence whose subject it is."""
    if not isinstance(row, dict):
        return Unfit(f"is {_KINDS[type(row)]}, not an object")
    lacking = [tuple(name for name in layout if _get(row, name) is None) for layout in layouts]
    if not lacking or not all(lacking):
        return None
    nearest = min(lacking, key=len)
    outer = {name.rpartition(".")[0] for name in nearest}
    present = tuple(name for name, value in _names(row, outer) if value is not None)
    null = tuple(name for name, value in _names(row, outer) if value is None and name in nearest)
    needs = ", or ".join(dict.fromkeys(map(_listed, lacking)))
    has = f"it has {_listed(present) if present else 'no columns'}"
    more = f", and null for {_listed(null)}" if null else ""
    return Unfit(f"lacks {needs}; {has}{more}", nearest, present)


def _get(row: Any, name: str) -> Any:
    """The value of a column, inside objects for a dotted name; None where there is none, or null."""
    if not isinstance(row, dict):
        return None
    if row.get(name) is not None:
        return row[name]
    head, dot, tail = name.partition(".")
    return _get(row.get(head), tail) if dot else None


def _names(row: Dict[str, Any], opened: Set[str], before: str = "") -> Iterator[Tuple[str, Any]]:
    """Columns and their values, with the columns inside of the `opened` ones in their place."""
    for name, value in row.items():
        full = before + name
        if full in opened and isinstance(value, dict) and value:
            yield from _names(value, opened, f"{full}.")
        else:
            yield full, value


def _listed(names: Columns) -> str:
    some = [shown(name, _SHOWN_CHARACTERS) for name in names[:_SHOWN_NAMES]]
    if len(some) < len(names):
        return f"{', '.join(some)} and {len(names) - len(some)} more"
    return " and ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)


def shown(text: str, limit: int = 400) -> str:
    """`text` in backticks: what is not printable is escaped, the end is cut off."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"`{text[: limit - 1]}…`" if len(text) > limit else f"`{text}`"
