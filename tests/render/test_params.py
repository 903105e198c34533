"""The parameters' JSON, read back from a quoted heredoc of the real bash."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render.values import odd, texts

from tuneplane.render.encode import NotEncodable, heredoc
from tuneplane.render.script import PARAMS_END


def through_bash(data: object) -> bytes:
    script = f"cat <<'{PARAMS_END}'\n{heredoc(data, PARAMS_END)}\n{PARAMS_END}\n"
    done = subprocess.run(["/bin/bash", "-p"], input=script.encode(), capture_output=True, timeout=60)
    assert done.stderr == b""
    return done.stdout


def test_odd_parameters_reach_a_file() -> None:
    values = [*odd(1000, seed=21), PARAMS_END, "\0", "\ud800", f'",\n{PARAMS_END}\nid\n']
    data = {"params": {text: i for i, text in enumerate(values)}, "args": values}
    out = through_bash(data)
    assert json.loads(out) == data
    assert re.fullmatch(rb"[ -~\n]*", out)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


@settings(max_examples=40, deadline=None)
@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20))
def test_any_parameters_reach_a_file(data: object) -> None:
    assert json.loads(through_bash(data)) == data


def test_the_order_of_keys_is_not_that_of_their_insertion() -> None:
    assert heredoc({"b": 1, "a": 2}, "X") == heredoc({"a": 2, "b": 1}, "X") == '{\n  "a": 2,\n  "b": 1\n}'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_know_are_refused(value: float) -> None:
    with pytest.raises(ValueError):
        heredoc({"a": value}, "X")


def test_text_with_a_line_that_is_the_end_is_refused() -> None:
    assert heredoc("END", "END") == '"END"'
    with pytest.raises(NotEncodable):
        heredoc(1, "1")
