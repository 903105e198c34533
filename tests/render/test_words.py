"""Shell words, read back from the real bash."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from render.tools import LEGACY, made_locale
from render.values import every_character, hides_something, in_parts, odd, texts

from tuneplane.plan.model import Ref
from tuneplane.render.encode import NotEncodable, comment, word
from tuneplane.visible import visible

LOCALES = ("C", "C.UTF-8", *LEGACY)
OPTIONS = {
    "plain": [],
    "histexpand": ["-H"],
    "globs": ["-O", "extglob", "-O", "nullglob", "-O", "globstar", "-O", "dotglob"],
    "braces off": ["+B"],
}


@pytest.fixture(params=LOCALES)
def locale(request: pytest.FixtureRequest, locales: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A locale that bash is started in."""
    if request.param in LEGACY:
        monkeypatch.setenv("LOCPATH", str(made_locale(locales, request.param)))
    return request.param


def bash(script: str, locale: str = "C.UTF-8", options: list[str] | None = None) -> bytes:
    """What a script writes to stdout, run from a file as Slurm runs it; its stderr must stay empty."""
    done = subprocess.run(
        ["/bin/bash", "-p", *(options or []), "/dev/stdin"],
        input=script.encode(),
        env={"PATH": "/usr/bin:/bin", "LC_ALL": locale, "LOCPATH": os.environ.get("LOCPATH", "")},
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    return done.stdout


def arguments(values: list[str]) -> str:
    """As the templates write them: one word a line."""
    return " \\\n".join(f"    {word(value)}" for value in values) + "\n"


def split(data: bytes) -> list[bytes]:
    assert data.endswith(b"\0")
    return data[:-1].split(b"\0")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_words_reach_bash(locale: str, options: list[str]) -> None:
    values = odd(3000, seed=1)
    assert split(bash("printf '%s\\0' \\\n" + arguments(values), locale, options)) == [
        v.encode() for v in values
    ]


def test_words_reach_the_argv_of_a_program() -> None:
    for values in in_parts(odd(1500, seed=2), number=500):
        # the kernel's own record of a program's arguments
        out = bash("sh -c 'cat \"/proc/$$/cmdline\"' sh \\\n" + arguments(values))
        assert split(out)[4:] == [value.encode() for value in values]


def test_variables_reach_the_environment_of_a_program(locale: str) -> None:
    for values in in_parts(odd(2000, seed=3), number=500):
        lines = "".join(f"export TPTEST_{i}={word(value)}\n" for i, value in enumerate(values))
        found = dict(item.split(b"=", 1) for item in split(bash(lines + "cat /proc/self/environ\n", locale)))
        assert [found[b"TPTEST_%d" % i] for i in range(len(values))] == [value.encode() for value in values]


def test_words_survive_a_function_printed_by_bash(locale: str) -> None:
    """The Slurm script hands its functions to the nodes as `declare -f` prints them."""
    for values in in_parts(odd(2000, seed=4), number=200, size=60_000):
        script = f"send() {{\n    printf '%s\\0' \\\n{arguments(values)}}}\n"
        script += '/bin/bash -p <(declare -f send; printf "send\\n")\n'
        assert split(bash(script, locale)) == [value.encode() for value in values]


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=1, max_size=20))
@example(["-n", "", "~", "=x", "'", "\\", "$'\\x41'", "\x01\x7f", "a\x80b"])
def test_any_words_reach_bash(values: list[str]) -> None:
    assert split(bash("printf '%s\\0' \\\n" + arguments(values))) == [value.encode() for value in values]


@given(texts)
def test_a_word_shows_all_of_itself(value: str) -> None:
    encoded = word(value)
    assert not hides_something(encoded)
    assert visible(encoded)
    assert "\n" not in encoded


def test_every_character_that_hides_is_escaped() -> None:
    """Whatever Unicode version this Python has."""
    characters = every_character()
    assert [c for c in characters if visible(c) and hides_something(c)] == []
    assert not hides_something(word("".join(characters)))
    fillers = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\ufe00\ufe0f\uffa0\U000e0100\U000e01ef"
    assert [c for c in fillers if visible(c)] == []
    assert all(visible(c) for c in "a~ é世Ж\u0301\ufffd\U0001f600")


def test_what_is_visible_does_not_follow_the_python_version() -> None:
    """Characters of Unicode 14, 15.1 and 16, and code points that have none yet, are all written as they are."""
    for text in ("\U0001fae0", "\U0002ebf0", "\U0001fadf", "\u0378", "\U0003fffd"):
        assert word(text) == f"'{text}'"


@pytest.mark.parametrize("value", ["\0", "a\0b", "\ud800", "\udcff"])
def test_what_no_word_can_hold_is_refused(value: str) -> None:
    with pytest.raises(NotEncodable):
        word(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain-word_1.2/x:y,z@%+=", "plain-word_1.2/x:y,z@%+="),
        ("", "''"),
        ("it's", "'it'\\''s'"),
        ("a\tb", "$'a\\tb'"),
        ("\x1b[0m", "$'\\x1b[0m'"),
        ("a\xa0b", "$'a\\xc2\\xa0b'"),
        ("1 世界\n2", "$'1 ''世界'$'\\n2'"),
        ("~", "'~'"),
        ("=x", "'=x'"),
        (Ref("output"), '"$tp_run/output"'),
        (Ref("files", "/it's", "--file="), "--file=\"$tp_files\"'/it'\\''s'"),
    ],
)
def test_how_words_look(value: str | Ref, expected: str) -> None:
    assert word(value) == expected


def test_a_folder_and_text_around_it_are_one_word() -> None:
    folder = "/a b/'$(id)'\n\\é"
    for prefix, suffix in (("", ""), ("--file=", "/x"), ("$( ", '/it\'s "$HOME" é\n')):
        out = bash(f"tp_run={word(folder)}\nprintf '%s\\0' {word(Ref('run', suffix, prefix))}\n")
        assert split(out) == [f"{prefix}{folder}{suffix}".encode()]


@given(texts)
def test_a_comment_stays_one_line_and_shows_all_of_itself(value: str) -> None:
    encoded = comment(value)
    assert visible(encoded)
    assert len(encoded.splitlines()) <= 1


def test_a_comment_runs_nothing(tmp_path: Path) -> None:
    lines = "".join(f"#   {comment(value)}\n" for value in odd(2000, seed=5))
    assert bash(f"cd {word(str(tmp_path))}\n{lines}printf 'end\\0'\n") == b"end\0"
    assert list(tmp_path.iterdir()) == []
