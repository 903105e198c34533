"""The command in a script's header: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.plan.command import Command
from tuneplane.plan.inputs import Request

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
# click ends a command's options at the first `--`, whatever comes before it
values = st.none() | texts.filter(lambda text: text != "--")
keys = texts.filter(lambda text: text and "=" not in text)
requests = st.builds(
    Request,
    profile=values,
    time=values,
    settings=st.lists(st.tuples(keys, texts), max_size=3).map(tuple),
    model=values,
    train_data=values,
    validation_data=values,
    image=values,
    words=st.lists(texts, max_size=4).map(tuple),
)
commands = st.builds(
    Command,
    site=texts.filter(lambda text: text not in ("", "--")),
    registry=texts.filter(lambda text: text != "--"),
    experiment_dir=texts.map(lambda text: f"/{text}"),
    request=requests,
)


@given(commands)
def test_what_is_written_is_read_back(command: Command) -> None:
    assert Command.read(command.words()) == command


def test_the_order_is_fixed() -> None:
    request = Request(
        profile="h200:8", settings=(("a", "1"), ("a", "2=3")), image="/i.sif", model="m", words=("--", "x")
    )
    words = Command("here", "/reg", "/exp", request).words()
    assert " ".join(words) == (
        "tp --site here --registry /reg compile /exp --profile h200:8 --model m --image /i.sif"
        " --set a=1 --set a=2=3 -- -- x"
    )


@pytest.mark.parametrize(
    "words",
    [
        "",
        "tp",
        "tp compile /exp",
        "sh --site here compile /exp",
        "tp --site here compile",
        "tp --site here compile /exp --profile",
        "tp --site here compile /exp compile /other",
        "tp --site here submit /exp",
        "tp --site here compile /exp --dry-run yes",
    ],
)
def test_other_words_are_none(words: str) -> None:
    with pytest.raises(ValueError):
        Command.read(words.split())
