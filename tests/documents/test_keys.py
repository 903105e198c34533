"""Where keys stand, and why some could not be written over."""

from __future__ import annotations

import pytest

from tuneplane.documents.keys import Key, keys_of


def at(text: str) -> list[tuple[str, str, str]]:
    """Each key's word, and its key and value as they are written."""
    return [(k.word, text[k.start : k.end], text[slice(*k.value)]) for k in keys_of(text, "params")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("params: {'a' : 1, b, c: [x, {y: z}] }", [("a", "'a'", "1"), ("b", "b", ""), ("c", "c", "[x, {y: z}]")]),
        ("x: 1\nparams:\n  a: &x !!str 5 # c\n  b:\n", [("a", "a", "&x !!str 5"), ("b", "b", "")]),
        ("k: &k a\nparams: {*k : *k}\n", [("a", "*k", "*k")]),
        ("😀: é\nparams:\n  é: 世\n", [("é", "é", "世")]),
        ("params: [a]\n", []),
        ("params:\n", []),
        ("other: {a: 1}\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_found(text: str, found: list[tuple[str, str, str]]) -> None:
    assert at(text) == found


@pytest.mark.parametrize(
    ("text", "obstacle", "fixed"),
    [
        ("params: {a: 1}", "", ""),
        ("params:\n  a:\n    - 1\n", "", "its value spans several lines"),
        ("params: {a: &x 1}\nenv: {b: *x}\n", "", "the anchor `&x` of its value is used by an alias"),
        (
            "params: {&a a: 1}\nenv: {b: *a}\n",
            "its anchor `&a` is used by an alias",
            "its anchor `&a` is used by an alias",
        ),
        (
            "params: &p {a: 1}\nenv: *p\n",
            "`params` is used again by an alias",
            "`params` is used again by an alias",
        ),
        ("x: &p {a: 1}\nparams: *p\n", "`params` is an alias of `&p`", "`params` is an alias of `&p`"),
    ],
)
def test_what_is_in_the_way(text: str, obstacle: str, fixed: str) -> None:
    (key,) = keys_of(text, "params")
    assert isinstance(key, Key) and (key.obstacle, key.fixed) == (obstacle, fixed)
