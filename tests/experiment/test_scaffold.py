"""Making, naming and finding experiments."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, replaced, whats, write_recipe

from tuneplane.catalog.load import SourceCatalog
from tuneplane.catalog.recipe import resolve
from tuneplane.documents.tree import Mark
from tuneplane.errors import InputError
from tuneplane.experiment.config import Written
from tuneplane.experiment.first_config import config_text
from tuneplane.experiment.locate import check_name, experiment_names, find_experiment
from tuneplane.experiment.locations import locate
from tuneplane.experiment.lock import lock_text
from tuneplane.experiment.scaffold import fork, scaffold


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceCatalog:
    """A method with a starter; the current folder is an empty one."""
    starter = write_recipe(tmp_path / "recipes").parent / "starter"
    (starter / "sub").mkdir(parents=True)
    (starter / "main.py").write_text("print()\n")
    (starter / "sub/run.sh").write_text("#!/bin/sh\n")
    (starter / "sub/run.sh").chmod(0o755)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return catalog(tmp_path / "recipes")


def test_an_experiment_is_made_whole(toy: SourceCatalog) -> None:
    assert scaffold("exp", toy, "toy/tuned", None, "en") == Path("exp")
    assert sorted(str(path) for path in Path("exp").rglob("*")) == [
        "exp/config.yaml", "exp/main.py", "exp/recipe.lock.json", "exp/sub", "exp/sub/run.sh"]  # fmt: skip
    assert os.access("exp/sub/run.sh", os.X_OK) and os.access("exp/main.py", os.W_OK)
    made = resolve(toy.manifest("toy/tuned"))
    assert Path("exp/recipe.lock.json").read_text() == lock_text(made)
    assert Path("exp/config.yaml").read_text() == config_text(made, "en")
    assert find_experiment("exp").folder == Path("exp").resolve() and experiment_names() == ["exp"]


@pytest.mark.parametrize("taken", ["file", "folder", "link"])
def test_nothing_is_overwritten(toy: SourceCatalog, taken: str) -> None:
    {
        "file": lambda: Path("exp").write_text("mine"),
        "folder": lambda: Path("exp").mkdir(),
        "link": lambda: Path("exp").symlink_to("gone"),
    }[taken]()
    before = os.lstat("exp")
    with pytest.raises(InputError) as caught:
        scaffold("exp", toy, "toy/tuned", None, "en")
    assert (
        whats(caught) == ["`exp` is there already"] and os.lstat("exp") == before and os.listdir() == ["exp"]
    )


@pytest.mark.parametrize("call", ["rename", "mkdir", "fchmod"])
def test_a_failure_leaves_nothing(toy: SourceCatalog, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = getattr(os, call)

    def full(path: Any, *args: Any, **kwargs: Any) -> Any:
        if call == "mkdir" and "experiment" not in str(path):
            return real(path, *args, **kwargs)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(InputError) as caught:
        scaffold("exp", toy, "toy/tuned", None, "en")
    assert whats(caught) == ["cannot make `exp`: No space left on device"] and os.listdir() == []


def test_a_fork_keeps_what_would_be_frozen_and_is_locked_anew(toy: SourceCatalog, tmp_path: Path) -> None:
    scaffold("exp", toy, "toy/tuned", None, "en")
    Path("exp/config.yaml").write_text("# mine\nparams: {rate: 0.5}\n")
    Path("exp/more.py").write_text("x")
    Path("exp/.env").write_text("HF_TOKEN=canary")
    write_recipe(tmp_path / "recipes", replaced(MANIFEST, ("default: 0.1", "default: 0.2")))
    newer = catalog(tmp_path / "recipes")
    fork("exp-2", find_experiment("exp"), newer, "toy/tuned", "2.0.0")
    assert (
        Path("exp-2/config.yaml").read_text() == "# mine\nparams: {rate: 0.5}\n"
        and Path("exp-2/more.py").exists()
    )
    assert not Path("exp-2/.env").exists()
    assert (
        Path("exp-2/recipe.lock.json").read_text()
        == lock_text(resolve(newer.manifest("toy/tuned")))
        != Path("exp/recipe.lock.json").read_text()
    )


# --- names and places ---


@pytest.mark.parametrize("name", ["exp", "my exp", "é世", "a.b-c_d", "it's", "x" * 100, "$(x)", "a=b"])
def test_names_that_are_taken(toy: SourceCatalog, name: str) -> None:
    scaffold(name, toy, "toy/tuned", None, "en")
    assert find_experiment(name).name == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".x", "-x", "a/b", "/x", "a\nb", "a\x1b[31m", "a\u2028b", "x" * 101, "é" * 51, "\udcff"],
)
def test_names_that_are_not(toy: SourceCatalog, name: str) -> None:
    with pytest.raises(InputError, match="cannot name an experiment"):
        scaffold(name, toy, "toy/tuned", None, "en")
    with pytest.raises(InputError):
        check_name(name)
    assert os.listdir() == []


def test_an_experiment_is_found_by_folder_or_name(toy: SourceCatalog) -> None:
    Path("experiments").mkdir()
    os.chdir("experiments")
    scaffold("deep", toy, "toy/tuned", None, "en")
    os.chdir("..")
    scaffold("exp", toy, "toy/tuned", None, "en")
    Path("link").symlink_to("exp")
    assert experiment_names() == ["deep", "exp", "link"]
    for word, name, label in (("exp", "exp", "exp"), ("deep", "deep", "experiments/deep"), ("./exp", "exp", "exp"), ("exp/", "exp", "exp"),
                              ("experiments/deep", "deep", "experiments/deep"), ("link", "exp", "link"), (str(Path("exp").resolve()), "exp", str(Path("exp").resolve()))):  # fmt: skip
        found = find_experiment(word)
        assert (found.name, found.label) == (name, label) and found.folder.is_absolute()
    os.chdir("exp")
    assert find_experiment(".").name == "exp"


def test_what_is_no_experiment(toy: SourceCatalog) -> None:
    scaffold("exp", toy, "toy/tuned", None, "en")
    Path("folder").mkdir()
    Path("half").mkdir()
    Path("half/config.yaml").write_text("")
    for word, what in (("exq", "there is no experiment `exq`, did you mean `exp`?"), ("zzz", "there is no experiment `zzz`"), ("./exp2/x", "there is no experiment `./exp2/x`"),
                       ("folder", "`folder` is not an experiment"), ("half", "`half` has no recipe.lock.json")):  # fmt: skip
        with pytest.raises(InputError) as caught:
            find_experiment(word)
        assert whats(caught) == [what]


# --- models and data ---


def located(text: str, folder: Path, cache: str = "") -> Any:
    return locate("data.train", Written(text, Mark("f", 1), "data.train"), folder, cache)


def test_paths_belong_to_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir("/")
    folder = tmp_path / "exp"
    for path in (folder / "org/name", tmp_path / "home/data", folder / "a.parquet"):
        path.mkdir(parents=True)
    for text, path in (("a.parquet", folder / "a.parquet"), ("./a.parquet", folder / "a.parquet"), ("../home/data", tmp_path / "home/data"),
                       ("~/data", tmp_path / "home/data"), (str(folder), folder), ("org/name", folder / "org/name")):  # fmt: skip
        found = located(text, folder)
        assert (found.path, found.exists, found.mount, found.missing) == (str(path), True, str(path), "")


@pytest.mark.parametrize(
    "text", ["gone.parquet", "./org/name", "/gone/x", "~/gone", "data/gone.jsonl", "a/b/c"]
)
def test_a_path_that_is_not_there(tmp_path: Path, text: str) -> None:
    found = located(text, tmp_path, str(tmp_path))
    assert not found.exists and found.path and os.path.isabs(found.path)
    assert found.missing == f"data.train does not exist: `{found.path}`"


def test_a_hub_id_without_a_cache(tmp_path: Path) -> None:
    found = located("org/name", tmp_path)
    assert (found.path, found.exists, found.missing) == (
        None,
        False,
        "data.train `org/name` is a Hub id, and the site names no model cache",
    )
    assert located("org/name@main", tmp_path, str(tmp_path)).remedy
