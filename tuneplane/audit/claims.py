"""Claims, from a run's record or from what a script says of itself."""

from __future__ import annotations

import re
from typing import Any

from tuneplane.audit.model import Claims, Place
from tuneplane.plan.command import Command
from tuneplane.render import decode

_VERSION = re.compile(r"# Job script of tuneplane (\S+)\. ")
_METHOD = re.compile(r"(\S+) \S+, \S+ (\S+)")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})(?: .*)?")
_COMMIT = re.compile(r"(.+/snapshots/([0-9a-f]{40})) \(.+\)")
_IMAGE = re.compile(r"sha256:([0-9a-f]{64}), (\d+) bytes, samples ([0-9a-f]{64})")
_WIDTH = len("#   ") + 12
AUDIT_LINE = "# To audit: this command prints the very same bytes."


def claims_of_record(record: Any) -> Claims | None:
    """What `run.json` says; None when it does not say all of it."""
    try:
        plan = record["plan"]
        said, image = plan["provenance"], plan["image"] or {}
        names = (
            "tool_version",
            "method",
            "framework_version",
            "recipe_digest",
            "site",
            "site_digest",
            "files_digest",
            "helper_digest",
        )
        return Claims(
            **{name: _text(said[name]) for name in names},
            command=Command.read([_text(word) for word in said["command"]]),
            places={_text(item["key"]): _place(item) for item in plan["located"]},
            image_path=_text(image.get("path", "")),
            image_source=_text(image.get("source", "")),
            image_sha256=_text(image["sha256"]) if image.get("sha256") is not None else None,
            image_size=int(image["size"]) if image.get("size") is not None else None,
            image_samples=_text(image["samples"]) if image.get("samples") is not None else None,
            admitted=dict(record["admitted"]) if record.get("admitted") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _place(item: Any) -> Place:
    path = None if item["path"] is None else _text(item["path"])
    texts = (_text(item[name]) for name in ("commit", "missing", "remedy"))
    return Place(path, bool(item["exists"]), *texts)


def claims_of_script(text: str) -> Claims | None:
    """What the script's header and checks say; None when it is no script of tuneplane."""
    lines = text.split("\n")
    version = _VERSION.match(lines[1]) if len(lines) > 1 else None
    header = header_lines(lines)
    try:
        method = _METHOD.fullmatch(_first(header, "method"))
        if version is None or method is None or AUDIT_LINE not in lines:
            return None
        command = lines[lines.index(AUDIT_LINE) + 1].removeprefix("#   ")
        return Claims(
            tool_version=version[1],
            method=method[1],
            framework_version=method[2],
            recipe_digest=_digest(_first(header, "lock")),
            site=_first(header, "site").rsplit(", ", 2)[0],
            site_digest=_digest(_second(header, "site")),
            files_digest=_digest(_first(header, "files")),
            helper_digest=_digest(_first(header, "helper")),
            command=Command.read(decode.words(command)),
            places=_places(lines, header),
            **_image(header),
        )
    except (ValueError, IndexError):
        return None


def header_lines(lines: list[str]) -> list[tuple[str, str]]:
    """(label, text) of the header, a continuation under the label above it."""
    found: list[tuple[str, str]] = []
    for line in lines[3 : lines.index(AUDIT_LINE)] if AUDIT_LINE in lines else []:
        if line.startswith("#    "):
            found.append((found[-1][0] if found else "", line[_WIDTH:]))
        elif line.startswith("#   "):
            label = line[4:].split(" ", 1)[0]
            found.append((label, line[max(_WIDTH, 4 + len(label) + 1) :]))
    return found


def _texts(header: list[tuple[str, str]], label: str) -> list[str]:
    return [text for name, text in header if name == label]


def _first(header: list[tuple[str, str]], label: str) -> str:
    return _texts(header, label)[0]


def _second(header: list[tuple[str, str]], label: str) -> str:
    return _texts(header, label)[1]


def _digest(text: str) -> str:
    match = _SHA256.fullmatch(text)
    if match is None:
        raise ValueError("no digest")
    return match[1]


def _image(header: list[tuple[str, str]]) -> dict[str, Any]:
    """What the header says of the image, by the names of claims."""
    texts = _texts(header, "image")
    if len(texts) < 2:
        return {}
    path, _, source = texts[0].removesuffix(")").rpartition(" (")
    found: dict[str, Any] = {"image_path": path, "image_source": source}
    if texts[1] == "digest unknown":
        return found
    match = _IMAGE.fullmatch(texts[1])
    if match is None:
        raise ValueError("no digest of an image")
    return {**found, "image_sha256": match[1], "image_size": int(match[2]), "image_samples": match[3]}


def _places(lines: list[str], header: list[tuple[str, str]]) -> dict[str, Place]:
    """Model, data and path parameters: the checks name them exactly, the header names also what is missing."""
    checked = dict(filter(None, map(_checked, lines)))
    missing = [decode.first(line.removeprefix("tp_missing="))[0] for line in lines if _is_refusal(line)]
    found = {}
    for key, text in header:
        if key != "model" and not key.startswith(("data.", "params.")):
            continue
        commit = _COMMIT.fullmatch(text)
        path = checked.get(key) or (commit[1] if commit else text)
        sentence = next((said for said in missing if said.startswith(f"{key} ")), "")
        unknown = key not in checked and text == "unknown"
        found[key] = Place(None if unknown else path, key in checked, commit[2] if commit else "", sentence)
    return found


def _is_refusal(line: str) -> bool:
    return line.startswith("tp_missing=") and line.endswith(" # when this was compiled")


def _checked(line: str) -> tuple[str, str] | None:
    """(key, path) of a check that a path exists."""
    if not line.startswith("[ -e "):
        return None
    try:
        path, rest = decode.first(line.removeprefix("[ -e "))
        said, _ = decode.first(rest.removeprefix(" ] || tp_refuse 3 "))
    except ValueError:
        return None
    key, gone, _ = said.partition(" is gone: ")
    return (key, path) if gone else None
