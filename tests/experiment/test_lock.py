"""The lock: what it says, and the handshake with the catalog in force."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, problems_of, replaced, whats, write_recipe

from tuneplane import __version__
from tuneplane.catalog.recipe import resolve
from tuneplane.errors import LockError
from tuneplane.experiment.locate import Experiment
from tuneplane.experiment.lock import Lock, admit, deprecation, lock_text, read_lock

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
        ("tp", "recipe", "upgrade", "experiments/my exp")
    }
    assert caught.value.exit_code == 4


def test_what_is_no_more_in_the_catalog(root: Path) -> None:
    lock = locked(root)
    write_recipe(root, MANIFEST.replace("2.0.0", "3.0.0"))
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    assert whats(caught) == ["the framework version `2.0.0` of toy/tuned is not in the catalog"]
    assert shlex.split(problems_of(caught)[0].hint)[1:] == [
        "recipe",
        "upgrade",
        "experiments/my exp",
        "--framework-version",
        "3.0.0",
    ]
    (root / "toy/tuned/recipe.yaml").unlink()
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    assert whats(caught) == ["the method `toy/tuned` is not in the catalog"]


class Shelf:
    """A catalog with a past: what some of its earlier serials had, by method and by method and version."""

    def __init__(self, root: Path, past: dict[str, int]) -> None:
        self.catalog, self.past = catalog(root), past
        self.origin = {"registry": "/registry", "serial": 9, "digest": "0" * 64}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)

    def last_serial(self, method: str, framework_version: str = "") -> int | None:
        return self.past.get(f"{method} {framework_version}".strip())


@pytest.mark.parametrize(
    ("past", "method", "version"),
    [
        ({}, "is unknown here: no serial of the registry has it", "is unknown here: no serial of the registry has it"),
        ({"toy/gone": 4, "toy/tuned 1.0.0": 7}, "has been removed: serial 4 was the last that had it", "has been removed: serial 7 was the last that had it"),
    ],
)  # fmt: skip
def test_what_was_published_once_and_what_never_was(
    root: Path, past: dict[str, int], method: str, version: str
) -> None:
    shelf: Any = Shelf(root, past)
    lock = locked(root)
    for field, value, what, command in (
        ("recipe.name", "toy/gone", f"the method `toy/gone` {method}", ["tp", "methods"]),
        ("framework.version", "1.0.0", f"the framework version `1.0.0` of toy/tuned {version}",
         ["tp", "recipe", "upgrade", "experiments/my exp", "--framework-version", "2.0.0"]),
    ):  # fmt: skip
        with pytest.raises(LockError) as caught:
            admit(Lock({**lock.fields, field: value}, lock.name), shelf, EXPERIMENT)
        [problem] = problems_of(caught)
        assert (problem.what, shlex.split(problem.hint)) == (what, command)


UPGRADE = ["tp", "recipe", "upgrade", "experiments/my exp"]


@pytest.mark.parametrize(
    ("core", "what", "command"),
    [(">=99", f"tuneplane {__version__} is too old: the lock needs >=99", ["pip", "install", "tuneplane>=99"]),
     (">=0.1, >0.9,<2", f"tuneplane {__version__} is too old: the lock needs >=0.1, >0.9,<2", ["pip", "install", "tuneplane>=0.1, >0.9,<2"]),
     (">=0.0.1,<0.1", f"tuneplane {__version__} is too new: the lock needs >=0.0.1,<0.1", UPGRADE), ("==0.0.1", f"tuneplane {__version__} is too new: the lock needs ==0.0.1", UPGRADE),
     ("soon", "`soon` is not a list of versions", UPGRADE), ("", '`""` is not a list of versions', UPGRADE)],
)  # fmt: skip
def test_a_lock_of_another_tp(root: Path, core: str, what: str, command: list[str]) -> None:
    lock = locked(root)
    with pytest.raises(LockError) as caught:
        admit(Lock({**lock.fields, "requires.core": core}, lock.name), catalog(root), EXPERIMENT)
    [problem] = problems_of(caught)
    assert (problem.what, shlex.split(problem.hint)) == (what, command)
    assert problem.where == "my exp/recipe.lock.json requires.core"


@pytest.mark.parametrize(("core", "age"), [(">=99", "old"), ("<0.0.1", "new")])
def test_a_recipe_of_another_tp(root: Path, core: str, age: str) -> None:
    """No upgrade of the lock would help: it takes another tp."""
    lock = locked(root)
    write_recipe(root, replaced(MANIFEST, ('">=0.1,<0.2"', f'"{core}"')))
    with pytest.raises(LockError) as caught:
        admit(lock, catalog(root), EXPERIMENT)
    [problem] = problems_of(caught)
    assert problem.what == f"tuneplane {__version__} is too {age}: the recipe needs {core}"
    assert problem.hint == f"pip install 'tuneplane{core}'"


def test_a_deprecated_version_is_admitted_and_says_until_when(root: Path) -> None:
    lock = locked(root)
    assert deprecation(admit(lock, catalog(root), EXPERIMENT), EXPERIMENT) == []
    write_recipe(root, replaced(MANIFEST, ("2.0.0: {runtime_id", "2.0.0: {status: deprecated, sunset: 2030-01-01, runtime_id")))  # fmt: skip
    assert deprecation(admit(lock, catalog(root), EXPERIMENT), EXPERIMENT) == [
        "toy/tuned on toy 2.0.0 is deprecated and goes on 2030-01-01; `tp methods toy/tuned` shows the versions V that "
        "stay, `tp recipe upgrade 'experiments/my exp' --framework-version V` moves to one"
    ]


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
