"""The command: flags in which every value stays a value, paths, the user's words; and what a method needs."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import pytest
from builders import construct, problems_of, site
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from plan.cases import FILES, inputs, plan, refused

from tuneplane.catalog.manifest import Launch
from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.text import flow
from tuneplane.errors import InputError
from tuneplane.experiment.config import Located
from tuneplane.plan.build import make_plan
from tuneplane.plan.inputs import Request
from tuneplane.plan.model import Image, Ref, Refusal

HOST = site(runtime={"kind": "host"})


def words(recipe: Recipe, *assignments: tuple[str, str], **over: Any) -> list[Any]:
    return list(plan(recipe, "", Request(settings=assignments), **over).words)


DEFAULTS = [
    "--fast=false",
    "--kind=a",
    "--learning-rate=0.1",
    "--sizes",
    "1",
    "2",
    "--trainer.algorithm=ppo",
    "--warmup=5400",
]


def test_flags_stand_in_the_order_of_their_names(tuned: Recipe) -> None:
    assert words(tuned) == ["main.py", *DEFAULTS]


@pytest.mark.parametrize(
    ("key", "text", "flag"),
    [("rate", "1e-6", ["--learning-rate=1e-06"]), ("steps", "+0016", ["--steps=16"]), ("fast", "TRUE", ["--fast=true"]), ("note", "", ["--note="]),
     ("note", "--rm -rf", ["--note=--rm -rf"]), ("note", "-x", ["--note=-x"]), ("note", "a=b", ["--note=a=b"]), ("warmup", "1d", ["--warmup=86400"]),
     ("sizes", "-3,4", ["--sizes", "-3", "4"]), ("sizes", "", []), ("words", "a b,'c'", ["--words", "a b", "'c'"])],
)  # fmt: skip
def test_how_a_value_is_written(tuned: Recipe, key: str, text: str, flag: list[str]) -> None:
    path = tuned.parameters[key].path
    found = words(tuned, (key, text))
    start = next(
        (i for i, word in enumerate(found) if word == f"--{path}" or word.startswith(f"--{path}=")), None
    )
    assert (found[start : start + len(flag)] if start is not None else []) == flag


@pytest.mark.parametrize("text", ["-x", "--config=evil", "-", "a,-b", "-1e-6", "-1x"])
def test_an_item_that_would_be_read_as_a_flag_is_refused(tuned: Recipe, text: str) -> None:
    item = text.rpartition(",")[2]
    assert refused(tuned, "", Request(settings=(("words", text),))) == (
        3,
        [(f"the item `{item}` would be read as a flag", "--set words")],
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.text(
    "-=a1 .,", max_size=5
)


@given(
    TEXTS,
    st.lists(TEXTS, max_size=3),
    st.lists(st.integers(-99, 99), max_size=3),
    st.floats(min_value=1e-300, max_value=1),
)
@settings(max_examples=100, deadline=None)
@example("-", ["--note=x"], [-1], 1e-6)
def test_argparse_reads_what_was_meant(
    tuned_module: Recipe, note: str, listed: list[str], sizes: list[int], rate: float
) -> None:
    assume(note != "--")  # argparse before Python 3.13 takes it out even of `--note=--`
    text = f"params: {{note: {flow(note)}, words: [{', '.join(map(flow, listed))}], sizes: {sizes}, rate: {rate!r}}}"
    try:
        found = plan(tuned_module, text).words
    except InputError as error:
        assert all("would be read as a flag" in problem.what for problem in error.problems)
        assert any(word.startswith("-") for word in listed)
        return
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("note", "kind", "fast", "steps", "warmup"):
        parser.add_argument(f"--{flag}")
    parser.add_argument("--trainer.algorithm")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--words", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=int, default=[])
    read = parser.parse_args([str(word) for word in found[1:]])
    assert (read.note, read.words, read.sizes, read.learning_rate) == (note, listed, sizes, rate)


@pytest.fixture(scope="module")
def tuned_module(tuned: Recipe) -> Recipe:
    return tuned


# --- paths ---


@pytest.mark.parametrize(
    ("text", "word"),
    [("main.py", Ref("files", "/main.py", "--extra=")), ("./conf/../conf/a.yaml", Ref("files", "/conf/a.yaml", "--extra=")), ("conf", Ref("files", "/conf", "--extra=")),
     ("conf/", Ref("files", "/conf", "--extra=")), ("conf/deep", Ref("files", "/conf/deep", "--extra=")), (".", Ref("files", "", "--extra=")),
     ("-odd", Ref("files", "/-odd", "--extra=")), ("/home/u/exp/conf/a.yaml", Ref("files", "/conf/a.yaml", "--extra=")), ("../exp/main.py", Ref("files", "/main.py", "--extra=")),
     ("~/x y", Ref("home", "/x y", "--extra=")),
     ("con", "--extra=/home/u/exp/con"), ("data/big", "--extra=/home/u/exp/data/big"), ("../x", "--extra=/home/u/x"), ("/a//b/../c", "--extra=/a/c"),
     ("/main.py", "--extra=/main.py"), ("/home/u/exp2/main.py", "--extra=/home/u/exp2/main.py"), ("a b'c", "--extra=/home/u/exp/a b'c")],
)  # fmt: skip
def test_a_path_is_the_frozen_copy_or_lies_where_it_lies(tuned: Recipe, text: str, word: Any) -> None:
    assert word in words(tuned, ("extra", text))


def test_a_path_of_the_experiment_is_the_same_wherever_the_folder_lies(tuned: Recipe) -> None:
    assert words(tuned, ("extra", "conf")) == words(tuned, ("extra", "conf"), experiment_dir="/elsewhere")


# --- entry and the user's words ---


@pytest.mark.parametrize(
    ("launch", "start"),
    [({"kind": "process", "entry": {"experiment": "main.py"}, "interpreter": ["bash", "-e"]}, ["bash", "-e", "main.py"]),
     ({"kind": "torchrun", "entry": {"module": "toy.train"}}, ["-m", "toy.train"])],
)  # fmt: skip
def test_the_entry(tuned: Recipe, launch: dict[str, Any], start: list[str]) -> None:
    recipe = dataclasses.replace(tuned, launch=construct(Launch, launch))
    assert words(recipe) == [*start, *DEFAULTS]
    assert plan(recipe).launch_kind == launch["kind"]


def test_argv_style_writes_no_parameter(tuned: Recipe) -> None:
    recipe = dataclasses.replace(tuned, config=dataclasses.replace(tuned.config, style="argv"))
    assert words(recipe, ("note", "x")) == ["main.py"]
    assert plan(recipe, "params: {note: x}").params["params"]["note"] == "x"


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [("args: [--a, 'b c', '', 010, -x]", (), ["--a", "b c", "", "010", "-x"]), ("args: [a]", ("--b", "$(c)"), ["--b", "$(c)"]), ("", ("--", "x"), ["--", "x"]), ("", (), [])],
)  # fmt: skip
def test_the_users_words_follow_as_they_are(
    tuned: Recipe, text: str, given: tuple[str, ...], expected: list[str]
) -> None:
    assert list(plan(tuned, text, Request(words=given)).words) == ["main.py", *DEFAULTS, *expected]


def test_a_method_without_words_refuses_them(tuned: Recipe) -> None:
    recipe = dataclasses.replace(tuned, launch=dataclasses.replace(tuned.launch, words=False))
    assert refused(recipe, "\nargs: [a]") == (
        3,
        [("toy/tuned takes no words of its own", "exp/config.yaml:2 args.0")],
    )
    assert refused(recipe, "", Request(words=("a",))) == (
        3,
        [("toy/tuned takes no words of its own", "command line --")],
    )


@pytest.mark.parametrize("key", ["note", "words"])
def test_a_word_that_linux_could_not_hand_over(tuned: Recipe, key: str) -> None:
    code, problems = refused(tuned, "", Request(settings=((key, "x" * 131072),)))
    assert (code, problems) == (3, [("the value has 131072 bytes", f"--set {key}")])
    assert refused(tuned, "", Request(words=("x" * 131072,))) == (
        3,
        [("the word has 131072 bytes", "command line --")],
    )
    assert refused(tuned, "", Request(words=("a\0b",))) == (
        3,
        [("the word holds a NUL character", "command line --")],
    )


# --- needs ---

NEEDS = {"model": "model", "data.train": "data: {{train: {}}}", "data.validation": "data: {{validation: {}}}"}


def needing(recipe: Recipe, key: str, need: str) -> Recipe:
    if key == "model":
        return dataclasses.replace(recipe, model=need)
    return dataclasses.replace(
        recipe, data=dataclasses.replace(recipe.data, **{key.removeprefix("data."): need})
    )


@pytest.mark.parametrize("key", NEEDS)
def test_what_a_method_needs_and_what_it_does_not_take(tuned: Recipe, key: str) -> None:
    text = "model: x" if key == "model" else NEEDS[key].format("x")
    for need in ("optional", "required"):
        assert plan(needing(tuned, key, need), text)
    assert plan(needing(tuned, key, "optional")) and plan(needing(tuned, key, "none"))
    assert refused(needing(tuned, key, "required")) == (3, [(f"toy/tuned needs `{key}`", "exp/config.yaml")])
    assert refused(needing(tuned, key, "none"), text) == (
        3,
        [(f"toy/tuned takes no `{key}`", f"exp/config.yaml:1 {key}")],
    )


def test_the_command_line_stands_in_for_the_configuration(tuned: Recipe) -> None:
    recipe = needing(needing(tuned, "model", "required"), "data.train", "required")
    assert plan(recipe, "", Request(model="/m", train_data="/t"))
    made = inputs(
        recipe, "model: old\nresources: {profile: cpu}", Request(model="/m", profile="h200:4")
    ).config
    assert made.model is not None and (made.model.text, made.model.source) == ("/m", "command line")
    assert made.model.lost == (("config.yaml", "old", "exp/config.yaml:1 model"),)
    assert made.resources["profile"].lost == (("config.yaml", "cpu", "exp/config.yaml:2 resources.profile"),)


def test_the_entry_file_must_be_frozen(tuned: Recipe) -> None:
    code, problems = refused(tuned, has_file=frozenset(FILES) - {"main.py"})
    assert code == 3 and problems[0][0].startswith("toy/tuned runs `main.py`, and ")


@pytest.mark.parametrize(
    ("tracker", "accepted"), [("console", True), ("tensorboard", False), ("wandb", False)]
)
def test_trackers(tuned: Recipe, tracker: str, accepted: bool) -> None:
    if accepted:
        assert plan(tuned, f"tracking: [{tracker}]")
    else:
        assert refused(tuned, f"tracking: [console, {tracker}]") == (
            3,
            [(f"toy/tuned does not track to `{tracker}`", "exp/config.yaml:1 tracking.1")],
        )


# --- image ---


def test_a_container_site_needs_an_image(tuned: Recipe) -> None:
    code, problems = refused(tuned, image=None)
    assert code == 5 and problems[0][0].startswith("this site has no image for ")


def test_a_host_site_takes_no_image(tuned: Recipe) -> None:
    assert plan(tuned, site=HOST, image=None).image is None
    assert refused(tuned, "", Request(image="/x.sif"), site=HOST, image=None) == (
        6,
        [("this site runs on the host, without images", "--image")],
    )


def test_what_is_missing_is_noted_for_a_compile(tuned: Recipe) -> None:
    model = Located(
        "model",
        "m",
        "/m",
        False,
        where="exp/config.yaml:1 model",
        missing="model does not exist: /m",
        remedy="do this",
    )
    made = plan(tuned, "model: m", located={"model": model}, image=Image("/gone.sif", "toy-2.0.0", "--image"))
    assert made.refusals[0] == Refusal(3, "model does not exist: /m", "exp/config.yaml:1 model", "do this")
    assert [refusal.code for refusal in made.refusals] == [3, 5]
    assert plan(tuned).refusals == ()


# --- the plan is a function of its inputs ---


def test_the_same_inputs_make_the_same_plan(tuned: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "env: {B: x, A: y}\nsecrets: [Z_TOKEN, A_TOKEN]\nparams: {note: x}\n"
    first = plan(tuned, text)
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("USER", "nobody")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.chdir("/")
    assert plan(tuned, text) == first and repr(plan(tuned, text)) == repr(first)


def test_provenance_names_the_inputs(tuned: Recipe) -> None:
    found = make_plan(inputs(tuned, command=("tp", "compile"))).provenance
    assert (found.method, found.recipe_digest, found.framework_version, found.site, found.files_count) == (
        "toy/tuned",
        tuned.digest,
        "2.0.0",
        "s",
        len(FILES),
    )
    assert (found.experiment, found.experiment_dir, found.command) == (
        "exp",
        "/home/u/exp",
        ("tp", "compile"),
    )


def test_problems_carry_the_next_step(tuned: Recipe) -> None:
    with pytest.raises(InputError) as caught:
        plan(tuned, "data: {validation: x}")
    assert problems_of(caught)[0].hint == "tp methods toy/tuned"
