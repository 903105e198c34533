"""Paths that a container of the site cannot see: told with key, file and line, before the queue."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from builders import config, problems_of, site
from plan.cases import inputs

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, Problem
from tuneplane.experiment.config import Located
from tuneplane.experiment.locations import locate
from tuneplane.plan.build import make_plan
from tuneplane.plan.model import Image
from tuneplane.sites.kinds import unmountable

MODEL = "exp/config.yaml:1 model"
IMAGE = Image("/images/toy.sqsh", "toy-2.0.0", "site image", "1" * 64, 1, "1" * 64, "sqsh", "")


def refused(recipe: Recipe, kind: str, item: Located | None, **over: Any) -> list[Problem]:
    """What a plan of this site and this model is refused for."""
    image = IMAGE if kind != "host" else None
    located = {"model": item} if item else {}
    fields = {"site": site(runtime={"kind": kind}), "image": image, "located": located, **over}
    try:
        make_plan(dataclasses.replace(inputs(recipe), **fields))
    except InputError as error:
        return list(error.problems)
    return []


def model(path: str, **fields: Any) -> Located:
    return Located("model", path, path, True, mount=path, where=MODEL, **fields)


TABLE = [
    ("/a b", "space", "ep"),
    ("/a\tb", "white space", "ep"),
    ("/a\nb", "white space", "ep"),
    ("/a:b", "colon", "ep"),
    ("/a\\b", "backslash", "ep"),
    ("/a,b", "comma", "p"),
    ('/a"b', "double quote", "p"),
    ("/a$b", "dollar sign", "p"),
    ("/a`b", "backtick", "p"),
    ("/a'b", "", ""),
    ("/世界/é", "", ""),
    ("/a#b;c|d&e(f)*?[g]{h}~!%@+=^<>", "", ""),
]


@pytest.mark.parametrize(("path", "name", "kinds"), TABLE)
def test_characters(tuned: Recipe, path: str, name: str, kinds: str) -> None:
    shown = path.encode("unicode_escape").decode().replace("\\\\", "\\") if path[2] in "\t\n" else path
    for kind in ("apptainer", "pyxis", "enroot", "host"):
        why = f"a {name} is in it" if kind[0] in kinds else ""
        expected = [Problem(f"{kind} cannot mount `{shown}`: {why}", MODEL, "another name")] if why else []
        assert refused(tuned, kind, model(path)) == expected
        assert unmountable(kind, path) == why


def test_several_characters_are_named_each_once(tuned: Recipe) -> None:
    (problem,) = refused(tuned, "pyxis", model("/a b c:\t\n,d"))
    assert problem.what.endswith(": a space or a white space or a colon or a comma is in it")


def test_cr_lf_under_apptainer(tuned: Recipe) -> None:
    (problem,) = refused(tuned, "apptainer", model("/a\r\nb"))
    assert (problem.what, problem.where) == (
        "the path of model holds CR LF, which Apptainer cannot mount",
        MODEL,
    )
    assert refused(tuned, "apptainer", model("/a\rb\nc")) == []


@pytest.mark.parametrize("kind", ["apptainer", "pyxis", "enroot"])
@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/", False),
        ("/proc", False),
        ("/proc/self/fd/3", False),
        ("/sys/x", False),
        ("/dev/shm/model", False),
        ("/tuneplane", False),
        ("/tuneplane/start", False),
        ("/process", True),
        ("/system", True),
        ("/tuneplane-models/x", True),
        ("/home/proc", True),
    ],
)
def test_what_a_container_has_of_its_own(tuned: Recipe, kind: str, path: str, seen: bool) -> None:
    expected = [] if seen else [Problem(f"no container sees the `{path}` of this machine", MODEL)]
    assert refused(tuned, kind, model(path)) == expected
    assert refused(tuned, "host", model(path)) == []


def test_where_a_link_leads(tuned: Recipe, tmp_path: Path) -> None:
    """The path itself is right; what it leads to is mounted as well."""
    (tmp_path / "models, old").mkdir()
    (tmp_path / "model").symlink_to("models, old")
    (tmp_path / "maps").symlink_to("/proc/self/maps")
    text = config("model: m\n").model
    assert text is not None
    item = locate("model", dataclasses.replace(text, text=f"{tmp_path}/model"), tmp_path, "")
    assert refused(tuned, "pyxis", item) == [
        Problem(
            f"pyxis cannot mount `{tmp_path}/models, old`, which model leads to: a space or a comma is in it",
            MODEL,
            "another name",
        )
    ]
    assert refused(tuned, "apptainer", item) == []
    item = locate("model", dataclasses.replace(text, text=f"{tmp_path}/maps"), tmp_path, "")
    (problem,) = refused(tuned, "apptainer", item)
    assert problem.what.startswith("no container sees the `/proc/")
    assert problem.what.endswith("/maps` of this machine, which model leads to") and problem.where == MODEL


def test_of_a_hub_model_the_repository_is_mounted(tuned: Recipe) -> None:
    folder = "/cache of all/hub/models--org--m"
    item = Located("model", "org/m", f"{folder}/snapshots/{'0' * 40}", True, mount=folder, where=MODEL)
    (problem,) = refused(tuned, "enroot", item)
    assert problem.what == f"enroot cannot mount `{folder}`: a space is in it"


def test_what_is_not_there_is_told_all_the_same(tuned: Recipe) -> None:
    item = Located("model", "/a b", "/a b", False, mount="/a b", where=MODEL, missing="gone")
    assert [problem.what for problem in refused(tuned, "enroot", item)] == [
        "enroot cannot mount `/a b`: a space is in it"
    ]
    unknown = Located("model", "org/m", None, False, where=MODEL, missing="not in the cache")
    assert refused(tuned, "enroot", unknown) == []


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("enroot", "my exp", "a space"),
        ("pyxis", "my exp", "a space"),
        ("pyxis", "a,b", "a comma"),
        ("enroot", "a,b", ""),
        ("apptainer", "my exp", ""),
        ("host", "my exp", ""),
    ],
)
def test_the_name_of_an_experiment_stands_in_its_runs_folders(
    tuned: Recipe, kind: str, name: str, why: str
) -> None:
    expected = [
        Problem(
            f"{kind} cannot mount the folder of a run of `{name}`: {why} is in it",
            "",
            "another name of the experiment",
        )
    ]
    assert refused(tuned, kind, None, experiment=name) == (expected if why else [])


def test_all_are_named_together(tuned: Recipe) -> None:
    train = Located("data.train", "/d:e", "/d:e", True, mount="/d:e", where="exp/config.yaml:2 data.train")
    located = {"model": model("/a b"), "data.train": train}
    with pytest.raises(InputError) as caught:
        make_plan(
            dataclasses.replace(
                inputs(tuned), site=site(runtime={"kind": "enroot"}), image=IMAGE, located=located
            )
        )
    assert [(p.what, p.where) for p in problems_of(caught)] == [
        ("enroot cannot mount `/a b`: a space is in it", MODEL),
        ("enroot cannot mount `/d:e`: a colon is in it", "exp/config.yaml:2 data.train"),
    ]
