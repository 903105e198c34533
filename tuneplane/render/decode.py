"""Words of a script back as the texts they were made from: what `encode.word` writes, and no more of bash than that."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9@%_+=:,./-]+")
_QUOTED = re.compile(r"'([^']*)'")
_DOLLAR = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
_NAMED = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "'": b"'"}


def words(line: str) -> list[str]:
    """The texts of a line of words with one space between them. Raises ValueError when it is none."""
    found = []
    while True:
        text, line = first(line)
        found.append(text)
        if not line:
            return found
        if not line.startswith(" "):
            raise ValueError("not a line of words")
        line = line[1:]


def first(line: str) -> tuple[str, str]:
    """The text of the word at the beginning of `line`, and what follows. Raises ValueError when there is none."""
    parts: list[bytes] = []
    rest = line
    while True:
        if match := _PLAIN.match(rest):
            parts.append(match[0].encode())
        elif match := _QUOTED.match(rest):
            parts.append(match[1].encode("utf-8", "surrogateescape"))
        elif match := _DOLLAR.match(rest):
            parts.append(_unescaped(match[1]))
        elif rest.startswith("\\'"):
            parts.append(b"'")
            rest = rest[2:]
            continue
        else:
            break
        rest = rest[match.end() :]
    if rest == line:
        raise ValueError("no word")
    return b"".join(parts).decode(), rest


def _unescaped(text: str) -> bytes:
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogateescape"))
        if match[1] is None and match[2] not in _NAMED:
            raise ValueError(f"\\{match[2]} is no escape of ours")
        parts.append(bytes.fromhex(match[1]) if match[1] is not None else _NAMED[match[2]])
        end = match.end()
    return b"".join([*parts, text[end:].encode("utf-8", "surrogateescape")])
