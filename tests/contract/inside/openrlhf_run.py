"""OpenRLHF's own command line for many commands at once: FOLDER; JSON requests on stdin, an answer for each.

It runs in an interpreter with torch; what else OpenRLHF imports is stood in for, see `openrlhf_calls`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import sys
from functools import cache
from pathlib import Path
from typing import Any

from serve import serve  # isort: skip - before anything prints
from main_block import Script
from openrlhf_calls import call

FOLDER = Path(sys.argv[1])
_parse_args = argparse.ArgumentParser.parse_args


@cache
def script(name: str) -> Script:
    return Script(FOLDER, "openrlhf", name)


def parsed(name: str, words: list[str]) -> tuple[dict[str, Any], Any]:
    """What argparse made of the words by flag, and what upstream then hands to `train`.

    A flag that argparse would take for a longer one is refused: upstream's next release may have two of them.
    """
    raw: dict[str, Any] = {}
    handed: list[Any] = []

    def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
        flags = parser._option_string_actions
        for word in words:
            if word.startswith("--") and word.split("=")[0] not in flags:
                raise ValueError(f"{word.split('=')[0]} is no flag of {name}")
        found = _parse_args(parser)
        values = copy.deepcopy(vars(found))
        raw.update({flag.lstrip("-"): values.get(action.dest) for flag, action in flags.items()})
        return found

    argparse.ArgumentParser.parse_args = parse  # type: ignore[assignment,method-assign]
    script(name).run(words, train=handed.append)
    return raw, handed[0]


def selected(args: Any, key: str) -> Any:
    for name in key.split("."):
        args = getattr(args, name, None)
    return args


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """`values`: what argparse made of each key; `changed`: what upstream made of it then; `error`, `unchecked`."""
    found: dict[str, Any] = {"values": {}, "changed": {}, "computed": {}, "error": "", "unchecked": ""}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            raw, args = parsed(request["config"], request["words"])
        for key in request["keys"]:
            found["values"][key] = raw.get(key)
            if plain(selected(args, key)) != plain(raw.get(key)):
                found["changed"][key] = selected(args, key)
        script(request["config"]).check("train", args=args)
        found["computed"] = call(request["config"], copy.deepcopy(args))
    except (Exception, SystemExit) as error:
        lines = said.getvalue().strip().splitlines()
        found["error"] = f"{type(error).__name__}: {lines[-1] if lines else error}"
    return found


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


serve(answer)
