"""Keys put in the place of others: every byte outside them stays, whatever the document looks like."""

from __future__ import annotations

import re
import string

import pytest
from builders import problems_of, whats
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.documents.edits import Put, rewritten
from tuneplane.documents.keys import keys_of
from tuneplane.documents.tree import plain
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError

WORDS = {"rate": "learning_rate", "steps": "max_steps", "a": "b", "b": "a", "kl": "x" * 60}


def moved(text: str) -> str:
    return rewritten(text, "c.yaml", "params", {key: [Put(word)] for key, word in WORDS.items()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params: {rate: 1}", "params: {learning_rate: 1}"),
        ("params: {a: 1, b: 2}\n", "params: {b: 1, a: 2}\n"),
        ("{params: {rate: 1}}", "{params: {learning_rate: 1}}"),
        ("params:\r\n  rate : 1 # rate: 2\r\n\r\n  'steps':\r\n    - a\r\n", "params:\r\n  learning_rate : 1 # rate: 2\r\n\r\n  'max_steps':\r\n    - a\r\n"),
        ('params: {"rate":1,"st\\x65ps": 2}', 'params: {"learning_rate":1,"max_steps": 2}'),
        ("params:\n  ? rate\n  : 1\n  ? 'a' # x\n  : 2\n", "params:\n  ? learning_rate\n  : 1\n  ? 'b' # x\n  : 2\n"),
        ("params: {&x rate: 1, !!str a : 2}", "params: {&x learning_rate: 1, !!str b : 2}"),
        ("env: {K: &k rate}\nparams: {*k : 1}\n", "env: {K: &k rate}\nparams: {learning_rate : 1}\n"),
        ("env: {A: &v rate}\nparams: {rate: *v}\n", "env: {A: &v rate}\nparams: {learning_rate: *v}\n"),
        ("env: {rate: x}\nparams: {a: rate, label: {rate: 1}}\n", "env: {rate: x}\nparams: {b: rate, label: {rate: 1}}\n"),
        ("'params': {rate: .nan}", "'params': {learning_rate: .nan}"),
        ("%YAML 1.2\n--- # x\nparams: {😀: 1, rate: é}\n...\n", "%YAML 1.2\n--- # x\nparams: {😀: 1, learning_rate: é}\n...\n"),
        ("params: {rate: |\n}", None),
        ("params:\n  rate: |\n    rate: 1\n  steps: >-\n   a\n\n   b\n", "params:\n  learning_rate: |\n    rate: 1\n  max_steps: >-\n   a\n\n   b\n"),
        ("params: {other: 1}", "params: {other: 1}"),
        ("params:\n", "params:\n"),
        ("params: [rate]\n", "params: [rate]\n"),
        ("other: {rate: 1}\n", "other: {rate: 1}\n"),
        ("", ""),
        ("# only a comment", "# only a comment"),
    ],
)  # fmt: skip
def test_renamed(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InputError):
            parse(text, "c.yaml")
    else:
        assert moved(text) == expected


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("\nparams: {&r rate: 1, s: *r}", "its anchor `&r` is used by an alias", 2),
        ("params: &p {rate: 1}\nenv: *p", "`params` is used again by an alias", 1),
        ("x: &p\n  rate: 1\nparams: *p", "`params` is an alias of `&p`", 2),
        ("params:\n  ? |-\n    rate\n  : 1", "it is written as a block", 2),
    ],
)
def test_what_cannot_be_renamed_in_place(text: str, what: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        moved(text)
    (problem,) = problems_of(caught)
    assert problem.what == f"`rate` cannot be renamed in place: {what}"
    assert problem.where == f"c.yaml:{line} params.rate"
    assert problem.expected == "the key `learning_rate`, written out"


def test_a_section_whose_key_is_an_alias() -> None:
    with pytest.raises(InputError) as caught:
        moved("env: {A: &p params}\n*p : {rate: 1}\n")
    assert whats(caught) == ["the keys of `params` cannot be changed in place"]


# --- values, lines that come and lines that go ---

PLACES = {
    "kind": [Put("level", "token"), Put("mode", "mask")],
    "on": [],
    "old": [],
    "rate": [Put("rate", "2.5")],
    "list": [Put("list", "[a, 'b c']")],
    "kl": [Put("kl_coef", '"x: #y"')],
    "steps": [Put("max_steps"), Put("epochs", "3")],
}


def put(text: str) -> str:
    return rewritten(text, "c.yaml", "params", PLACES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params:\n  rate: 1   # why\n", "params:\n  rate: 2.5   # why\n"),
        ("params:\n  rate:\n  list:   # none\n", "params:\n  rate: 2.5\n  list: [a, 'b c']   # none\n"),
        ("params:\n  'kl' : 'old' # x\n", "params:\n  'kl_coef' : \"x: #y\" # x\n"),
        ("params:\n  list: [1, 2] # c\n", "params:\n  list: [a, 'b c'] # c\n"),
        ("params:\n  # a\n  on: true\n  # b\n  kind: x\n", "params:\n  # a\n  # b\n  level: token\n  mode: mask\n"),
        ("params:\n  on: true  # why it is on\n  b: 1\n", "params:\n  # why it is on\n  b: 1\n"),
        ("params:\n  on:\n  old: # was\n  b: 1\n", "params:\n  # was\n  b: 1\n"),
        ("params:\n  on: true\nenv: {A: b}\n", "params:\nenv: {A: b}\n"),
        ("params:\n  b: 1\n  on: true", "params:\n  b: 1\n"),
        ("params:\r\n  b: 1\r\n  kind: x # c", "params:\r\n  b: 1\r\n  level: token # c\r\n  mode: mask"),
        ("params:\r\n  kind: x # c\r\n  b: 1\r\n", "params:\r\n  level: token # c\r\n  mode: mask\r\n  b: 1\r\n"),
        ("params:\n      steps: !!int 3\n      b: 1\n", "params:\n      max_steps: !!int 3\n      epochs: 3\n      b: 1\n"),
        ("env: {A: &v x}\nparams:\n  rate: *v # c\n", "env: {A: &v x}\nparams:\n  rate: 2.5 # c\n"),
        ("params:\n  rate: &v 1\n", "params:\n  rate: 2.5\n"),
        ("params: {on: 1}", "params: {}"),
        ("params: {on: 1, old: 2}", "params: {}"),
        ("params: { on: 1, b: 2 }", "params: { b: 2 }"),
        ("params: {b: 2, on: 1}", "params: {b: 2}"),
        ("params: {b: 2, on: 1, }", "params: {b: 2, }"),
        ("params: {b: , on , old: ,kl}", "params: {b: , kl_coef: \"x: #y\"}"),
        ("params: {kind: x, b: 2}", "params: {level: token, mode: mask, b: 2}"),
        ("params: {kind, b: {on: 1}}", "params: {level: token, mode: mask, b: {on: 1}}"),
        ('params: {"rate":1,"list":[1,[2]]}', 'params: {"rate":2.5,"list":[a, \'b c\']}'),
        (
            "params: {\n  on: 1, # one\n  b: 2 # two\n  , old: 3 # three\n}",
            "params: {\n  # one\n  b: 2 # two\n   # three\n}",
        ),
        ("params:\n  on: true\n", "params:\n"),
    ],
)  # fmt: skip
def test_put(text: str, expected: str) -> None:
    assert put(text) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("params:\n  rate: &v 1\nenv: {A: *v}\n", "`rate` cannot be replaced in place: the anchor `&v` of its value is used by an alias"),
        ("params:\n  list: [&v a]\nenv: {A: *v}\n", "`list` cannot be replaced in place: the anchor `&v` of its value is used by an alias"),
        ("params:\n  list:\n    - 1\n", "`list` cannot be replaced in place: its value spans several lines"),
        ("params: {old: [1,\n  2]}\n", "`old` cannot be taken out in place: its value spans several lines"),
        ("params:\n  rate: |\n    1\n", "`rate` cannot be replaced in place: its value spans several lines"),
        ("params: &p\n  on: true\nenv: *p\n", "`on` cannot be taken out in place: `params` is used again by an alias"),
        ("params:\n  ? on\n  : 1\n", "`on` cannot be taken out in place: something else stands on its line"),
        ("params:\n  ? kind\n  : 1\n", "`kind` cannot be replaced in place: something else stands on its line"),
        ("params:\n  &k kind: 1\n", "`kind` cannot be replaced in place: something else stands on its line"),
        ("params:\n  steps: [1,\n   2]\n", "`steps` cannot be replaced in place: its value spans several lines"),
    ],
)  # fmt: skip
def test_what_cannot_make_way(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        put(text)
    assert whats(caught) == [what]


def test_what_would_take_the_place_is_named() -> None:
    with pytest.raises(InputError) as caught:
        put("params:\n  on: [1,\n   2]\n  kind:\n    - 1\n")
    assert [(problem.where, problem.expected) for problem in problems_of(caught)] == [
        ("c.yaml:2 params.on", "a configuration without it"),
        ("c.yaml:4 params.kind", "`level: token` and `mode: mask` in its place"),
    ]


# --- any document ---

blank = st.text(" \t", max_size=2)
comment = st.text(string.ascii_letters + "é世#:'\"{}[]&*! 😀", max_size=20).map(lambda text: f" # {text}")
end = st.sampled_from(["\n", "\r\n"])
keys = st.lists(st.sampled_from([*WORDS, "other", "😀", "mode"]), unique=True, max_size=6)
values = st.sampled_from(
    ["1", "1e-6", "'rate'", '"a: b"', "rate", "[a, rate, {rate: 1}]", "~", "0x1F", "é世", "{rate: {a: 1}}"]
)
quotes = st.sampled_from(["", "'", '"'])


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A document in pieces, every second of which is a key of `params`; and the keys without their quotes."""
    line = draw(end)
    words = draw(keys)
    pieces, here = [], ""
    for _ in range(draw(st.integers(0, 2))):
        here += draw(comment).lstrip() + line
    here += draw(
        st.sampled_from(["", "env: {rate: a, 'steps' : b}" + line, "a: &x rate" + line, "---" + line])
    )
    flow = draw(st.booleans())
    here += "params:" + (" {" if flow else draw(comment) + line)
    for i, word in enumerate(words):
        quote = draw(quotes)
        if flow:
            here += (
                draw(st.sampled_from([" ", ",".join([""] * 1), line + "  "]))
                if i
                else draw(st.sampled_from(["", " ", line + " "]))
            ) + quote
        else:
            here += (
                "".join(draw(st.lists(st.sampled_from([line, "  # rate: 1" + line]), max_size=2)))
                + "  "
                + quote
            )
        pieces += [here, word]
        here = quote + draw(blank) + ": " + draw(values)
        here += (
            ("," if i < len(words) - 1 else draw(st.sampled_from(["", ","])))
            if flow
            else draw(st.one_of(st.just(""), comment)) + line
        )
    here += ("}" if flow else "") + draw(st.sampled_from(["", line]))
    here += draw(st.sampled_from(["", "# end", "args: [rate]" + line])) if here.endswith(line) else ""
    return [*pieces, here], words


@settings(max_examples=200, deadline=None)
@given(documents())
def test_every_byte_outside_the_keys_stays(made: tuple[list[str], list[str]]) -> None:
    pieces, words = made
    text = "".join(pieces)
    try:
        before = parse(text, "c.yaml")
    except InputError:
        return
    assert [key.word for key in keys_of(text, "params")] == words
    now = "".join(WORDS.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))
    new_words = [WORDS.get(word, word) for word in words]
    if len(set(new_words)) < len(words):
        with pytest.raises(InputError):
            moved(text)
        return
    assert moved(text) == now
    inner, renamed_inner = before.entries.get("params"), parse(now, "c.yaml").entries.get("params")
    if words:
        assert inner is not None and renamed_inner is not None
        assert list(plain(renamed_inner).items()) == [
            (new, plain(inner)[old]) for old, new in zip(words, new_words, strict=True)
        ]


def test_most_documents_of_the_property_are_valid() -> None:
    valid = []

    @settings(max_examples=100, deadline=None, database=None)
    @given(documents())
    def look(made: tuple[list[str], list[str]]) -> None:
        try:
            parse("".join(made[0]), "c.yaml")
            valid.append(True)
        except InputError:
            valid.append(False)

    look()
    assert sum(valid) > len(valid) * 0.7


# --- any document whose keys are replaced, taken out and joined by others ---

marked = st.integers(0, 10**6).map(lambda number: f" # <{number}> 'a': {{}},")
puts = st.sampled_from(["keep", "value", "out", "two"])


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, dict[str, list[Put]]]:
    """A document with comments that can be told apart, and what becomes of its keys."""
    line = draw(end)
    words = draw(st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1, max_size=6))
    places = {}
    text = "params:"
    inline = draw(st.booleans())
    text += (
        " {" + draw(st.sampled_from(["", " ", line + "  "])) if inline else draw(st.just("") | marked) + line
    )
    for i, word in enumerate(words):
        match draw(puts):
            case "value":
                places[word] = [Put(word, draw(values))]
            case "out":
                places[word] = []
            case "two":
                places[word] = [Put(word + "1", draw(values)), Put(word + "2", draw(values))]
        quote = draw(quotes)
        key = f"{quote}{word}{quote}{draw(blank)}: {draw(values | st.just(''))}"
        if inline:
            comma = "" if i == len(words) - 1 and draw(st.booleans()) else ","
            between = draw(st.sampled_from(["", " ", line]) | marked.map(lambda text: text + line))
            after = draw(st.sampled_from(["", " ", line + " "]) | marked.map(lambda text: text + line + "  "))
            text += key + (between if comma else "") + comma + after
        else:
            above = "".join(draw(st.lists(marked.map(lambda text: "  " + text + line), max_size=1)))
            text += above + "  " + key + draw(blank) + draw(st.just("") | marked) + line
    text += "}" + line if inline else ""
    return text + draw(st.sampled_from(["", "env: {a: b}" + line])), places


@settings(max_examples=300, deadline=None)
@given(edited())
def test_every_comment_and_every_other_key_stays(made: tuple[str, dict[str, list[Put]]]) -> None:
    text, places = made
    try:
        before = parse(text, "c.yaml")
    except InputError:
        return
    now = rewritten(text, "c.yaml", "params", places)
    assert re.findall("<[0-9]+>", now) == re.findall("<[0-9]+>", text)
    wanted = {}
    for key, value in plain(before)["params"].items():
        for new in places.get(key, [Put(key)]):
            wanted[new.word] = value if new.value is None else plain(parse(f"v: {new.value}", "v"))["v"]
    assert repr(plain(parse(now, "c.yaml"))["params"] or {}) == repr(wanted)
    if not text.startswith("params: {"):
        rows = re.split("\r?\n", text)
        assert all(row in now for row in rows if not re.search("""['"]?[a-g]['"]?[ \t]*:""", row))


def test_most_edited_documents_are_valid() -> None:
    valid = []

    @settings(max_examples=100, deadline=None, database=None)
    @given(edited())
    def look(made: tuple[str, dict[str, list[Put]]]) -> None:
        try:
            parse(made[0], "c.yaml")
            valid.append(True)
        except InputError:
            valid.append(False)

    look()
    assert sum(valid) > len(valid) * 0.7
