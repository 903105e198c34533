"""Two scripts line by line: every difference with the name of what it changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import NamedTuple

from tuneplane.audit.claims import AUDIT_LINE
from tuneplane.audit.model import IMAGE, Difference
from tuneplane.render.script import PARAMS_END, PREFIXES

MAX_DIFFERENCES = 200
_MAX_PRODUCT = 1_000_000
"""Lines times lines up to which the two are aligned: beyond, a script made to be slow to compare would be."""

_DIRECTIVE = re.compile(r"\s*#\s*SBATCH\s+(-{1,2}[A-Za-z][\w-]*)")
_EXPORT = re.compile(rf"\s*export (?:{'|'.join(filter(None, PREFIXES.values()))})?([A-Za-z_]\w*)=")
_JSON_KEY = re.compile(r'\s*"((?:[^"\\]|\\.)*)": ')
_SECTION = re.compile(r"# -{4} (\w+) -+")
_FLAG = re.compile(r"\s*'?(--?[A-Za-z][\w.-]*)")
_CONTINUED = {"experiment": "experiment folder", "site": "site digest", "image": "image digest"}
_IMAGE_LINES = (
    re.compile(r" *(tp_image=|tp_(check_image|stage) [/'\"])"),
    re.compile(r'\[ "\$\(sha256sum <'),
)


class Line(NamedTuple):
    """A line with what it is: kind and key say what of, section where."""

    number: int
    text: str
    kind: str
    key: str
    section: str

    @property
    def where(self) -> str:
        return f"line {self.number} {self.key or f'({self.section})'}"

    @property
    def shown(self) -> str:
        """The text without what only ties the line to others."""
        text = self.text.strip()
        return text.removesuffix("\\").rstrip() if self.kind == "argument" else text


def differences(expected: str, found: str) -> list[Difference]:
    """Every difference, in the order of the lines; none when the texts are the same."""
    if expected == found:
        return []
    gone, new, beside = _changed(_classified(expected), _classified(found))
    placed = [(line.number, _pair(old, line)) for old, line in _paired(gone, new, beside)]
    placed += [
        (old.number, Difference(old.kind, f"{old.where}, as compiled", old.shown, None)) for old in gone
    ]
    placed += [(line.number, Difference(line.kind, line.where, None, line.shown)) for line in new]
    named = [difference for _, difference in sorted(placed, key=lambda item: item[0])]
    if len(named) > MAX_DIFFERENCES:
        more = f"{len(named) - MAX_DIFFERENCES} more differences"
        named[MAX_DIFFERENCES:] = [Difference("script", "", None, more)]
    return named


def _pair(old: Line, line: Line) -> Difference:
    """One line in place of another, or in another place."""
    if old.text == line.text:
        return Difference(line.kind, f"{line.where}, moved from line {old.number}", old.shown, line.shown)
    same = old.shown == line.shown
    return Difference(line.kind, line.where, *((old.text, line.text) if same else (old.shown, line.shown)))


def _paired(
    gone: list[Line], new: list[Line], beside: list[tuple[Line, Line]]
) -> Iterator[tuple[Line, Line]]:
    """Lines of the two that belong together, which are taken out of them: of the same text, then of the same key, then
    of one kind in one place.
    """
    candidates = (
        (old, line)
        for same in (_same_text, _same_thing)
        for old in list(gone)
        for line in new
        if same(old, line)
    )
    by_place = ((old, line) for old, line in beside if old.kind == line.kind)
    for old, line in chain(candidates, by_place):
        if old in gone and line in new:
            gone.remove(old)
            new.remove(line)
            yield old, line


def _same_text(old: Line, line: Line) -> bool:
    return old.text == line.text and len(old.text.strip()) > 3


def _same_thing(old: Line, line: Line) -> bool:
    return bool(old.key) and (old.kind, old.key) == (line.kind, line.key)


def _changed(
    before: Sequence[Line], after: Sequence[Line]
) -> tuple[list[Line], list[Line], list[tuple[Line, Line]]]:
    """Lines that are gone, lines that are new, and which of them stand in each other's place."""
    first, second = [line.text for line in before], [line.text for line in after]
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start]:
        start += 1
    end = 0
    while end < min(len(first), len(second)) - start and first[-1 - end] == second[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) * len(new) > _MAX_PRODUCT:
        few = MAX_DIFFERENCES + 1
        return list(old[:few]), list(new[:few]), []
    gone: list[Line] = []
    come: list[Line] = []
    beside: list[tuple[Line, Line]] = []
    matcher = SequenceMatcher(None, [line.text for line in old], [line.text for line in new], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            gone += old[a:b]
            come += new[c:d]
            beside += zip(old[a:b], new[c:d], strict=False)
    return gone, come, beside


def _classified(text: str) -> list[Line]:
    """The lines with their meaning, by what stands before them."""
    found: list[Line] = []
    section, label, block = "header", "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if match := _SECTION.match(line):
            section = match[1]
        elif section == "header" and (not line.startswith("#") or line.startswith("#SBATCH")):
            section = "directives"
        if block and line.strip() in (PARAMS_END, "}"):
            if block == "arguments":
                # the last argument as if others followed: that one follows is no change of this one
                found[-1] = found[-1]._replace(text=f"{found[-1].text} \\")
            block = ""
        if line == AUDIT_LINE:
            label = "command"
        elif label != "command" and re.match(r"#   \S", line):
            label = line[4:].split(" ", 1)[0]
        kind, key = _meaning(line, section, label, block)
        found.append(Line(number, line, kind, key, section))
        if line.endswith(f"<<'{PARAMS_END}'"):
            block = "parameters"
        elif line.strip() == "-- \\" or (line.strip() == "--" and section == "launch"):
            block = "arguments"
    return found


def _meaning(line: str, section: str, label: str, block: str) -> tuple[str, str]:
    """(kind, key) of a line. The key is empty where lines of that kind have no name of their own."""
    if match := _DIRECTIVE.match(line):
        return "directive", match[1]
    if section == "header":
        return (IMAGE if label == "image" else "header"), _header_key(line, label)
    if block == "parameters":
        match = _JSON_KEY.match(line)
        return "parameter", match[1] if match else ""
    if block == "arguments":
        match = _FLAG.match(line)
        return "argument", match[1] if match else ""
    if match := _EXPORT.match(line):
        return "environment", match[1]
    if any(pattern.match(line) for pattern in _IMAGE_LINES):
        return IMAGE, ""
    return "script", ""


def _header_key(line: str, label: str) -> str:
    if not line.startswith("#   "):
        return ""
    return _CONTINUED.get(label, label) if line.startswith("#    ") else label
