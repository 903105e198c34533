"""YAML read with the meaning of the 1.2 core schema, every value with its place."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import problems_of, whats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuneplane.documents.text import MAX_BYTES, flow, read_text
from tuneplane.documents.tree import Mapping, Node, Scalar, Sequence, plain
from tuneplane.documents.yaml import MAX_DEPTH, load, parse
from tuneplane.errors import InputError

NAN = math.nan
MEANINGS: list[tuple[str, Any]] = [
    *[("1e-6", 1e-6), ("1E-5", 1e-5), ("5e5", 5e5), ("1e6", 1e6), ("1e+6", 1e6), ("-1e-6", -1e-6)],
    *[
        ("1.0e-6", 1e-6),
        ("1.e-6", 1e-6),
        ("0.10", 0.1),
        ("1.10", 1.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.5", -0.5),
    ],
    *[
        ("1e999", math.inf),
        ("+.5", 0.5),
        ("1e", "1e"),
        ("e5", "e5"),
        (".", "."),
        ("+", "+"),
        ("1.2.3", "1.2.3"),
    ],
    *[("0", 0), ("-0", 0), ("+12", 12), ("010", 10), ("08", 8), ("0o17", 15), ("0x1F", 31), ("0o8", "0o8")],
    *[("0X1F", "0X1F"), ("0O17", "0O17"), ("0b101", "0b101"), ("-0x1", "-0x1"), ("1_000", "1_000")],
    *[
        ("12:30", "12:30"),
        ("1:30:00", "1:30:00"),
        ("190:20:30.15", "190:20:30.15"),
        ("1-00:00:00", "1-00:00:00"),
    ],
    *[("2024-01-01", "2024-01-01"), ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), ("8G", "8G")],
    *[(word, True) for word in ("true", "True", "TRUE")],
    *[(word, False) for word in ("false", "False", "FALSE")],
    *[(word, word) for word in "yes Yes YES no NO on On ON off OFF y n Y N tRUE fALSE".split()],
    *[(word, None) for word in ("~", "null", "Null", "NULL", "")],
    *[(word, word) for word in ("none", "None", "nULL", "nil")],
    *[(word, NAN) for word in (".nan", ".NaN", ".NAN")],
    *[(word, word) for word in ("nan", ".Nan", "-.nan", "inf", "-inf", ".iNF", "infinity")],
    *[(".inf", math.inf), ("+.INF", math.inf), ("-.Inf", -math.inf)],
    *[("h200:8", "h200:8"), ("=", "="), ("<<", "<<"), ("a b", "a b"), ("١", "١")],
]


def same(found: Any, expected: Any) -> bool:
    """Equal and of the same type, NaN equal to itself, down to the leaves."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected or (found != found and expected != expected)


@pytest.mark.parametrize(("source", "value"), MEANINGS)
def test_what_plain_text_means(source: str, value: Any) -> None:
    tree = parse(f"k: {source}\n'x': ['', {source or '~'}, '{source}']\n", "f")
    assert same(plain(tree), {"k": value, "x": ["", value, source]})
    node = tree.entries["k"]
    assert isinstance(node, Scalar) and node.text == source and not node.quoted
    assert [item.quoted for item in tree.entries["x"].items] == [True, False, True]  # type: ignore[union-attr]


@pytest.mark.parametrize("key", ["0.10", "010", "yes", "1e3", "12:30", "null", "true", "2.14.0"])
def test_keys_keep_their_text(key: str) -> None:
    assert plain(parse(f"{key}: 1\n? {key}x\n: 2", "f")) == {key: 1, f"{key}x": 2}


def test_block_texts_are_text() -> None:
    tree = parse("a: |\n  1\nb: >-\n  true\n  false\nc: !!str 1\nd: ! 1\n", "f")
    assert plain(tree) == {"a": "1\n", "b": "true false", "c": "1", "d": 1}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n...\n", "---\n# x", "\ufeff"])
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    assert parse(text, "f").entries == {}


def test_crlf_and_lone_cr_end_lines() -> None:
    tree = parse("a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 3\rd: 4", "f")
    assert plain(tree) == {"a": 1, "b": "x\ny\n", "c": 3, "d": 4}
    assert [tree.mark_of(key).line for key in "abcd"] == [1, 2, 5, 6]


def test_aliases_are_values_again() -> None:
    tree = parse("a: &x {p: 1}\nb: [*x, *x]\n", "f")
    assert plain(tree) == {"a": {"p": 1}, "b": [{"p": 1}, {"p": 1}]}


