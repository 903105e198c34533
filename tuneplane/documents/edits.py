"""Keys of a YAML document put in the place of others: every byte outside them, and every comment, stays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneplane.documents.keys import Key, keys_of
from tuneplane.documents.tree import Mapping as Tree
from tuneplane.documents.tree import Node, Scalar
from tuneplane.documents.tree import Sequence as Items
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError, Problem, shown

_BLANK = re.compile(r"(?:[ \t\r\n]|(?<=\s)#[^\r\n]*)*")
"""What may stand between a value in braces and the comma behind it."""
_REST = re.compile(r"([ \t]*)(#[^\r\n]*)?")
"""What may stand behind a value on its line."""


@dataclass(frozen=True)
class Put:
    """A key that takes another's place. value: YAML text of one line, None keeps the value that is there."""

    word: str
    value: str | None = None


Places = Mapping[str, Sequence[Put]]
"""Key → what takes its place: with none it is taken out, of several the later ones get lines of their own behind it."""


def rewritten(text: str, name: str, section: str, places: Places) -> str:
    """`text` with keys of the section in the place of others; YAML must take the new ones as they stand.

    Raises InputError naming the keys that cannot make way as they are written; `name` is what messages call the file.
    """
    keys = keys_of(text, section)
    todo = [i for i, key in enumerate(keys) if list(places.get(key.word, [Put(key.word)])) != [Put(key.word)]]
    obstacles = [(keys[i], _obstacle(text, keys[i], places[keys[i].word])) for i in todo]
    if problems := [
        _problem(key, why, places[key.word], f"{name}:{key.line} {section}.{key.word}")
        for key, why in obstacles
        if why
    ]:
        raise InputError(*problems)
    made = text
    for i in reversed(todo):
        # the keys before this one are where they were
        now = keys if made is text else keys_of(made, section)
        made = _placed(made, now, i, places[keys[i].word])
    _check(text, made, name, section, places)
    return made


def _obstacle(text: str, key: Key, puts: Sequence[Put]) -> str:
    """Why these cannot take the key's place; empty when they can."""
    if len(puts) == 1 and puts[0].value is None:
        return key.obstacle
    if key.obstacle or key.fixed or key.inline or len(puts) == 1:
        return key.obstacle or key.fixed
    # lines come and go as a whole
    before = text[_line_start(text, key.start) : key.start]
    rest = _rest(text, key)[2]
    return "something else stands on its line" if before.strip() or rest else ""


def _problem(key: Key, why: str, puts: Sequence[Put], where: str) -> Problem:
    if len(puts) == 1 and puts[0].value is None:
        what, expected = "renamed", f"the key {shown(puts[0].word)}, written out"
    elif puts:
        put = " and ".join(shown(f"{put.word}: {put.value}") for put in puts)
        what, expected = "replaced", f"{put} in its place"
    else:
        what, expected = "taken out", "a configuration without it"
    return Problem(f"{shown(key.word)} cannot be {what} in place: {why}", where, expected)


def _placed(text: str, keys: Sequence[Key], i: int, puts: Sequence[Put]) -> str:
    """The text with `puts` in the place of the i-th key."""
    key = keys[i]
    if not puts:
        pieces = _taken_out(text, keys, i)
    else:
        pieces = [(key.start, key.end, f"{key.quote}{puts[0].word}{key.quote}")]
        if puts[0].value is not None:
            pieces.append(_value(text, key, puts[0].value))
        pieces += _behind(text, key, puts[1:])
    # of two at one place the later one stands behind
    for start, end, new in reversed(sorted(pieces, key=lambda piece: piece[0])):
        text = text[:start] + new + text[end:]
    return text


_Piece = tuple[int, int, str]
"""From, to, and what stands there then."""


def _value(text: str, key: Key, value: str) -> _Piece:
    """The value in the place of the key's."""
    start, end = key.value
    if start < end:
        return start, end, value
    colon = re.compile(r"\s*:").match(text, key.end)
    return (colon.end(), colon.end(), f" {value}") if colon else (key.end, key.end, f": {value}")


def _end(text: str, key: Key) -> int:
    """Where the key's value ends, or the colon behind the key where it has none."""
    return _value(text, key, "")[1]


