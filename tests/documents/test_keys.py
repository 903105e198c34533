"""Keys renamed in place: every byte outside them stays, whatever the document looks like."""

from __future__ import annotations

import string

import pytest
from builders import problems_of, whats
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.documents.keys import keys_of, renamed
from tuneplane.documents.tree import plain
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError

WORDS = {"rate": "learning_rate", "steps": "max_steps", "a": "b", "b": "a", "kl": "x" * 60}


def moved(text: str) -> str:
    return renamed(text, "c.yaml", "params", WORDS)


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
    assert whats(caught) == ["the keys of `params` cannot be renamed in place"]


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
