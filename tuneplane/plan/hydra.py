"""Overrides in Hydra's grammar (hydra-core 1.3, `hydra/grammar/OverrideLexer.g4`) and OmegaConf's interpolations (2.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tuneplane.plan.model import Place, Ref

VARIABLES: dict[Place, str] = {
    "run": "TUNEPLANE_RUN_DIR",
    "files": "TUNEPLANE_EXPERIMENT_DIR",
    "output": "TUNEPLANE_OUTPUT_DIR",
    "home": "TUNEPLANE_USER_HOME",
}
"""The job's variables through which a value says what only the job knows: whatever a folder is called, it is not read
as grammar."""


class Raw(str):
    """Text that a recipe writes as it is to be sent."""

    __slots__ = ()


def override(key: str, value: Any, open_sections: Sequence[str]) -> str:
    """One word `key=value`; a key below an open section is a new one and begins with `+`."""
    new = any(key == section or key.startswith(f"{section}.") for section in open_sections)
    return f"{'+' if new else ''}{key}={_value(value)}"


def is_filled_in(value: Any) -> bool:
    """Whether a text holds `${`. OmegaConf can escape it once, and a program that resolves its configuration reads what
    comes of that again (seen with OmegaConf 2.3).
    """
    if isinstance(value, (list, tuple)):
        return any(map(is_filled_in, value))
    if isinstance(value, Ref):
        return is_filled_in(value.prefix) or is_filled_in(value.suffix)
    return isinstance(value, str) and "${" in value


def _value(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{_value(item)}" for key, item in value.items()) + "}"
    return _quoted(value)


def _quoted(value: str | Ref) -> str:
    """Text in double quotes, which a shell's single quotes leave readable; unquoted, a comma would make a sweep and a
    brace a mapping.
    """
    if isinstance(value, Ref):
        before = _escaped(value.prefix) + "${oc.env:" + VARIABLES[value.place] + "}"
        assert isinstance(value.suffix, str)
        return f'"{before}{_closed(_escaped(value.suffix))}"'
    return f'"{_closed(_escaped(value))}"'


def _escaped(text: str) -> str:
    """Quotes, and the backslashes before them."""
    return re.sub(r'(\\*)"', lambda match: match.group(1) * 2 + r"\"", text)


def _closed(text: str) -> str:
    """Backslashes before the closing quote, doubled."""
    return text + "\\" * (len(text) - len(text.rstrip("\\")))
