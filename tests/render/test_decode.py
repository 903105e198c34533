"""Words of a script back as the texts they were made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render.values import texts

from tuneplane.render.decode import first, words
from tuneplane.render.encode import word


@given(st.lists(texts, min_size=1, max_size=5))
def test_every_word_is_read_back(values: list[str]) -> None:
    line = " ".join(word(value) for value in values)
    assert words(line) == values


@given(texts)
def test_what_follows_a_word_is_left(value: str) -> None:
    assert first(f"{word(value)} ] || echo 'x'") == (value, " ] || echo 'x'")


@pytest.mark.parametrize(
    "line",
    ["", " a", "a ", "a  b", '"a"', "$(id)", "`id`", "'open", "$'open", "$'\\q'", "a;b", "a>b", "$x", "\\a"],
)
def test_more_of_bash_is_not_read(line: str) -> None:
    with pytest.raises(ValueError):
        words(line)


def test_bytes_that_are_no_text_are_not_read() -> None:
    for line in ("$'\\xff'", "'\udcff'"):
        with pytest.raises(ValueError):
            words(line)
