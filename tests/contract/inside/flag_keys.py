"""Every flag of scripts that use argparse, with its type: FOLDER PACKAGE SCRIPT... gives JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from main_block import Script


class Built(Exception):
    """The parser is as it would begin to read its arguments."""


def built(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
    raise Built(parser)


def flags_of(script: Script) -> dict[str, str]:
    argparse.ArgumentParser.parse_args = built  # type: ignore[assignment]
    try:
        script.run([])
    except Built as caught:
        actions = caught.args[0]._actions
        return {
            action.option_strings[-1].lstrip("-"): kind(action) for action in actions if action.dest != "help"
        }
    raise RuntimeError(f"{script.name} did not read its arguments")


def kind(action: argparse.Action) -> str:
    if isinstance(action, (argparse._StoreTrueAction, argparse._StoreFalseAction)):
        return "flag"
    if not isinstance(action, argparse._StoreAction) or len(action.option_strings) != 1:
        raise RuntimeError(f"an unknown kind of flag: {action}")
    return getattr(action.type, "__name__", "str") + ("*" if action.nargs else "")


folder, package, *names = sys.argv[1:]
json.dump({name: flags_of(Script(Path(folder), package, name)) for name in names}, sys.stdout)
