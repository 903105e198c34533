"""`#SBATCH` values, read back from the lexer of the real sbatch.

`sbatch -v --test-only` prints what it has read before it looks for a controller, so no cluster is needed. A script
may describe the parts of a heterogeneous job, each with options of its own: one start reads a thousand values.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from render.tools import program
from render.values import odd, texts

from tuneplane.render.encode import NotEncodable, directive
from tuneplane.visible import visible

OPTIONS = (
    "account comment constraint job-name licenses mail-user mcs-label partition qos reservation wckey".split()
)
PARTS = 100  # Slurm takes at most 128
Lexer = Callable[[str], Iterator[tuple[str, str]]]


@pytest.fixture(scope="module")
def lexed(tmp_path_factory: pytest.TempPathFactory) -> Lexer:
    """(option, value) pairs that sbatch reads in a script, its own `-v --test-only` left out."""
    sbatch = program("sbatch")
    folder = tmp_path_factory.mktemp("sbatch")
    (folder / "slurm.conf").write_text("ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n")

    def read(script: str) -> Iterator[tuple[str, str]]:
        (folder / "job.sbatch").write_text(script, encoding="utf-8", newline="")
        parts = script.count("\n#SBATCH hetjob\n") + 1
        process = subprocess.Popen(
            [sbatch, "-v", "--test-only", "job.sbatch"],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(folder / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        said = b""
        try:
            for line in process.stderr:
                said += line
                if match := re.fullmatch(rb"sbatch: ([a-z-]+) *: (.*)\n", line, re.DOTALL):
                    if match[1] not in (b"test-only", b"verbose"):
                        yield match[1].decode(), match[2].decode()
                elif line == b"sbatch: end of defined options\n":
                    parts -= 1
                    if not parts:
                        return  # what follows is the search for a controller
            raise AssertionError(f"sbatch stopped early: {said[-500:]!r}")
        finally:
            process.kill()
            process.communicate()

    return read


def script(values: list[str], options: list[str] = OPTIONS) -> str:
    lines = ["#!/bin/bash -p"]
    for i, value in enumerate(values):
        if i and i % len(options) == 0:
            lines.append("#SBATCH hetjob")
        lines.append(f"#SBATCH --{options[i % len(options)]}={directive(value)}")
    return "\n".join([*lines, "true", ""])


def expected(values: list[str], options: list[str] = OPTIONS) -> list[tuple[str, str]]:
    """sbatch prints the options of each part by name."""
    pairs = [(options[i % len(options)], value) for i, value in enumerate(values)]
    size = len(options)
    return [pair for i in range(0, len(pairs), size) for pair in sorted(pairs[i : i + size])]


@pytest.mark.tools
def test_directives_reach_sbatch(lexed: Lexer) -> None:
    step = PARTS * len(OPTIONS)
    # an empty value is an option that is not set
    values = odd(3 * step, seed=11, keep=lambda text: visible(text) and 0 < len(text.encode()) <= 1024)
    for i in range(0, len(values), step):
        part = values[i : i + step]
        assert list(lexed(script(part))) == expected(part)


@pytest.mark.tools
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(
    values=st.lists(
        texts.filter(lambda text: visible(text) and text != ""), min_size=1, max_size=len(OPTIONS)
    )
)
def test_any_directives_reach_sbatch(lexed: Lexer, values: list[str]) -> None:
    assert list(lexed(script(values))) == expected(values)


@pytest.mark.tools
@pytest.mark.parametrize("value", ["x" * 1024, "世" * 341, '"\\' * 512, " #" * 512])
def test_long_directives_reach_sbatch(lexed: Lexer, value: str) -> None:
    """Slurm takes at most 1024 bytes for a text."""
    assert list(lexed(script([value], ["comment"]))) == [("comment", value)]


@pytest.mark.tools
def test_the_lexer_is_the_one_that_needs_quoting(lexed: Lexer) -> None:
    """So that the tests above could fail: without the encoder the same lexer reads other values."""
    text = "#!/bin/bash\n#SBATCH --comment=a#b\n#SBATCH --job-name='it'\"'\"'s'\n#SBATCH --qos=a\\#b\ntrue\n"
    assert list(lexed(text)) == [("comment", "a"), ("job-name", "it's"), ("qos", "a#b")]


@pytest.mark.parametrize(
    "value", ["\n", "a\nb", "a\n#SBATCH --wrap=id", "\r", "a\x00b", "\x1b[0m", "\x7f", "\x85", "\xa0"]
)
def test_what_no_directive_can_hold_is_refused(value: str) -> None:
    with pytest.raises(NotEncodable):
        directive(value)


@given(texts)
def test_a_directive_is_one_visible_line_or_refused(value: str) -> None:
    if visible(value):
        assert visible(directive(value))
    else:
        with pytest.raises(NotEncodable):
            directive(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gpu:h200:8", "gpu:h200:8"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a\\b", '"a\\\\b"'),
        ("a#b", '"a#b"'),
        ("$HOME", '"$HOME"'),
        ("世界", '"世界"'),
    ],
)
def test_how_directives_look(value: str, expected: str) -> None:
    assert directive(value) == expected
