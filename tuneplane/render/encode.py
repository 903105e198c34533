"""One encoder for each kind of place in a script: a shell word, a directive's value, a comment, a heredoc.

The templates print nothing else: a value that is not `Encoded` makes rendering fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from tuneplane.plan.model import Place, Ref, Value
from tuneplane.visible import visible

VARIABLES: dict[Place, str] = {
    "run": "$tp_run",
    "files": "$tp_files",
    "attempt": "$tp_dir",
    "output": "$tp_run/output",
    "scratch": "$tp_scratch",
    "home": "$tp_home",
    "user": "$tp_user",
}
"""The script's own variables for what only the job knows."""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%_+=:,./-")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


class Encoded(str):
    """Text that is right for the place it was made for."""

    __slots__ = ()


class NotEncodable(ValueError):
    """A value that its place cannot hold."""


def word(value: Value) -> Encoded:
    """One word of bash: quoted text, or a folder's variable with quoted text around it.

    What cannot be seen (control characters, bidirectional marks, odd spaces) is written as escapes, so that a
    reader of the script sees all there is. Raises NotEncodable for NUL and for text that is not Unicode.
    """
    if isinstance(value, Ref):
        start = _text(value.prefix) if value.prefix else ""
        end = word(value.suffix) if value.suffix else ""
        return Encoded(f'{start}"{VARIABLES[value.place]}"{end}')
    return _text(value)


def _text(text: str) -> Encoded:
    if "\0" in text:
        raise NotEncodable("a NUL character cannot be in a word")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotEncodable("the text is not Unicode") from None
    if text and _PLAIN.issuperset(text) and not text.startswith(("=", "~")):
        return Encoded(text)
    if visible(text):
        return Encoded("'" + text.replace("'", "'\\''") + "'")
    # no letter beyond ASCII stands inside `$'…'`: a bash in a locale such as GBK takes a backslash behind it for its part
    runs = groupby(text, lambda c: not c.isascii() and visible(c))
    return Encoded("".join(f"'{''.join(run)}'" if beyond else _escaped(run) for beyond, run in runs))


def _escaped(run: Iterable[str]) -> str:
    """`$'…'` of the characters; `\\xHH` takes at most two digits, so what follows is never swallowed."""
    text = ""
    for c in run:
        shown = c if visible(c) else "".join(f"\\x{byte:02x}" for byte in c.encode())
        text += _ESCAPES.get(c, shown)
    return f"$'{text}'"


def directive(value: str) -> Encoded:
    """The value of a `#SBATCH --name=` line, as sbatch's own lexer reads it (src/sbatch/opt.c): double quotes,
    in which a backslash protects itself and a quote. A line break would begin another line, so what is not
    printable is refused. Raises NotEncodable.
    """
    if not visible(value):
        raise NotEncodable("a directive holds printable characters only")
    if value and _PLAIN.issuperset(value):
        return Encoded(value)
    return Encoded('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"')


def comment(text: str) -> Encoded:
    """Text behind a `#`: one line whatever it holds."""
    return Encoded("".join(c if visible(c) else c.encode("unicode_escape").decode() for c in text))


def number(value: int) -> Encoded:
    """A whole number."""
    return Encoded(str(int(value)))


def heredoc(data: Any, delimiter: str) -> Encoded:
    """JSON for a quoted heredoc, in ASCII; no line of JSON is a bare word, so none is the delimiter."""
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False)
    if delimiter in text.splitlines():
        raise NotEncodable("the text holds the heredoc's end")
    return Encoded(text)


def verbatim(text: str) -> Encoded:
    """A line that the site's admin wrote to be run as it is, or a constant of this package."""
    return Encoded(text)
