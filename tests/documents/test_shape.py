"""Documents checked against dataclasses: what is refused, in which words, and what comes out."""

from __future__ import annotations

import json
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

import pytest
from builders import problems_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.source import Layer, gather
from tuneplane.documents import shape
from tuneplane.documents.shape import checked, construct, document
from tuneplane.documents.tree import plain
from tuneplane.documents.yaml import load, parse
from tuneplane.errors import InputError, Problem
from tuneplane.resources import bundled
from tuneplane.sites.model import Site


@document
class Part:
    name: str
    size: int = 1
    ratio: float = 1.0
    flag: bool = False

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("13 parts are too many")


@document
class Whole:
    part: Part
    parts: list[Part] = field(default_factory=list)
    named: dict[str, Part] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    spare: Part | None = None
    ratio: float | None = None
    either: str | list[str] | dict[str, Part] = ""
    two: str | list[Part] = ""
    kind: Literal["a", "b"] = "a"
    free: Any = None


FAULTS = [
    ("part: {name: x}\nparst: []\n", "unknown key `parst`", "f:2 parst", "`part`?"),
    ("part: {name: x}\nqq: 1\n", "unknown key `qq`", "f:2 qq", "one of either, free, kind, named, part, parts, ratio, spare, two, words"),
    ("kind: a\n", "the key `part` is missing", "f:1 part", ""),
    ("part: {size: 2}\n", "the key `name` is missing", "f:1 part.name", ""),
    ("part:\n  name: x\nparts:\n  - name: y\n  - nmae: z\n    name: z\n", "unknown key `nmae`", "f:5 parts.1.nmae", "`name`?"),
    ("part: {name: x}\nnamed:\n  Big:\n    name: x\n    siez: 3\n", "unknown key `siez`", "f:5 named.Big.siez", "`size`?"),
    ("part: {name: x}\nspare:\n  size: 1\n  name: x\n  flagg: true\n", "unknown key `flagg`", "f:5 spare.flagg", "`flag`?"),
    ("part:\n  name: 1.10\n", "`1.10` is not text", "f:2 part.name", "text"),
    ("part:\n  name: yes\nwords:\n  NCCL_X: 0x10\n", "`0x10` is not text", "f:4 words.NCCL_X", "text"),
    ("part: {name: x}\nwords:\n  str: 1\n", "`1` is not text", "f:3 words.str", "text"),
    ("part: {name: x}\nwords:\n  a[0]: [1]\n", "a list does not fit", "f:3 words.a[0]", "input should be a valid string"),
    ("part:\n  name:\n", "an empty value does not fit", "f:2 part.name", "input should be a valid string"),
    ("part: {name: x, size: 1.5}\n", "`1.5` does not fit", "f:1 part.size", None),
    ("part: {name: x, size: '1'}\n", "`1` does not fit", "f:1 part.size", "input should be a valid integer"),
    ("part: {name: x, size: true}\n", "`true` does not fit", "f:1 part.size", "input should be a valid integer"),
    ("part: {name: x, ratio: '1'}\n", "`1` does not fit", "f:1 part.ratio", "input should be a valid number"),
    ("part: {name: x, flag: yes}\n", "`yes` does not fit", "f:1 part.flag", "input should be a valid boolean"),
    ("part: {name: x, flag: 1}\n", "`1` does not fit", "f:1 part.flag", "input should be a valid boolean"),
    ("part: {name: x}\nkind: c\n", "`c` does not fit", "f:2 kind", "input should be 'a' or 'b'"),
    ("part: {name: x}\nparts: {name: x}\n", "a mapping does not fit", "f:2 parts", None),
    ("part: {name: x}\nnamed: [1]\n", "a list does not fit", "f:2 named", None),
    ("part: x\n", "`x` does not fit", "f:1 part", None),
    ("part: {name: x}\nspare:\n  name: x\n  size: 13\n", "13 parts are too many", "f:2 spare", ""),
    ("part: {name: x}\neither:\n  a: {nam: x, name: x}\n", "unknown key `nam`", "f:3 either.a.nam", "`name`?"),
    ("part: {name: x}\ntwo:\n  - {nam: x, name: x}\n", "unknown key `nam`", "f:3 two.0.nam", "`name`?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "where", "expected"), FAULTS)
def test_a_fault_has_its_place(text: str, what: str, where: str, expected: str | None) -> None:
    with pytest.raises(InputError) as caught:
        checked(Whole, parse(text, "f"))
    found = [p for p in problems_of(caught) if p.what == what]
    assert [p.where for p in found] == [where], problems_of(caught)
    if expected is not None:
        assert found[0].expected == expected


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        checked(Whole, parse("part: {nam: x}\nkind: z\nparts:\n  - 3\n", "f"))
    assert {(p.what, p.where) for p in problems_of(caught)} == {
        ("the key `name` is missing", "f:1 part.name"),
        ("unknown key `nam`", "f:1 part.nam"),
        ("`z` does not fit", "f:2 kind"),
        ("`3` does not fit", "f:4 parts.0"),
    }


def test_a_number_that_is_no_text_says_how_to_make_it_one() -> None:
    with pytest.raises(InputError) as caught:
        checked(Whole, parse("part: {name: 2.10}", "f"))
    assert problems_of(caught) == [Problem("`2.10` is not text", "f:1 part.name", "text", "put it in quotes")]


# --- what comes out is what pydantic would have made ---

NAMES = st.text("ab", min_size=1, max_size=2)
PARTS = st.fixed_dictionaries(
    {"name": st.text(max_size=3)},
    optional={"size": st.integers(-5, 5), "ratio": st.floats(allow_nan=False) | st.integers(-9, 9), "flag": st.booleans()},
)  # fmt: skip
WHOLES = st.fixed_dictionaries(
    {"part": PARTS},
    optional={
        "parts": st.lists(PARTS, max_size=2),
        "named": st.dictionaries(NAMES, PARTS, max_size=2),
        "words": st.dictionaries(NAMES, st.text(max_size=2), max_size=2),
        "spare": st.none() | PARTS,
        "ratio": st.none() | st.integers(-3, 3) | st.floats(-2, 2),
        "either": st.text(max_size=2) | st.lists(st.text(max_size=2), max_size=2) | st.dictionaries(NAMES, PARTS, min_size=1, max_size=2),
        "two": st.text(max_size=2) | st.lists(PARTS, max_size=2), "kind": st.sampled_from("ab"),
        "free": st.none() | st.integers() | st.lists(st.integers(), max_size=2) | st.dictionaries(NAMES, st.integers(), max_size=2),
    },
)  # fmt: skip


def kinds(value: Any) -> Any:
    """The value's types all the way down: 1 and 1.0 are equal and not the same."""
    if isinstance(value, (Part, Whole)):
        return {name: kinds(item) for name, item in vars(value).items()}
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    return [kinds(item) for item in value] if isinstance(value, list) else type(value)


@given(WHOLES)
@settings(max_examples=120, deadline=None)
def test_construct_makes_what_pydantic_makes(data: dict[str, Any]) -> None:
    theirs = TypeAdapter(Whole).validate_json(json.dumps(data))
    ours = construct(Whole, data)
    assert ours == theirs
    assert kinds(ours) == kinds(theirs)


def test_construct_makes_what_pydantic_makes_of_all_that_ships() -> None:
    documents: list[tuple[Any, Any]] = [(Site, load(file)) for file in bundled("site-configs").glob("*.yaml")]
    documents += [(Manifest, source.tree) for source in gather([Layer.read(bundled("recipes"))]).values()]
    assert len(documents) >= 5
    for cls, tree in documents:
        data = plain(tree)
        assert construct(cls, data) == TypeAdapter(cls).validate_json(json.dumps(data))


# --- the memory of what passed ---


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, cold_cache: Path) -> list[Any]:
    """What was really checked, in order, with a cache that begins empty."""
    seen: list[Any] = []
    real = shape._faults

    def noting(cls: Any, tree: Any, data: Any) -> list[Problem]:
        seen.append(data)
        return real(cls, tree, data)

    monkeypatch.setattr(shape, "_faults", noting)
    return seen


def test_what_passed_is_not_checked_again(looks: list[Any]) -> None:
    tree = parse("part: {name: x, ratio: 2}\nspare: {name: y}\n", "f")
    first = checked(Whole, tree)
    assert checked(Whole, tree) == first == Whole(part=Part(name="x", ratio=2.0), spare=Part(name="y"))
    assert kinds(checked(Whole, tree)) == kinds(first)
    assert len(looks) == 1


def test_what_failed_fails_again(looks: list[Any]) -> None:
    for _ in range(2):
        with pytest.raises(InputError):
            checked(Whole, parse("part: {nam: x}", "f"))
    assert len(looks) == 2


@pytest.mark.parametrize(
    "other", ["part: {name: x, flag: false}", "part: {name: x, size: 2}", "part: {name: X}"]
)
def test_another_document_is_checked_itself(looks: list[Any], other: str) -> None:
    checked(Whole, parse("part: {name: x, size: 1}", "f"))
    checked(Whole, parse(other, "f"))
    assert len(looks) == 2


def test_values_that_python_takes_for_equal_are_told_apart(looks: list[Any]) -> None:
    checked(Whole, parse("part: {name: x, size: 1}", "f"))
    with pytest.raises(InputError, match="`true` does not fit"):
        checked(Whole, parse("part: {name: x, size: true}", "f"))


def test_another_shape_of_the_class_is_checked_itself(looks: list[Any]) -> None:
    def shaped(kind: Any) -> Any:
        return document(type("Grown", (), {"__annotations__": {"size": kind}, "__module__": __name__}))

    assert checked(shaped(int), parse("size: 1", "f")).size == 1
    with pytest.raises(InputError, match="is not text"):
        checked(shaped(str), parse("size: 1", "f"))


def test_without_a_cache_the_same_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    tree = parse("part: {name: x}\nkind: b\n", "f")
    assert checked(Whole, tree) == checked(Whole, tree) == Whole(part=Part(name="x"), kind="b")


def test_documents_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Part(name="x").name = "y"  # type: ignore[misc]
