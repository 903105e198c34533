"""Lists of names to leave out, in the syntax of `.gitignore`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """One line of a `.gitignore`-like list; `reason` is empty when it takes back (`!`)."""

    pattern: re.Pattern[str]
    whole: bool
    folders_only: bool
    reason: str


_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_SET = re.compile(r"\[([!^]?)((?:\[:[a-z]+:\]|\\.|[^\\])(?:\[:[a-z]+:\]|\\.|[^\\\]])*)\]")
_MEMBER = re.compile(r"\[:([a-z]+):\]|(?:\\(.)|([^\\]))(?:-(?:\\(.)|([^\\])))?")
_TOKEN = re.compile(
    rf"(?P<stars>\*+)|(?P<one>\?)|(?P<set>{_SET.pattern})|\\(?P<escaped>.)|(?P<plain>[^\\\[])"
)


def parse(text: str, reason: str) -> list[Rule]:
    """The rules of a text in gitignore's syntax; what git takes for a pattern that never matches is left out."""
    rules = []
    for line in text.removeprefix("\ufeff").split("\n"):
        trimmed = re.match(r"(?:\\.|[^\\])*?(?= *$)", line.removesuffix("\r"))
        glob = trimmed[0] if trimmed else ""
        if glob.startswith("#"):
            continue
        keep, glob = glob.startswith("!"), glob.removeprefix("!")
        folders_only, glob = glob.endswith("/"), glob.removesuffix("/")
        regex = _regex(glob.removeprefix("/"), "/" in glob) if glob else None
        if regex is not None:
            rules.append(
                Rule(re.compile(regex, re.DOTALL), "/" in glob, folders_only, "" if keep else reason)
            )
    return rules


def _regex(glob: str, whole: bool) -> str | None:
    """A glob as a regular expression for a whole path or a base name; None when it can match nothing."""
    regex, at = "", 0
    while at < len(glob):
        token = _TOKEN.match(glob, at)
        if token is None:
            return None
        start, at = at, token.end()
        if token["stars"]:
            opens = whole and at - start > 1 and (start == 0 or glob[start - 1] == "/")
            if opens and at == len(glob):
                regex += ".*"
            elif opens and glob[at] == "/":
                regex, at = regex + "(?:.*/)?", at + 1
            else:
                regex += "[^/]*"
        elif token["set"]:
            regex += _set(token["set"])
        else:
            regex += "[^/]" if token["one"] else re.escape(token["escaped"] or token["plain"])
    return regex


def _set(glob: str) -> str:
    """`[...]` of a glob as a regular expression."""
    match = _SET.fullmatch(glob)
    assert match is not None
    members = ""
    for name, escaped, plain, escaped_to, plain_to in _MEMBER.findall(match[2]):
        low, high = escaped or plain, escaped_to or plain_to
        if name:
            members += _CLASSES.get(name, "")
        elif not high:
            members += re.escape(low)
        elif low <= high:
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return "[^/]" if match[1] else "(?!)"
    return f"(?!/)[{'^' if match[1] else ''}{members}]"


def ignored(rules: Iterable[Rule], path: str, is_folder: bool) -> str:
    """Why `rules` leave `path` out, or nothing: the last rule that matches decides."""
    reason, name = "", path.rpartition("/")[2]
    for rule in rules:
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path if rule.whole else name):
            reason = rule.reason
    return reason
