"""What `tp new --from EXP --method M` tells of what came along and what did not."""

from __future__ import annotations

import dataclasses
from typing import Any

from tuneplane.cli.cells import columns, indented, table
from tuneplane.cli.output import clean, note
from tuneplane.crossing import Crossing


def as_data(made: Crossing) -> dict[str, Any]:
    """The same as data."""
    return {
        "carried": [{"from": old, "to": new, "value": value} for old, new, value in made.came],
        "not_carried": [dataclasses.asdict(item) for item in made.left],
        "files": [{"file": move.file, "how": move.how, "what": move.what} for move in made.moves],
        "notes": made.notes,
    }


def show(made: Crossing, label: str, method: str) -> None:
    """On stderr: everything that came along in one line, everything that did not in a line each."""
    cells = columns()
    came = [old if old == new else f"{old} as {new}" for old, new, _ in made.came]
    lines = indented(f"carried from {label} ({method}): {', '.join(came) or 'nothing'}", 0, cells)
    if made.left:
        rows = [
            (clean(item.what), clean(item.value), str(item.line or "-"), clean(item.why))
            for item in made.left
        ]
        lines += ["", *table([("NOT CARRIED", "VALUE", "LINE", "WHY"), *rows], cells)]
    if made.moves:
        lines += [
            "",
            *table([("FILE", "HOW", "WHAT"), *((m.file, m.how, m.what) for m in made.moves)], cells),
        ]
    if made.notes:
        lines += ["", *(part for text in made.notes for part in indented(f"note: {text}", 0, cells, 6))]
    note("\n".join(clean(line) for line in lines))


def _short(value: str) -> str:
    """A value that leaves room for the other columns; `--json` has all of it."""
    text = clean(value)
    return text if len(text) <= 24 else text[:23] + "…"
