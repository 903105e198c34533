"""What the kinds of runtimes differ in: the image formats they start, and the paths they can mount."""

from __future__ import annotations

SIF, SQSH = "sif", "sqsh"
NAMES = {SIF: "SIF", SQSH: "SQSH"}
STARTED_BY = {"apptainer": (SIF, SQSH), "pyxis": (SQSH,), "enroot": (SQSH,)}
"""Runtime kind → formats, the better one first; a kind without containers has none."""
UNMOUNTABLE = {"enroot": " \t\n\\:", "pyxis": ' \t\n\\:,"$`'}
"""Runtime kind → characters that the path of a mount cannot hold there, because nothing escapes them.

Measured on Enroot 4.1.2 and pyxis 0.24.0: fields are separated by white space and colons, pyxis separates mounts by
commas and writes them into shell text. Whether octal escapes are read depends on how Enroot was built.
"""
_SPOKEN = {
    ",": "comma",
    ":": "colon",
    "\\": "backslash",
    '"': "double quote",
    "$": "dollar sign",
    "`": "backtick",
}


def unmountable(kind: str, path: str) -> str:
    """Why a runtime kind cannot mount a path: `a space or a colon is in it`; empty when it can."""
    names = [
        _SPOKEN.get(c, "space" if c == " " else "white space") for c in UNMOUNTABLE.get(kind, "") if c in path
    ]
    return f"a {' or a '.join(dict.fromkeys(names))} is in it" if names else ""
