"""Parameter types: what a text means, which values are taken, and that they are written so as to be read again."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from builders import parameter
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import (
    BadValue,
    as_set,
    default_value,
    expectation,
    interval,
    read_node,
    read_text,
    written,
)
from tuneplane.documents.tree import find
from tuneplane.documents.yaml import parse
from tuneplane.durations import FORMS


def refusal(found: Parameter, text: str) -> tuple[str, str]:
    with pytest.raises(BadValue) as caught:
        read_text(found, text)
    return caught.value.what, caught.value.expected


# --- ranges ---

QUARTERS = st.integers(-20, 20).map(lambda number: Fraction(number, 4))
BOUNDS = st.integers(-20, 20).map(Fraction) | QUARTERS


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, Any]:
    """The text of an interval and an independent test of membership in it."""
    low, high = sorted(draw(st.tuples(BOUNDS, BOUNDS)))
    no_low, no_high = draw(st.booleans()), draw(st.booleans())
    opening, closing = draw(st.sampled_from("[(")), draw(st.sampled_from("])"))
    assume(no_low or no_high or low < high or (opening, closing) == ("[", "]"))
    texts = "-inf" if no_low else repr(float(low)), "inf" if no_high else repr(float(high))
    gap = draw(st.sampled_from(["", " "]))

    def inside(number: Fraction) -> bool:
        above = no_low or number > low or (number == low and opening == "[")
        return above and (no_high or number < high or (number == high and closing == "]"))

    return f"{opening}{texts[0]},{gap}{texts[1]}{closing}", inside


NUMBER_TEXTS = (
    st.integers(-25, 25).map(str)
    | QUARTERS.map(lambda number: repr(float(number)))
    | st.sampled_from(["1e1", "-1E-1", "0x10", "0o17", "+3", ".5", "5.", "1e400", "-1e400", ".inf", "-.inf", ".nan", "inf", "nan"])
    | st.floats().map(repr)
    | st.text("0123456789.e+-xo_ ", max_size=6)
)  # fmt: skip


@given(st.sampled_from(["int", "float"]), ranges(), NUMBER_TEXTS)
@settings(max_examples=200, deadline=None)
def test_whatever_number_is_accepted_is_finite_in_range_and_reads_back(
    kind: str, made: tuple[str, Any], text: str
) -> None:
    range_text, inside = made
    found = parameter(kind, range=range_text)
    try:
        value = read_text(found, text)
    except BadValue as error:
        assert error.what and range_text in error.expected
        return
    assert type(value) is {"int": int, "float": float}[kind]
    assert math.isfinite(value) and inside(Fraction(value))
    assert read_text(found, as_set(found, value)) == value
    assert read_text(found, written(value)) == value


@given(ranges(), st.integers(-21, 21) | QUARTERS)
@settings(max_examples=150, deadline=None)
def test_every_number_of_the_range_is_taken_and_no_other(made: tuple[str, Any], number: Any) -> None:
    range_text, inside = made
    kind = "int" if isinstance(number, int) else "float"
    text = str(number) if isinstance(number, int) else repr(float(number))
    try:
        taken = read_text(parameter(kind, range=range_text), text) == number
    except BadValue as error:
        taken = False
        assert error.what == f"`{text}` is out of range"
    assert taken == inside(Fraction(number))


@pytest.mark.parametrize(
    ("text", "taken", "refused"),
    [("[0, 18446744073709551615]", "18446744073709551615", "18446744073709551616"),
     ("(9007199254740992, inf)", "9007199254740993", "9007199254740992"),
     ("[1, inf)", "1" + "0" * 399, "0"), ("(0, 1]", "1", "0"), ("[1, 1]", "1", "2"), ("(-inf, -1)", "-2", "-1")],
)  # fmt: skip
def test_bounds_are_exact(text: str, taken: str, refused: str) -> None:
    assert read_text(parameter("int", range=text), taken) == int(taken)
    assert refusal(parameter("int", range=text), refused) == (
        f"`{refused}` is out of range",
        f"a whole number in {text}",
    )


@pytest.mark.parametrize("text", ["(1, 1)", "[1, 1)", "(1, 1]", "[2, 1]", "(0, nan)", "[nan, 1]"])
def test_an_interval_without_a_number(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        interval(text)
    assert str(caught.value) == f"{text} holds no number"


@pytest.mark.parametrize(
    "text", ["", "1, 2", "[1; 2]", "[1, 2", "[1]", "[a, 2]", "[1, 2, 3]", "[1, 2] ", "x[1, 2]", "[, 2]"]
)
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        interval(text)
    assert str(caught.value) == f"{text} is not an interval such as `[0, 1)`"


# --- lists and texts ---

UNICODE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
TRICKY = st.text(" ,[]'\"#:-{}&*!|>%@`\n\\~ab", max_size=6)


@given(st.lists(UNICODE | TRICKY, max_size=4))
@settings(max_examples=250, deadline=None)
@example([""])
@example(["[a]"])
@example(["a,b", " c"])
@example(["", ""])
@example(["null"])
@example(["\u2028\x85"])
def test_a_list_of_texts_reads_back(value: list[str]) -> None:
    found = parameter("list", items="str")
    assert read_text(found, as_set(found, value)) == value


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    st.lists(st.integers(), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_lists_of_numbers_read_back(floats: list[float], ints: list[int]) -> None:
    for found, value in ((parameter("list", items="float"), floats), (parameter("list", items="int"), ints)):
        assert read_text(found, as_set(found, value)) == value


@given(UNICODE | TRICKY)
@settings(max_examples=100, deadline=None)
def test_a_text_is_taken_as_it_is(text: str) -> None:
    assert read_text(parameter("str"), text) == text == as_set(parameter("str"), text)


@given(st.integers(1, 366 * 86400))
def test_a_duration_reads_back(seconds: int) -> None:
    found = parameter("duration")
    assert read_text(found, as_set(found, seconds)) == seconds
    assert written(seconds) == str(seconds)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a,b", ["a", "b"]), ("a, b", ["a", "b"]), ("", []), ("[]", []), ("[a, 'b, c']", ["a", "b, c"]), ("a", ["a"]),
     ("[a]  # note", ["a"]), ("010,1e3", ["010", "1e3"]), ("[010, 1.10, true]", ["010", "1.10", "true"])],
)  # fmt: skip
def test_lists_on_the_command_line(text: str, value: list[str]) -> None:
    assert read_text(parameter("list", items="str"), text) == value


@pytest.mark.parametrize("text", ["[a", "[a]\nw: 1", "[a] b", "[a: b", "[a]: 1", "[*x]"])
def test_what_begins_as_a_list_and_is_none(text: str) -> None:
    what, expected = refusal(parameter("list", items="str"), text)
    assert what.endswith("is not a list") and expected == "a list, each item text"


# --- every type's refusals ---


@pytest.mark.parametrize(
    ("fields", "text", "what", "expected"),
    [({"type": "int"}, "1.0", "`1.0` is not a whole number", "a whole number"),
     ({"type": "int"}, "1e3", "`1e3` is not a whole number", "a whole number"),
     ({"type": "int"}, "", "`\"\"` is not a whole number", "a whole number"),
     ({"type": "int"}, "1_000", "`1_000` is not a whole number", "a whole number"),
     ({"type": "int"}, " 1", "` 1` is not a whole number", "a whole number"),
     ({"type": "int"}, "1\n", "`1\\n` is not a whole number", "a whole number"),
     ({"type": "int"}, "٣", "`٣` is not a whole number", "a whole number"),
     ({"type": "int", "unit": "steps", "range": "[1, inf)"}, "0", "`0` is out of range", "a whole number in [1, inf), in steps"),
     ({"type": "float"}, "nan", "`nan` is not a finite number", "a finite number"),
     ({"type": "float"}, ".inf", "`.inf` is not a finite number", "a finite number"),
     ({"type": "float"}, "1e999", "`1e999` is not a finite number", "a finite number"),
     ({"type": "float"}, "1,5", "`1,5` is not a finite number", "a finite number"),
     ({"type": "float"}, "0x10", "`0x10` is not a finite number", "a finite number"),
     ({"type": "bool"}, "yes", "`yes` is neither true nor false", "`true` or `false`"),
     ({"type": "bool"}, "1", "`1` is neither true nor false", "`true` or `false`"),
     ({"type": "bool"}, "tRue", "`tRue` is neither true nor false", "`true` or `false`"),
     ({"type": "enum", "choices": ["adamw", "sgd"]}, "adam", "`adam` is not a choice, did you mean `adamw`?", "one of `adamw`, `sgd`"),
     ({"type": "enum", "choices": ["adamw", "sgd"]}, "zzz", "`zzz` is not a choice", "one of `adamw`, `sgd`"),
     ({"type": "enum", "choices": ["adamw", "sgd"]}, "SGD ", "`SGD ` is not a choice", "one of `adamw`, `sgd`"),
     ({"type": "duration"}, "90", "90 could be 90 minutes (as Slurm reads it) or 90 seconds", FORMS),
     ({"type": "path"}, "", "the path is empty", "a path"),
     ({"type": "str"}, "a\0b", "`a\\x00b` holds a NUL character", "text"),
     ({"type": "list", "items": "int", "range": "[0, 9]"}, "1,10", "`10` is out of range", "a whole number in [0, 9]"),
     ({"type": "list", "items": "enum", "choices": ["x", "y"]}, "x,z", "`z` is not a choice", "one of `x`, `y`"),
     ({"type": "list", "items": "int"}, "1,,2", "`\"\"` is not a whole number", "a whole number")],
)  # fmt: skip
def test_refusals(fields: dict[str, Any], text: str, what: str, expected: str) -> None:
    assert refusal(parameter(**fields), text) == (what, expected)


@pytest.mark.parametrize("digits", [401, 5000])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_numbers_of_any_length_are_refused_without_a_crash(kind: str, digits: int) -> None:
    what, _ = refusal(parameter(kind), "9" * digits)
    assert len(what) < 130


@pytest.mark.parametrize(
    ("fields", "text"),
    [({"type": "list", "items": "float", "unit": "K"}, "a list, each item a finite number, in K"), ({"type": "path"}, "a path"),
     ({"type": "list", "items": "enum", "choices": ["x"]}, "a list, each item one of `x`")],
)  # fmt: skip
def test_expectation(fields: dict[str, Any], text: str) -> None:
    assert expectation(parameter(**fields)) == text


# --- in a document ---


@pytest.mark.parametrize(
    ("fields", "source", "value"),
    [({"type": "float"}, "1e-6", 1e-6), ({"type": "int"}, "010", 10), ({"type": "int"}, "0o17", 15), ({"type": "int"}, "'3'", 3),
     ({"type": "str"}, "1.10", "1.10"), ({"type": "str"}, "yes", "yes"), ({"type": "str"}, "'~'", "~"), ({"type": "str"}, "''", ""),
     ({"type": "bool"}, "TRUE", True), ({"type": "duration"}, "1:30:00", 5400), ({"type": "path"}, "0.10/x", "0.10/x"),
     ({"type": "enum", "choices": ["1.10"]}, "1.10", "1.10"), ({"type": "list", "items": "int"}, "[1, 0x2]", [1, 2]),
     ({"type": "list", "items": "str"}, "[1.10, on]", ["1.10", "on"]), ({"type": "list", "items": "int"}, "1,2", [1, 2]),
     ({"type": "list", "items": "int"}, "[]", [])],
)  # fmt: skip
def test_the_declared_type_decides_how_a_text_is_read(
    fields: dict[str, Any], source: str, value: Any
) -> None:
    read = read_node(parameter(**fields), parse(f"k: {source}", "f").entries["k"])
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "source", "what"),
    [("int", "", "the value is empty"), ("str", "~", "the value is empty"), ("int", "[1]", "a list is no int value"),
     ("str", "{a: 1}", "a mapping is no str value"), ("list", "{a: 1}", "a mapping is no list value"),
     ("list", "[[a]]", "a member of the list is no plain value"), ("list", "[a, ~]", "a member of the list is no plain value"),
     ("list", "", "the value is empty")],
)  # fmt: skip
def test_values_of_another_form(kind: str, source: str, what: str) -> None:
    found = parameter(kind, **({"items": "str"} if kind == "list" else {}))
    with pytest.raises(BadValue) as caught:
        read_node(found, parse(f"k: {source}", "f").entries["k"])
    assert caught.value.what == what


@pytest.mark.parametrize(
    ("kind", "items", "source", "value"),
    [("float", "", "1e-3", 1e-3), ("float", "", "1", 1.0), ("int", "", "0x10", 16), ("bool", "", "False", False), ("str", "", "'1.10'", "1.10"),
     ("duration", "", "90m", 5400), ("list", "int", "[1, 0o2]", [1, 2]), ("list", "str", "a,b", ["a", "b"]), ("list", "float", "[]", []),
     ("int", "", "~", None), ("path", "", "a/b", "a/b")],
)  # fmt: skip
def test_a_default_is_what_the_same_text_gives(kind: str, items: str, source: str, value: Any) -> None:
    tree = parse(f"default: {source}", "f")
    node = find(tree, ("default",))
    raw = [item.value for item in node.items] if hasattr(node, "items") else node.value  # type: ignore[union-attr]
    found = default_value(parameter(kind, items=items, default=raw))
    assert (found, type(found)) == (value, type(value))
    if value is not None:
        assert found == read_node(parameter(kind, items=items), node)  # type: ignore[arg-type]