REFUSED = [
    ("a: 1\nb: 2\na: 3\n", "the key `a` stands twice", "f:3 and line 1"),
    ("a:\n  b: 1\n  'b': 2\n", "the key `b` stands twice", "f:3 and line 2"),
    ("x: &x {p: 1}\ny:\n  <<: *x\n", "merge keys are not supported", "f:3 y.<<"),
    ("a: &x [1, *x]\n", "an alias contains itself", "f:1 a.1"),
    ("a: &x\n  b: *x\n", "an alias contains itself", "f:1 a.b"),
    ("a: 1\nb: !!timestamp 2024-01-01\n", "the tag `tag:yaml.org,2002:timestamp` is not supported", "f:2 b"),
    ("a: !!python/object/apply:os.system [ls]\n",
     "the tag `tag:yaml.org,2002:python/object/apply:os.system` is not supported", "f:1 a"),
    ("a: !!binary aGk=\n", "the tag `tag:yaml.org,2002:binary` is not supported", "f:1 a"),
    ("a: !x\n  b: 1\n", "the tag `!x` is not supported", "f:1 a"),
    ("a:\n  - !!int x\n", "`x` is not what its tag says", "f:2 a.0"),
    ("a: !!bool yes\n", "`yes` is not what its tag says", "f:1 a"),
    ("a: !!null 0\n", "`0` is not what its tag says", "f:1 a"),
    ("- a\n", "the document is not a mapping", "f:1"),
    ("\n\njust text\n", "the document is not a mapping", "f:3"),
    ("? [a]\n: 1\n", "a key must be a plain word", "f:1"),
    ("a: 1\n---\nb: 2\n", "not valid YAML: but found another document", "f:2"),
    ("a: 1\n\tb: 2\n", "a tab cannot indent or start a value in YAML", "f:2"),
    ("a:\n  b: 1\n\tc: 2\n", "a tab cannot indent or start a value in YAML", "f:3"),
    ("a: 'x\n", "not valid YAML: found unexpected end of stream", "f:2"),
    ("a: b: c\n", "not valid YAML: mapping values are not allowed in this context", "f:1"),
    ("a: *nobody\n", "not valid YAML: found undefined alias", "f:1"),
    ("a: 1\nb: x\0y\n", "the file holds the control character `\\x00`", "f:2"),
    ("a: \x1b[31m\n", "the file holds the control character `\\x1b`", "f:1"),
    ("a: \ud800\n", "the text is not Unicode", "f"),
    ("a: '\ud800'\n", "the text is not Unicode", "f"),
    ("%YAML 3.0\n---\na: 1\n", "not valid YAML: found incompatible YAML document", "f:1"),
    ("a: " + "9" * 401, "a number has 401 characters, more than 400", "f:1 a"),
    ("a: 0x" + "f" * 5000, "a number has 5002 characters, more than 400", "f:1 a"),
    ("a: " + "[" * 5000, "not valid YAML: exceeded maximum nesting depth", "f:1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "where"), REFUSED)
def test_refused(text: str, what: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "f")
    (problem,) = problems_of(caught)
    assert (problem.what, problem.where) == (what, where)


@pytest.mark.parametrize("text", ["a: " + "[" * 101 + "]" * 101, "a: " + "{a: " * 100 + "1" + "}" * 101,
                                  "".join(" " * i + "a:\n" for i in range(990)), "a: " + "[" * 900 + "]" * 900])  # fmt: skip
def test_deep_nesting_is_refused_and_never_overflows(text: str) -> None:
    with pytest.raises(InputError, match=r"nested too deeply|not valid YAML"):
        parse(text, "f")


def test_nesting_up_to_the_limit_is_read() -> None:
    value = plain(parse("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, "f"))["a"]
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == MAX_DEPTH - 1


def test_what_aliases_expand_to_is_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(InputError) as caught:
        parse("\n".join(lines), "f")
    assert whats(caught) == ["the document expands to too many values"]


def test_the_bound_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.documents.yaml.MAX_NODES", 5)
    assert plain(parse("a: &x [1, 2]\nb: 3", "f")) == {"a": [1, 2], "b": 3}
    with pytest.raises(InputError, match="expands to too many values"):
        parse("a: [1, 2]\nb: 3\nc: 4", "f")


# --- places ---


def emitted(value: Any, indent: int, lines: list[str], path: tuple[Any, ...], places: dict[Any, int]) -> None:
    """Append `value` in block style to `lines` and note on which line each key and item stands."""
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    for step, item in pairs:
        head = " " * indent + ("-" if isinstance(value, list) else f"{step}:")
        lines += ["", "# between"] * (len(lines) % 3 == 2)
        lines.append(
            head if isinstance(item, (dict, list)) and item else f"{head} {item if item != {} else '{}'}"
        )
        places[(*path, step)] = len(lines)
        if isinstance(item, (dict, list)) and item:
            emitted(item, indent + 2, lines, (*path, step), places)


LEAVES = st.integers(0, 99)
KEYS = st.text("abcde", min_size=1, max_size=3)
TREES = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8),
    min_size=1, max_size=4,
)  # fmt: skip


@given(TREES)
@settings(max_examples=60, deadline=None)
def test_every_value_keeps_its_line(value: dict[str, Any]) -> None:
    lines: list[str] = []
    places: dict[Any, int] = {}
    emitted(value, 0, lines, (), places)
    tree = parse("\n".join(lines) + "\n", "dir/f.yaml")
    assert plain(tree) == value

    def check(node: Node, path: tuple[Any, ...]) -> None:
        if isinstance(node, Mapping):
            for key, inner in node.entries.items():
                assert (node.mark_of(key).file, node.mark_of(key).line) == (
                    "dir/f.yaml",
                    places[(*path, key)],
                )
                if isinstance(inner, Scalar):
                    assert inner.mark.line == places[(*path, key)]
                check(inner, (*path, key))
        elif isinstance(node, Sequence):
            for i, inner in enumerate(node.items):
                if isinstance(inner, Scalar):
                    assert inner.mark.line == places[(*path, i)]
                check(inner, (*path, i))

    check(tree, ())


# --- properties ---


class Quoting(yaml.SafeDumper):
    """PyYAML's own writer, with text always in double quotes."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | UNICODE


@given(st.dictionaries(UNICODE, st.recursive(VALUES, lambda v: st.lists(v, max_size=3) | st.dictionaries(UNICODE, v, max_size=3), max_leaves=10), max_size=4),
       st.booleans())  # fmt: skip
@settings(max_examples=120, deadline=None)
@example({"<<": {"a": 1}, "": "", "a\u2028b\x85": "\ufeff\x00"}, True)
def test_whatever_pyyaml_writes_reads_back(value: dict[str, Any], flow_style: bool) -> None:
    text = yaml.dump(value, Dumper=Quoting, default_flow_style=flow_style, sort_keys=False)
    assert same(plain(parse(text, "f")), value)


WORDS = "a b 1 1e5 : - ? , [ ] { } & * ! !!int !!map | > ' \" % @ ` # ~ << --- ... \t \n \r \0 \x85 \ufeff \ud800 😀 é &a *a"
PIECES = [" ", "  ", "\n  ", "\n- ", ": ", "\n%YAML 1.2\n---\n", "\\", '"\\x', '"\\ud800"', "\n\t"]
FRAGMENTS = st.sampled_from([*WORDS.split(" "), *PIECES])


@given(st.lists(FRAGMENTS, max_size=14).map("".join) | st.text(max_size=20))
@settings(max_examples=400, deadline=None)
def test_no_text_raises_anything_but_an_input_error(text: str) -> None:
    try:
        tree = parse(text, "f")
    except InputError as error:
        assert all(p.what and p.where.startswith("f") for p in error.problems)
        assert all(line.isprintable() for p in error.problems for line in p.lines())
    else:
        assert isinstance(plain(tree), dict)


@given(UNICODE)
@settings(max_examples=150, deadline=None)
@example("null")
@example("- a: b #")
@example("\u2028")
def test_flow_writes_any_text_as_one_value(text: str) -> None:
    tree = parse(f"k: {flow(text)}    # a comment\nl: [{flow(text)}, {flow(text)}]\n", "f")
    nodes = [tree.entries["k"], *tree.entries["l"].items]  # type: ignore[union-attr]
    assert [(node.text, node.value is None) for node in nodes] == [(text, False)] * 3  # type: ignore[union-attr]


# --- files ---


def test_a_file_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes("\ufeffa: é世\r\n".encode())
    assert plain(load(file, "shown/f.yaml")) == {"a": "é世"}
    assert load(file).entries["a"].mark.file == str(file)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert plain(load(link)) == {"a": "é世"}


def refusal(path: Path, limit: int = MAX_BYTES) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_text(path, "f", limit)
    (problem,) = problems_of(caught)
    return problem.lines()


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "missing") == ["cannot read `f`: No such file or directory"]
    assert refusal(tmp_path) == ["cannot read `f`: Is a directory"]
    assert refusal(tmp_path / "fifo") == ["`f` is not a regular file", "  at       f"]
    assert refusal(Path("/dev/zero")) == ["`f` is not a regular file", "  at       f"]


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(100 << 20)
    assert refusal(tmp_path / "big") == [
        "`f` has 104857600 bytes",
        "  at       f",
        "  expected at most 1048576 bytes",
    ]
    assert refusal(Path("/proc/self/status"), 10)[0] == "`f` grew while it was read"
    (tmp_path / "fits").write_bytes(b"x" * 100)
    assert read_text(tmp_path / "fits", "f", 100) == "x" * 100


@pytest.mark.parametrize(
    ("data", "line"), [("a: 1\n".encode("utf-16"), 1), ("a: 1\nb: é\n".encode("latin-1"), 2)]
)
def test_files_that_are_not_utf_8(tmp_path: Path, data: bytes, line: int) -> None:
    (tmp_path / "f").write_bytes(data)
    assert refusal(tmp_path / "f") == ["the file is not UTF-8 text", f"  at       f:{line}"]
