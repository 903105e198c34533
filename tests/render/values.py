"""Odd values for the encoders: every character that could matter, fixed cases, and random mixtures from a seed."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

from hypothesis import strategies as st

CONTROLS = [chr(code) for code in (*range(1, 0x20), *range(0x7F, 0xA0))]
ASCII = [chr(code) for code in range(0x20, 0x7F)]
WIDE = [
    *"éßñ世界αЖ\u3042",
    "e\u0301",  # combining
    "\u0301",
    "\u200d\u200b\u2060",  # joiners and spaces of no width
    "\u202e\u2066\u200f\u061c",  # bidirectional marks
    "\xa0\u2003\u3000\u1680",  # odd spaces
    "\u2028",
    "\u2029",
    "\u115f\u3164\uffa0\u2800",  # fillers that show nothing
    "\ufeff",
    "\ufffe\uffff",
    "\ue000\U000f0000",  # private use
    "\U0001f600",
    "\U0001fae0",  # an emoji of Unicode 14: another answer of `isprintable` on Python 3.10 and 3.11
    "\U0001f468\u200d\U0001f469",
    "\u2764\ufe0f",
    "\U000e0041",
    "\U0010ffff",
]
FRAGMENTS = [
    *(
        "$(id)",
        "`id`",
        "${HOME}",
        "$HOME",
        "$'\\n'",
        '$"x"',
        "$((1+1))",
        "${IFS}",
        "<(id)",
        ">x",
        "&&",
        "||",
        ";;",
    ),
    *("''", '""', "'\\''", "\\'", '\\"', "\\\\", "\\n", "\\x41", "\\u000A", "\\", "'\"'\"'", "$'", "a'b"),
    *("\r\n", "\n\n", "\n#SBATCH --x=y\n", "\nEOF\n", "\n}\n", "TUNEPLANE_PARAMS", "\nTUNEPLANE_PARAMS\n"),
    *(
        "-n",
        "-e",
        "--",
        "-",
        "--opt=a b",
        "~",
        "~root",
        "~+",
        "a=~",
        "a:~b",
        "=",
        "=x",
        "A=B",
        "#",
        " #x",
        "!",
        "!!",
    ),
    *(
        "*",
        "?",
        "[a-z]",
        "{a,b}",
        "{1..3}",
        "@(a|b)",
        "%s%n",
        "%",
        "^x^y",
        "a,b",
        "a:b",
        "(",
        ")",
        "() { :; }; id",
    ),
    *(
        " ",
        "  ",
        " lead",
        "trail ",
        "\t",
        "\ttab",
        "\n",
        "\r",
        "",
        "if",
        "case",
        "done",
        "in",
        "if then fi",
        "1",
        "0x1",
    ),
]
FIXED = [*FRAGMENTS, *CONTROLS, *ASCII, *WIDE, *(f"a{c}b" for c in CONTROLS), "x" * 100_000, "'\n$" * 10_000]

_PIECES = [*CONTROLS, *ASCII * 2, *WIDE, *FRAGMENTS, *FRAGMENTS]


def odd(count: int, seed: int, keep: Callable[[str], bool] = lambda text: True) -> list[str]:
    """`count` values for which `keep` holds: the fixed ones, then mixtures, the same for each seed."""
    draw = random.Random(seed)
    found = [text for text in FIXED if keep(text)]
    while len(found) < count:
        text = "".join(draw.choices(_PIECES, k=draw.randint(1, 12)))
        if keep(text):
            found.append(text)
    return found[:count]


def in_parts(values: list[str], number: int, size: int = 700_000) -> list[list[str]]:
    """`values` in lists of `number` values and `size` bytes at most: what one start of a process can take."""
    parts: list[list[str]] = [[]]
    room = size
    for text in values:
        room -= len(text.encode())
        if len(parts[-1]) == number or room < 0:
            parts.append([])
            room = size - len(text.encode())
        parts[-1].append(text)
    return parts


texts = st.lists(
    st.sampled_from(_PIECES) | st.characters(exclude_characters="\0", exclude_categories=["Cs"])
).map("".join)


def hides_something(text: str) -> bool:
    """Whether this Python knows of a character in `text` that a reader does not see."""
    return any(
        c != " " and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp") for c in text
    )


def every_character() -> list[str]:
    """All that Unicode names or may name, without its great blocks of ideographs and Hangul and of nothing."""
    blocks = (
        (0x1, 0x3400),
        (0x9FF0, 0xAC10),
        (0xD790, 0xD800),
        (0xE000, 0xE010),
        (0xF8F0, 0x20010),
        (0xDFFF0, 0xE1010),
    )
    return [chr(code) for first, last in (*blocks, (0x10FFF0, 0x110000)) for code in range(first, last)]
