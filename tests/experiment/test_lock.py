"""The lock: what it says, and the handshake with the catalog in force."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, problems_of, replaced, whats, write_recipe

from tuneplane.catalog.recipe import resolve
from tuneplane.errors import LockError
from tuneplane.experiment.locate import Experiment
from tuneplane.experiment.lock import Lock, admit, lock_text, read_lock

EXPERIMENT = Experiment("my exp", Path("/x/my exp"), "experiments/my exp")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_recipe(tmp_path)
    return tmp_path


def locked(root: Path, version: str | None = None) -> Lock:
    text = lock_text(resolve(catalog(root).manifest("toy/tuned"), version))
    return read_lock(text.encode(), "my exp/recipe.lock.json")


def test_what_a_lock_says(root: Path) -> None:
    recipe = resolve(catalog(root).manifest("toy/tuned"))
    text = lock_text(recipe)
    assert json.loads(text) == {
        "schema": 1,
        "recipe": {"name": "toy/tuned", "version": "1.0.0", "digest": recipe.digest},
        "framework": {"kind": "toy", "version": "2.0.0", "runtime_id": "toy-2.0.0"},
        "requires": {"core": ">=0.1,<0.2"},
    }
    assert text == lock_text(recipe) and text.endswith("}\n") and text.isascii()
    lock = locked(root)
    assert (lock.method, lock.framework_version, lock.digest) == ("toy/tuned", "2.0.0", recipe.digest)


def test_a_current_lock_is_admitted(root: Path) -> None:
    assert admit(locked(root), catalog(root), EXPERIMENT) == resolve(catalog(root).manifest("toy/tuned"))


@pytest.mark.parametrize(
    "pairs",
    [[("title: {en: Toy}", "title: {en: Other}")], [("{runtime_id: toy-2.0.0}", "{runtime_id: toy-2.0.0}\n    3.0.0: {}"), ("default: 2.0.0", "default: 3.0.0")],
     [("2.0.0: {runtime_id", "2.0.0: {status: deprecated, sunset: 2030-01-01, runtime_id")]],
)  # fmt: skip
def test_a_lock_stays_current(root: Path, pairs: list[tuple[str, str]]) -> None:
    lock = locked(root)
    write_recipe(root, replaced(MANIFEST, *pairs))
    assert admit(lock, catalog(root), EXPERIMENT).framework_version == "2.0.0"


def test_a_stale_lock_names_each_difference_and_the_command(root: Path) -> None:
    lock = locked(root)
    write_recipe(root, replaced(MANIFEST, ("version: 1.0.0", "version: 1.1.0"), ("toy-2.0.0}", "toy-2.0.1}")))
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    problems = problems_of(caught)
    assert [(p.where, p.expected) for p in problems if "digest" not in p.where] == [
        ("my exp/recipe.lock.json recipe.version", "`1.1.0`"), ("my exp/recipe.lock.json framework.runtime_id", "`toy-2.0.1`")]  # fmt: skip
    assert problems[0].what == "the lock is stale: recipe.version is `1.0.0`" and len(problems) == 3
    assert {tuple(shlex.split(p.hint)) for p in problems} == {
        ("tp", "new", "my exp-2", "--from", "experiments/my exp")
    }
    assert caught.value.exit_code == 4


def test_what_is_no_more_in_the_catalog(root: Path) -> None:
    lock = locked(root)
    write_recipe(root, MANIFEST.replace("2.0.0", "3.0.0"))
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    assert whats(caught) == ["toy/tuned has no framework version `2.0.0` any more"]
    assert shlex.split(problems_of(caught)[0].hint)[-2:] == ["--framework-version", "3.0.0"]
    (root / "toy/tuned/recipe.yaml").unlink()
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    assert whats(caught) == ["the method `toy/tuned` is not in the catalog"]


@pytest.mark.parametrize(
    ("core", "what"),
    [(">=99", "the lock needs tuneplane >=99, this is "), ("soon", "soon is not a list of versions")],
)
def test_a_lock_of_another_tp(root: Path, core: str, what: str) -> None:
    lock = locked(root)
    with pytest.raises(LockError) as caught:
        admit(Lock({**lock.fields, "requires.core": core}, lock.name), catalog(root), EXPERIMENT)
    assert (
        whats(caught)[0].startswith(what)
        and problems_of(caught)[0].where == "my exp/recipe.lock.json requires.core"
    )


def broken(change: Any) -> bytes:
    data: dict[str, Any] = {"schema": 1, "recipe": {"name": "a", "version": "b", "digest": "c"},
                            "framework": {"kind": "d", "version": "e", "runtime_id": "f"}, "requires": {"core": ">=0"}}  # fmt: skip
    change(data)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("content", "what"),
    [(broken(lambda d: d.update(schema=2)), "the lock has schema `2`"), (broken(lambda d: d.pop("schema")), "the lock has no `schema`"),
     (broken(lambda d: d["recipe"].pop("digest")), "the lock has no text for `recipe.digest`"), (broken(lambda d: d["recipe"].update(digest=1)), "the lock has no text for `recipe.digest`"),
     (broken(lambda d: d.update(recipe=3)), "the lock has no text for `recipe.name`, `recipe.version`, `recipe.digest`"), (broken(lambda d: d.pop("requires")), "the lock has no text for `requires.core`"),
     (b"", "the lock has no `schema`"), (b"[]", "the document is not a mapping"), (b'{"schema": 1,', None), (b"\xff", "the file is not UTF-8 text"),
     (b'{"schema": 0x' + b"f" * 5000 + b"}", None), (b'{"schema": 1, "schema": 1}', None)],
)  # fmt: skip
def test_a_malformed_lock(content: bytes, what: str | None) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(content, "my exp/recipe.lock.json")
    (problem,) = problems_of(caught)
    assert what is None or problem.what == what
    assert problem.where.startswith("my exp/recipe.lock.json")
