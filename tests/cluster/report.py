"""What the tests measured, for the end of pytest's own report: rows of a table each, under a heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

TABLES: dict[str, list[Sequence[str]]] = {}
HEADS: dict[str, Sequence[str]] = {
    "faults": (
        "launch",
        "case",
        "verdict",
        "record",
        "all gone",
        "bound",
        "code",
        "node",
        "rank",
        "reason",
        "message",
    ),
    "attempts": ("run", "attempt", "seconds", "from", "to step", "cause", "next", "decided by"),
    "times": ("what", "seconds"),
}


def row(table: str, *cells: object) -> None:
    """Add a line to one of the tables of HEADS; what is left out at its end is not known."""
    TABLES.setdefault(table, []).append(
        [_text(cell) for cell in (*cells, *[None] * (len(HEADS[table]) - len(cells)))]
    )


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.1f} s"
    return "-" if cell in (None, "") else str(cell)


def lines() -> Iterator[str]:
    """The tables as text."""
    for name, rows in TABLES.items():
        grid = [HEADS[name], *rows]
        widths = [max(len(line[column]) for line in grid) for column in range(len(HEADS[name]))]
        yield f"{name}:"
        for line in grid:
            yield (
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            )
