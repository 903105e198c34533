"""Which characters a reader sees: a fixed rule, so that every Python gives the same script.

`str.isprintable` follows the Unicode version of the interpreter, and calls fillers printable that show nothing.
"""

from __future__ import annotations

import re
from functools import cache

# Unicode 16: controls, format marks, odd spaces, surrogates, private use, and the default ignorable code points
# with those reserved for such. A code point that has no character yet counts as visible.
_UNSEEN = (
    "\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680"
    "\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\uf8ff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"[{_UNSEEN}]")


def visible(text: str) -> bool:
    """Whether each character of `text` shows; the space is the only blank that does."""
    return text.isprintable() if text.isascii() else _unseen().search(text) is None
