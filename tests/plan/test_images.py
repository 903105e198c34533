"""Whether the image fits site, nodes and method; and the variable of the user that names it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from builders import config, recipe, replaced, site
from hypothesis import given
from hypothesis import strategies as st
from plan.cases import RECIPE, inputs, plan, refused

from tuneplane.catalog.recipe import Recipe
from tuneplane.plan.command import Command, image_variable
from tuneplane.plan.images import image_trouble, node_arch, unchecked
from tuneplane.plan.inputs import Request
from tuneplane.plan.model import NOT_REGISTERED, Image, Refusal

ARM = {"gh200": {"gpus_per_node": 1, "cpus_per_node": 72, "arch": "aarch64"}, "h200": {"gpus_per_node": 8, "cpus_per_node": 96}}  # fmt: skip
RECORD = "record 3 of toy-2.0.0"


def image(kind: str = "sif", source: str = "--image", **fields: Any) -> Image:
    made = Image(f"/i/toy.{kind}", "toy-2.0.0", source, "1" * 64, 9, "2" * 64, kind, "x86_64")
    return dataclasses.replace(made, **fields)


def at(kind: str, **fields: Any) -> Any:
    return site(runtime={"kind": kind}, **fields)


@pytest.mark.parametrize(
    ("kind", "held", "right"),
    [
        ("apptainer", "sif", True),
        ("apptainer", "sqsh", True),
        ("pyxis", "sqsh", True),
        ("pyxis", "sif", False),
        ("enroot", "sqsh", True),
        ("enroot", "sif", False),
        # what nobody could look at is not held against it
        ("enroot", "", True),
    ],
)
def test_formats(tuned: Recipe, kind: str, held: str, right: bool) -> None:
    given_image = image(held, path="/i/toy")
    if right:
        assert plan(tuned, site=at(kind), image=given_image).image == given_image
    else:
        code, faults = refused(tuned, site=at(kind), image=given_image)
        assert (code, faults) == (5, [("the image `/i/toy` is a SIF", "--image")])


def test_a_site_without_an_image_for_a_method_without_a_runtime_id(tuned: Recipe) -> None:
    for kind in ("apptainer", "pyxis", "enroot"):
        assert refused(tuned, site=at(kind), image=None) == (
            5,
            [("this site has no image for toy/tuned", "")],
        )


@pytest.mark.parametrize("by", ["--image", "TUNEPLANE_IMAGE_TOY"])
def test_an_image_on_the_host(tuned: Recipe, by: str) -> None:
    request = Request(image="/i.sif", image_by=by)
    assert refused(tuned, request=request, site=at("host"), image=None) == (
        6,
        [("this site runs on the host, without images", by)],
    )


def refusals(recipe: Recipe, given_image: Image | None, **over: Any) -> list[Refusal]:
    return list(plan(recipe, image=given_image, **over).refusals)


def test_none_that_is_registered(tuned: Recipe) -> None:
    none = Image("toy-2.0.0", "toy-2.0.0", NOT_REGISTERED)
    what = "this site has no image for `toy-2.0.0`"
    assert refusals(tuned, none) == [Refusal(5, what, "", "--image FILE.sif")]
    assert refusals(tuned, none, site=at("enroot")) == [Refusal(5, what, "", "--image FILE.sqsh")]
    only = dataclasses.replace(none, trouble="sif-aarch64, sqsh-x86_64")
    assert refusals(tuned, only) == [
        Refusal(5, f"{what}, only sif-aarch64, sqsh-x86_64", "", "--image FILE.sif")
    ]


def test_one_that_is_not_there(tuned: Recipe) -> None:
    gone = Image("/i/toy.sif", "toy-2.0.0", "site image of toy-2.0.0")
    assert refusals(tuned, gone) == [
        Refusal(5, "the image `/i/toy.sif` does not exist", "site image of toy-2.0.0", "--image FILE.sif")
    ]


def test_another_architecture(tuned: Recipe) -> None:
    for arch, profile, wrong in (("aarch64", "h200:8", True), ("aarch64", "gh200:1", False), ("x86_64", "gh200:1", True), ("", "gh200:1", False)):  # fmt: skip
        found = refusals(
            tuned, image(arch=arch), text=f"resources: {{profile: '{profile}'}}", site=at("apptainer", profiles=ARM)
        )  # fmt: skip
        nodes = ARM[profile.partition(":")[0]].get("arch", "x86_64")
        what = f"the image `/i/toy.sif` is for {arch}, and the nodes are {nodes}"
        assert found == ([Refusal(5, what, "--image", "--image FILE.sif")] if wrong else [])


def test_the_architecture_of_the_nodes() -> None:
    here = at("apptainer", profiles=ARM)
    assert node_arch(here, config("")) == "x86_64"
    assert node_arch(here, config("resources: {profile: gh200}")) == "aarch64"
    assert node_arch(here, config("resources: {profile: 'gh200:1'}")) == "aarch64"
    assert node_arch(here, config("resources: {profile: none}")) == ""
    assert node_arch(here, Request(profile="gh200:1").written(config(""))) == "aarch64"


@pytest.fixture
def needy(tuned: Recipe) -> Recipe:
    return dataclasses.replace(tuned, requires=["torch==2.14.0", "flash_attn >= 2"])


def test_what_the_method_needs_and_the_record_has_not(needy: Recipe) -> None:
    packages = (("flash-attn", ""), ("torch", "2.13.0+cpu"))
    end = "and the image of toy-2.0.0"
    held = image(source=RECORD, packages=packages)
    assert refusals(needy, held) == [
        Refusal(5, f"toy/tuned needs torch==2.14.0, {end} holds torch 2.13.0+cpu", RECORD, "tp runtime show toy-2.0.0"),
        Refusal(5, f"toy/tuned needs flash_attn >= 2, {end} does not hold it", RECORD, "tp runtime show toy-2.0.0"),
    ]  # fmt: skip
    enough = image(source=RECORD, packages=(("flash-attn", "2.8"), ("torch", "2.14.0+cu130")))
    assert refusals(needy, enough) == []
    # looked into, nothing is left for the job to look at
    assert plan(needy, image=held).requires == plan(needy, image=enough).requires == ()


def test_what_the_job_itself_has_to_look_at(needy: Recipe) -> None:
    """An image into which nobody looked."""
    for given_image in (image(), image(source=RECORD), image(packages=None)):
        made = plan(needy, image=given_image)
        assert made.requires == ("torch==2.14.0", "flash_attn>=2") and made.refusals == ()
    assert unchecked(inputs(needy, image=None)) == ()
    assert plan(needy, image=image(packages=())).requires == ()


RAY = "launch: {kind: ray, entry: {experiment: main.py}, words: true}\n"


def test_a_ray_that_lets_anybody_in(tmp_path: Path) -> None:
    line = "launch: {kind: torchrun, entry: {experiment: main.py}, words: true}\n"
    ray = recipe(tmp_path, replaced(RECIPE, (line, RAY)))
    old = image(packages=(("ray", "2.51.2"),))
    (found,) = plan(ray, image=old, site=at("apptainer")).refusals
    assert (found.code, found.what) == (
        5,
        "toy/tuned needs ray>=2.52, and the image of toy-2.0.0 holds ray 2.51.2",
    )
    assert plan(ray, image=image(packages=(("ray", "2.52.0"),)), site=at("apptainer")).refusals == ()
    assert unchecked(inputs(ray, image=image())) == ("ray>=2.52",)
    allowed = site(runtime={"kind": "apptainer", "old_ray": True})
    assert (
        plan(ray, image=old, site=allowed).refusals == ()
        and unchecked(inputs(ray, image=image(), site=allowed)) == ()
    )


def test_the_trouble_of_a_file_is_beside_the_plan(tuned: Recipe) -> None:
    """The script follows from the record alone, whatever has become of the file."""
    whole = image(source=RECORD)
    broken = dataclasses.replace(whole, trouble="the registered image `/i/toy.sif` is gone")
    assert dataclasses.replace(plan(tuned, image=broken), image=whole) == plan(tuned, image=whole)
    assert list(image_trouble(broken)) == [
        Refusal(5, "the registered image `/i/toy.sif` is gone", RECORD, "tp runtime verify")
    ]
    assert list(image_trouble(whole)) == list(image_trouble(None)) == []
    # what there is instead is no trouble of a file
    assert list(image_trouble(Image("t", "t", NOT_REGISTERED, trouble="sif-aarch64"))) == []


# --- the user's variable ---


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        ("verl", "TUNEPLANE_IMAGE_VERL"),
        ("nemo-rl", "TUNEPLANE_IMAGE_NEMO_RL"),
        ("a.b c", "TUNEPLANE_IMAGE_A_B_C"),
        ("2x", "TUNEPLANE_IMAGE_2X"),
        ("é", "TUNEPLANE_IMAGE__"),
    ],
)
def test_the_variable_of_a_framework(framework: str, name: str) -> None:
    assert image_variable(framework) == name


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(texts, st.sampled_from(["TUNEPLANE_IMAGE_VERL", "TUNEPLANE_IMAGE_A_2"]), st.lists(texts, max_size=3))
def test_the_command_behind_env(path: str, name: str, words: list[str]) -> None:
    request = Request(image=path, image_by=name, words=tuple(words))
    command = Command("here", "", "/exp", request)
    written = command.words()
    assert written[:5] == ("env", f"{name}={path}", "tp", "--site", "here")
    assert Command.read(written) == command


@pytest.mark.parametrize(
    "words",
    [
        "env",
        "env tp --site here compile /exp",
        "env TUNEPLANE_IMAGE_X tp --site here compile /exp",
        "env PATH=/evil tp --site here compile /exp",
        "env TUNEPLANE_SITE=x tp --site here compile /exp",
        "env TUNEPLANE_IMAGE_x=a tp --site here compile /exp",
        "env TUNEPLANE_IMAGE_X=a",
        "env TUNEPLANE_IMAGE_X=a TUNEPLANE_IMAGE_Y=b tp --site here compile /exp",
        "env -i TUNEPLANE_IMAGE_X=a tp --site here compile /exp",
        "TUNEPLANE_IMAGE_X=a tp --site here compile /exp",
    ],
)
def test_other_words_behind_env_are_none(words: str) -> None:
    with pytest.raises(ValueError):
        Command.read(words.split(" "))