def _behind(text: str, key: Key, puts: Sequence[Put]) -> list[_Piece]:
    """The keys behind this one, each on a line of its own, or in the same braces."""
    if not puts:
        return []
    lines = [f"{put.word}: {put.value}" for put in puts]
    if key.inline:
        end = _end(text, key)
        return [(end, end, "".join(f", {line}" for line in lines))]
    indent = text[_line_start(text, key.start) : key.start]
    _, end, _ = _rest(text, key)
    newline = _newline(text, end)
    if newline:
        end += len(newline)
        return [(end, end, "".join(f"{indent}{line}{newline}" for line in lines))]
    newline = "\r\n" if "\r\n" in text else "\n"
    return [(end, end, "".join(f"{newline}{indent}{line}" for line in lines))]


def _taken_out(text: str, keys: Sequence[Key], i: int) -> list[_Piece]:
    """The key, its value and the comma that goes with them; or their line, of which a comment stays."""
    key = keys[i]
    start, end = key.start, _end(text, key)
    if not key.inline:
        blank, rest, _ = _rest(text, key)
        if rest > blank:
            return [(start, blank, "")]
        return [(_line_start(text, start), rest + len(_newline(text, rest)), "")]
    comma = _comma(text, end)
    if comma >= 0:
        blanks = re.compile(r"[ \t]*").match(text, comma + 1)
        assert blanks is not None
        if not text[end:comma].strip(" \t"):
            end = comma
        return [(start, end, ""), (comma, blanks.end(), "")]
    if i == 0:
        return [(start, end, "")]
    last = keys[i - 1]
    comma = _comma(text, _end(text, last))
    if not text[comma + 1 : start].strip(" \t"):
        return [(comma, end, "")]
    return [(comma, comma + 1, ""), (start, end, "")]


def _comma(text: str, at: int) -> int:
    """Where the comma behind a value in braces stands; -1 where the braces end."""
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end() if text[blank.end() : blank.end() + 1] == "," else -1


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _rest(text: str, key: Key) -> tuple[int, int, str]:
    """Behind a key's value: where blanks end, where a comment behind them ends, and what else is on the line."""
    rest = _REST.match(text, _end(text, key))
    assert rest is not None
    other = "" if _newline(text, rest.end()) or rest.end() == len(text) else text[rest.end() : rest.end() + 1]
    return rest.end(1), rest.end(), other


def _newline(text: str, at: int) -> str:
    """The line's end that stands there, if one does."""
    return next((end for end in ("\r\n", "\n", "\r") if text.startswith(end, at)), "")


def _check(text: str, made: str, name: str, section: str, places: Places) -> None:
    """What was made says what the old text did, but for the keys. Raises InputError when it does not."""
    hand = f"the keys of `{section}` cannot be changed in place", name, "", "change them by hand"
    try:
        before, now = parse(text, name), parse(made, name)
    except InputError:
        raise InputError.of(*hand) from None
    there = before.entries.get(section)
    wanted = list(_wanted(there, places)) if isinstance(there, Tree) and there.entries else _bare(there)
    found = _bare(now.entries.get(section))
    kept, left = ([(k, _bare(n)) for k, n in tree.entries.items() if k != section] for tree in (before, now))
    if kept != left or (found != wanted and (wanted or not _nothing(now.entries.get(section)))):
        raise InputError.of(*hand)


def _wanted(tree: Tree, places: Places) -> Iterator[tuple[str, Any]]:
    for key, node in tree.entries.items():
        for put in places.get(key, [Put(key)]):
            yield put.word, _bare(node if put.value is None else parse(f"v: {put.value}", "v").entries["v"])


def _nothing(node: Node | None) -> bool:
    """Whether no key is left: an empty mapping, or nothing where one was."""
    return not node.entries if isinstance(node, Tree) else isinstance(node, Scalar) and node.text == ""


def _bare(node: Node | None) -> Any:
    """What a node says, wherever it stands."""
    if isinstance(node, Tree):
        return [(key, _bare(item)) for key, item in node.entries.items()]
    if isinstance(node, Items):
        return tuple(_bare(item) for item in node.items)
    return (node.text, node.quoted, repr(node.value)) if isinstance(node, Scalar) else node
