"""What a template may print, and what this package may name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tuneplane.render import encode
from tuneplane.render.templates import template
from tuneplane.resources import bundled

REPOSITORY = Path(__file__).resolve().parents[2]


def printed(source: str, **values: Any) -> str:
    """A template of this text, rendered in the environment of the script's own."""
    text: str = template("job.sbatch.j2").environment.from_string(source).render(**values)
    return text


@pytest.mark.parametrize(
    "source",
    [
        "{{ value }}",
        "{{ value | upper }}",
        "{{ 'text' }}",
        "{{ value ~ (value | word) }}",
        "{{ (value | word) + 'x' }}",
        "{{ (value | word) | trim }}",
        "{{ '%s' | format(value | word) }}",
        "{{ [value | word] | join(' ') }}",
        "{{ 5 }}",
        "{{ none }}",
        "{{ true }}",
        "{% set x = value %}{{ x }}",
        "{% set x %}{{ value | word }}{% endset %}{{ x }}",
        "{% for item in [value] %}{{ item }}{% endfor %}",
    ],
)
def test_a_template_prints_nothing_but_what_an_encoder_made(source: str) -> None:
    with pytest.raises(TypeError, match="which no encoder made"):
        printed(source, value="$(touch pwned)")


def test_a_template_that_names_what_is_not_there_fails() -> None:
    from jinja2 import UndefinedError

    with pytest.raises((TypeError, UndefinedError)):
        printed("{{ valeu }}", value="x")


@pytest.mark.parametrize("name", ["word", "directive", "comment", "verbatim"])
def test_a_template_prints_what_an_encoder_made(name: str) -> None:
    assert printed(f"{{{{ value | {name} }}}}", value="a b") == getattr(encode, name)("a b")


def test_the_result_of_an_encoder_used_further_is_plain_text_again() -> None:
    """Whatever is done with it, it has to be encoded once more."""
    encoded = encode.word("a b")
    for text in (encoded + "", encoded.upper(), encoded[:], f"{encoded}", encoded.replace("a", "b")):
        assert type(text) is str
    assert type(encoded) is encode.Encoded


WORDS_OF_BASH = ['"${!TUNEPLANE_ENV_@}"', '"${tp_mounts[@]}"', '"${tp_srun[@]}"']
"""What the templates say of bash where it looks like Jinja, or would be quoted."""


def test_the_templates_mark_verbatim_only_what_the_package_or_the_admin_wrote() -> None:
    found = []
    for file in sorted(Path(bundled("templates")).rglob("*.j2")):
        found += re.findall(
            r"\{\{ *([^{}]*?(?:\{!?\w+(?:\[@\]|@)\})?[^{}]*?) *\| *verbatim", file.read_text()
        )
    assert sorted(set(found)) == sorted([*WORDS_OF_BASH, "line"])


def test_every_expression_of_a_template_ends_in_an_encoder_or_is_one_of_few() -> None:
    """What rendering enforces, told without rendering each branch."""
    made = {"prefix", "check_sh", "read_sh", "check_image_sh", "stage_sh", "params", "params_end", "end"}
    for file in sorted(Path(bundled("templates")).rglob("*.j2")):
        for expression in re.findall(
            r"\{\{(.*?)\}\}", re.sub(r'"\$\{!?\w+(?:\[@\]|@)\}"', "words", file.read_text())
        ):
            last = expression.rpartition("|")[2].strip()
            assert last in {"word", "directive", "comment", "number", "verbatim"} or last in made, (
                file,
                expression,
            )


FRAMEWORKS = re.compile(r"(?<![a-z])(verl|trl|nemo|open[ _-]?rlhf)(?![a-z])", re.IGNORECASE)


def test_no_line_names_a_framework() -> None:
    """A framework is data: it is named in recipes alone."""
    found = []
    for folder in ("tuneplane", "templates"):
        for file in sorted((REPOSITORY / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and "_data" not in file.parts:
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    if FRAMEWORKS.search(line):
                        found.append(f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    "line", ['if kind == "verl":', "# as TRL does", "nemo_rl", "NeMo-RL", "import openrlhf", "OpenRLHF"]
)
def test_a_line_that_names_a_framework_is_found(line: str) -> None:
    assert FRAMEWORKS.search(line)
