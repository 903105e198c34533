"""`tp catalog`, and what the other commands say where a registry counts: whole outputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.world import REPOSITORY, Expected, Said, World

expected = Expected("catalog")
DAY = 86400
MANIFEST = """\
schema: 1
name: toy/tuned
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: supervised
requires: {core: ">=0.1,<0.2"}
framework:
  kind: toy
  default: 2.0.0
  versions:
    1.0.0: {runtime_id: toy-1.0.0}
    2.0.0: {runtime_id: toy-2.0.0}
launch: {kind: process, entry: {experiment: main.sh}, interpreter: [bash]}
config: {style: flags}
data: {kind: any}
parameters:
  rate: {type: float, range: "(0, 1]", default: 0.1, path: rate, doc: {en: Rate}}
  kind: {type: enum, choices: [a, b], default: a, path: kind, doc: {en: Kind}}
"""

_VARIES = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "<the time of this>",
    r'("published_at"|"checked_at"): \d+': r"\1: <time>",
    r'"checked_seconds_ago": \d': '"checked_seconds_ago": <n>',
    r"owned by root( or uid \d+)*": "owned by <publishers>",
    r"\bprocess \d+": "process <n>",
    r"\(uid \d+\)": "(uid <n>)",
    r"(belongs to uid|writable by gid) \d+": r"\1 <n>",
    r"(?m)(?<=  )[0-9a-f]{16}$": "<16 digits>",
    r"tuneplane 0\.\d+\.\d+": "tuneplane <this>",
}


def steady(said: Said) -> Said:
    """What was said without times and numbers that differ from run to run; widths stay."""
    out, err = said.out, said.err
    for pattern, text in _VARIES.items():
        out, err = re.sub(pattern, text, out), re.sub(pattern, text, err)
    return replace(said, out=out, err=err)


class Shop:
    """A site `here` with a registry and recipes of its own, kept by `admin@login`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registry = world.root / "registry"
        self.recipes = world.root / "recipes"
        (self.recipes / "toy/tuned/starter").mkdir(parents=True)
        (self.recipes / "toy/tuned/recipe.yaml").write_text(MANIFEST)
        (self.recipes / "toy/tuned/starter/main.sh").write_text("echo toy\n")
        self.site()

    def site(self, **changes: Any) -> None:
        folders = {"runs": str(self.world.runs), "registry": str(self.registry)}
        publishers = {"uids": [os.getuid()]}
        self.world.site("here", "local", **{"folders": folders, "publishers": publishers, "recipes": [str(self.recipes)], **changes})  # fmt: skip

    def tp(self, *words: str, **environment: str) -> Said:
        return steady(self.world.tp("--site", "here", *words, **environment))

    def refresh(self) -> None:
        said = self.tp("catalog", "refresh")
        assert (said.code, said.err) == (0, ""), said

    def recipe(self, *changes: tuple[str, str]) -> None:
        """Change the manifest of toy/tuned."""
        file = self.recipes / "toy/tuned/recipe.yaml"
        text = file.read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file.write_text(text)

    def checked(self, ago: int) -> None:
        file = self.registry / "CHECKED"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"at": int(time.time()) - ago}))

    def backdate(self) -> None:
        for file in (self.registry / "serials").iterdir():
            record = json.loads(file.read_text())
            file.write_text(json.dumps(record | {"published_at": record["published_at"] - 61 * DAY}))

    def serials(self) -> list[str]:
        return sorted(file.name for file in (self.registry / "serials").glob("0*.json"))

    def says(self, case: str, *words: str, **environment: str) -> None:
        expected(self.tp(*words, **environment), case, self.world)


@pytest.fixture
def shop(world: World, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr("tuneplane.registry.person.me", lambda: "admin")
    monkeypatch.setattr("tuneplane.registry.person.host", lambda: "login")
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Shop(world)


NO_REGISTRY = {
    "status": ["status"],
    "status as JSON": ["status", "--json"],
    "ls": ["ls"],
    "refresh": ["refresh"],
    "rollback": ["rollback"],
    "gc": ["gc"],
}


@pytest.mark.parametrize("case", NO_REGISTRY)
def test_without_a_registry(world: World, case: str) -> None:
    before = world.tree()
    expected(steady(world.tp("catalog", *NO_REGISTRY[case])), f"no registry: {case}", world)
    assert world.tree() == before


NOTHING = {
    "status": ["catalog", "status"],
    "status as JSON": ["catalog", "status", "--json"],
    "ls": ["catalog", "ls"],
    "rollback": ["catalog", "rollback"],
    "gc": ["catalog", "gc"],
    "methods": ["methods"],
    "new": ["new", "exp", "--method", "toy/tuned"],
}


@pytest.mark.parametrize("state", ["missing", "empty"])
@pytest.mark.parametrize("case", NOTHING)
def test_a_registry_with_nothing_in_it(shop: Shop, state: str, case: str) -> None:
    if state == "empty":
        shop.registry.mkdir()
    before = shop.world.tree()
    shop.says(f"{state}: {case}", *NOTHING[case])
    assert shop.world.tree() == before


def test_refresh(shop: Shop) -> None:
    shop.says("refresh", "catalog", "refresh")
    shop.says("refresh with nothing new", "catalog", "refresh")
    shop.says("refresh with nothing new, asked", "catalog", "refresh", "-v")
    shop.says("refresh with nothing new, as JSON", "catalog", "refresh", "--json")
    shop.recipe(("Rate", "The rate"))
    shop.says("refresh with news, as JSON", "catalog", "refresh", "--json")
    assert shop.serials() == ["00000001.json", "00000002.json"]


LOOKS = {
    "status": ["status"],
    "status as JSON": ["status", "--json"],
    "ls": ["ls"],
    "ls as JSON": ["ls", "--json"],
}


@pytest.mark.parametrize("case", LOOKS)
def test_looking(shop: Shop, case: str) -> None:
    shop.refresh()
    shop.recipe(("Rate", "The rate"))
    shop.refresh()
    before = shop.world.tree()
    shop.says(case, "catalog", *LOOKS[case])
    assert shop.world.tree() == before


def test_rollback_and_cron(shop: Shop) -> None:
    shop.refresh()
    shop.says("rollback of the first", "catalog", "rollback")
    shop.recipe(("Rate", "The rate"))
    shop.refresh()
    shop.says("rollback", "catalog", "rollback")
    assert (
        "Rate" in shop.tp("methods", "toy/tuned").out
        and "The rate" not in shop.tp("methods", "toy/tuned").out
    )
    shop.says("cron after a rollback", "catalog", "refresh")
    shop.says("ls after a rollback", "catalog", "ls")
    assert shop.serials()[-1] == "00000003.json"
    shop.says("refresh by force", "catalog", "refresh", "--force")
    shop.says("rollback to a serial, as JSON", "catalog", "rollback", "1", "--json")
    shop.recipe(("The rate", "Rates"))
    shop.says("cron after a rollback and a change", "catalog", "refresh")
    shop.says("rollback to none", "catalog", "rollback", "99")
    shop.says("rollback to what is in force", "catalog", "rollback", "6")
    shop.says("rollback to no number", "catalog", "rollback", "0")


def test_gc_beside_a_publication_again(shop: Shop) -> None:
    shop.refresh()
    first = shop.tp("catalog", "ls", "--json")
    shop.recipe(("Rate", "The rate"))
    shop.refresh()
    shop.says("gc with nothing old", "catalog", "gc")
    shop.backdate()
    shop.says("gc", "catalog", "gc")
    shop.recipe(("The rate", "Rate"))
    shop.says("refresh of what gc has named", "catalog", "refresh")
    shop.says("gc, the later run", "catalog", "gc")
    shop.says("gc, as JSON", "catalog", "gc", "--json")
    assert shop.tp("new", "exp", "--method", "toy/tuned").code == 0
    said = shop.tp("validate", "exp")
    assert (said.code, said.err) == (0, ""), said
    digest = json.loads(re.sub("<time>", "0", first.out))[0]["digest"]
    folder = shop.registry / "catalogs" / digest
    assert sorted(path.name for path in folder.iterdir()) == ["index.json", "methods", "sites"]
    shop.says("rollback to what gc has removed", "catalog", "rollback", "1")


def test_whatever_is_invalid_is_named_and_nothing_is_published(shop: Shop) -> None:
    shop.refresh()
    before = shop.serials(), (shop.registry / "CHECKED").read_bytes()
    shop.recipe(("Rate", "The rate"))
    shop.world.site("other", "local", default_profile="none:1", keep_published="long")
    shop.world.site(
        "third", "local", freshness={"warn": "2d", "refuse": "30"}, publishers={"uids": [-1], "gid": -2}
    )
    shop.says("invalid site files", "catalog", "refresh")
    for name in ("toy/bad", "toy/worse"):
        (shop.recipes / name).mkdir()
        (shop.recipes / name / "recipe.yaml").write_text("schema: 1\nname: toy/other\nkind: x\n")
    shop.says("invalid site files and manifests", "catalog", "refresh")
    for name in ("other", "third"):
        (shop.world.config / f"tuneplane/sites/{name}.yaml").unlink()
    shop.says("invalid manifests", "catalog", "refresh")
    shop.site(recipes=[str(shop.recipes)], default_time="soon")
    shop.world.site("other", "local", default_profile="none:1")
    shop.says("the site's own file is invalid, too", "catalog", "refresh")
    assert (shop.serials(), (shop.registry / "CHECKED").read_bytes()) == before


def test_a_freshness_that_warns_too_late(shop: Shop) -> None:
    shop.site(freshness={"warn": "2d", "refuse": "1d"})
    shop.says("freshness that warns too late", "catalog", "status")


def test_another_publisher(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuneplane.registry import courtesy as room
    from tuneplane.registry.layout import Registry

    monkeypatch.setattr(room, "WAIT_SECONDS", 0.1)
    shop.refresh()
    shop.recipe(("Rate", "The rate"))
    with room.courtesy(Registry(shop.registry)):
        for words in (["refresh"], ["rollback"], ["gc"]):
            shop.says("another publisher", "catalog", *words)
        shop.says("status with another publisher", "catalog", "status")
        record = shop.registry / "LOCK.holder"
        record.write_text(re.sub(r'"since": \d+', '"since": 1', record.read_text()))
        shop.says("another publisher, long dead", "catalog", "refresh")


@pytest.mark.parametrize("what", ["refuse", "warn"])
def test_freshness(shop: Shop, what: str) -> None:
    shop.refresh()
    assert shop.tp("new", "exp", "--method", "toy/tuned").code == 0
    shop.site(freshness={what: "1d"})
    for words in (["validate", "exp"], ["submit", "exp", "--dry-run"]):
        assert shop.tp(*words).err == ""
    shop.checked(3 * DAY + 3700)
    for words in (["validate", "exp"], ["methods", "--json"], ["catalog", "status"]):
        said = shop.tp(*words)
        if words[0] == "methods":
            said = replace(said, out="")
        expected(said, f"freshness {what}: {words[0]}", shop.world)
    compiled, submitted = shop.tp("compile", "exp"), shop.tp("submit", "exp", "--dry-run")
    validated = shop.tp("validate", "exp")
    assert (
        compiled.err == submitted.err == validated.err and compiled.code == submitted.code == validated.code
    )
    assert bool(compiled.out) == (what == "warn")
    shop.refresh()
    assert shop.tp("validate", "exp").err == ""


def test_a_check_that_nobody_knows_of(shop: Shop) -> None:
    shop.refresh()
    (shop.registry / "CHECKED").unlink()
    shop.site(freshness={"warn": "1d", "refuse": "2d"})
    shop.says("freshness that nobody knows", "catalog", "status")


def spoil(act: Callable[[Path], None], path: str) -> Callable[[Shop], None]:
    return lambda shop: act(shop.registry / path)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def writable(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def shared(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def given_away(path: Path) -> None:
    os.chown(path, 54321, -1)


def damaged(path: Path) -> None:
    target = next(path.glob("catalogs/*/index.json"))
    target.write_bytes(target.read_bytes().replace(b"toy/tuned", b"toy/tuner"))


UNTRUSTED = {
    "writable by everybody": spoil(writable, ""),
    "serials writable by everybody": spoil(writable, "serials"),
    "writable by a group": spoil(shared, "catalogs"),
    "a folder above": spoil(writable, ".."),
    "a link for CURRENT": spoil(linked, "CURRENT"),
    "a link for a serial": spoil(linked, "serials/00000001.json"),
    "a link for serials": spoil(linked, "serials"),
    "a serial writable by everybody": spoil(writable, "serials/00000001.json"),
    "of somebody else": spoil(given_away, ""),
    "a serial of somebody else": spoil(given_away, "serials/00000001.json"),
    "a damaged index": spoil(damaged, ""),
}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tuneplane.registry.reading.PATIENCE_SECONDS", 0.1)
    yield


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("case", UNTRUSTED)
def test_each_refusal_to_believe(shop: Shop, case: str) -> None:
    if "somebody else" in case and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    shop.refresh()
    assert shop.tp("new", "exp", "--method", "toy/tuned").code == 0
    UNTRUSTED[case](shop)
    shop.says(f"untrusted: {case}", "validate", "exp")
    said = shop.tp("validate", "exp")
    assert shop.tp("methods") == shop.tp("compile", "exp") == said == shop.tp("submit", "exp")
    status = shop.tp("catalog", "status")
    assert status.code == 0 and said.err.splitlines()[0].replace("error: ", "warning: ") in status.err
    if "index" not in case:
        refreshed = shop.tp("catalog", "refresh")
        assert refreshed.code == 4 and refreshed.err.splitlines()[0] == said.err.splitlines()[0]
    if case == "a damaged index":
        shop.refresh()
        assert shop.tp("validate", "exp").code == 0


def test_who_is_no_publisher(shop: Shop) -> None:
    shop.refresh()
    shop.site(publishers={"uids": [os.getuid() + 4242]})
    if os.geteuid() != 0:
        for words in (["refresh"], ["rollback"], ["gc"]):
            shop.says("no publisher", "catalog", *words)
    said = shop.tp("methods")
    assert said.code == (4 if os.geteuid() else 0)


def test_another_registry(shop: Shop) -> None:
    """It is named in the warning, the script's header, the command in it, and the run's record."""
    shop.refresh()
    assert shop.tp("new", "exp", "--method", "toy/tuned").code == 0
    other = shop.world.root / "other registry"
    environment = {"TUNEPLANE_REGISTRY": str(other)}
    shop.says("another registry that is not there", "--registry", str(other), "validate", "exp")
    shop.says("another registry that is not there, by the environment", "validate", "exp", **environment)
    assert shop.tp("catalog", "refresh", **environment).code == 0
    shop.says("another registry: validate", "--registry", str(other), "validate", "exp")
    shop.says("another registry: status", "catalog", "status", **environment)
    own, foreign = shop.tp("compile", "exp"), shop.tp("--registry", str(other), "compile", "exp")
    lines = [line for line in foreign.out.splitlines() if line not in own.out.splitlines()]
    assert (own.err, foreign.err) == ("", f"warning: the registry is `{other}`, not the site's\n")
    assert any(
        re.match(rf"#\s+registry\s+{re.escape(str(other))}, which is not the site's", line) for line in lines
    ), lines
    assert any("--registry" in line for line in lines) and "--registry" not in own.out
    assert shop.tp("compile", "exp", **environment) == foreign
    # the site's own, named once more, is no other
    assert shop.tp("--registry", f"{shop.registry}/", "compile", "exp") == own
    run = shop.tp("submit", "exp", **environment).out.strip()
    assert shop.tp("job", "wait", run).code == 0
    admitted = json.loads((shop.world.runs / run / "run.json").read_text())["admitted"]
    serial = json.loads((other / "serials/00000001.json").read_text())
    assert admitted == {"registry": str(other), "serial": 1, "digest": serial["digest"]}


# -- the handshake ------------------------------------------------------------------------------------------


def lock(shop: Shop, **fields: str) -> None:
    file = shop.world.folder / "exp/recipe.lock.json"
    data = json.loads(file.read_text())
    for key, value in fields.items():
        section, _, name = key.partition("_")
        data[section][name] = value
    file.write_text(json.dumps(data, indent=2))


STATES: dict[str, Callable[[Shop], None]] = {
    "current": lambda shop: None,
    "current though texts changed": lambda shop: shop.recipe(("Rate", "The rate")),
    "stale": lambda shop: shop.recipe(("version: 1.0.0", "version: 1.1.0"), ("default: 0.1", "default: 0.2")),
    "deprecated": lambda shop: shop.recipe(("runtime_id: toy-2.0.0", "runtime_id: toy-2.0.0, status: deprecated, sunset: 2031-02-03")),
    "version removed": lambda shop: shop.recipe(("    2.0.0: {runtime_id: toy-2.0.0}\n", ""), ("default: 2.0.0", "default: 1.0.0")),
    "method removed": lambda shop: shutil.rmtree(shop.recipes / "toy/tuned"),
    "unknown method": lambda shop: lock(shop, recipe_name="toy/tunde"),
    "unknown version": lambda shop: lock(shop, framework_version="9.9"),
    "tp too old for the lock": lambda shop: lock(shop, requires_core=">=99.1"),
    "tp too new for the lock": lambda shop: lock(shop, requires_core="<0.0.1"),
    "tp too old for the recipe": lambda shop: shop.recipe(('core: ">=0.1,<0.2"', 'core: ">=99,<100"')),
    "malformed": lambda shop: lock(shop, requires_core="soon"),
    "cut off": lambda shop: (shop.world.folder / "exp/recipe.lock.json").write_text('{"schema": 1,') and None,
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_each_state_of_the_handshake(shop: Shop, state: str) -> None:
    shop.refresh()
    assert shop.tp("new", "exp", "--method", "toy/tuned").code == 0
    STATES[state](shop)
    assert shop.tp("catalog", "refresh").code == 0
    shop.says(f"handshake: {state}", "validate", "exp")
    validated = shop.tp("validate", "exp")
    for words in (["compile", "exp"], ["submit", "exp", "--dry-run"]):
        said = shop.tp(*words)
        assert (said.code, said.err) == (validated.code, validated.err), words


def test_only_what_is_published_is_read(shop: Shop) -> None:
    from cli.test_complete import completed

    shop.refresh()
    before = shop.tp("methods")
    shutil.copytree(shop.recipes / "toy/tuned", shop.recipes / "toy/newest")
    file = shop.recipes / "toy/newest/recipe.yaml"
    file.write_text(file.read_text().replace("name: toy/tuned", "name: toy/newest"))
    (shop.recipes / "toy/tuned/starter/kept.py").write_text("later\n")
    assert (
        shop.tp("methods") == before and completed(shop.world, "tp --site here methods toy/") == "toy/tuned"
    )
    assert shop.tp("methods", "toy/newest").code == 3
    assert shop.tp("new", "early", "--method", "toy/tuned").code == 0
    shop.refresh()
    assert "toy/newest" in shop.tp("methods").out
    assert completed(shop.world, "tp --site here methods toy/") == "toy/newest toy/tuned"
    assert completed(shop.world, f"tp --registry {shop.registry} methods toy/") == "toy/newest toy/tuned"
    shutil.rmtree(shop.recipes)
    assert shop.tp("new", "late", "--method", "toy/tuned").code == 0
    assert not (shop.world.folder / "early/kept.py").exists()
    assert (shop.world.folder / "late/kept.py").read_text() == "later\n"
    assert completed(shop.world, "tp --site here submit late --set k") == "kind="


# -- cron ---------------------------------------------------------------------------------------------------


def crontab() -> str:
    """The command of the one crontab line in the README."""
    found = re.findall(r"(?m)^\*/5 \* \* \* \* (.+)$", (REPOSITORY / "README.md").read_text())
    assert len(found) == 1 and "%" not in found[0], "cron would read % as a newline"
    return str(found[0])


def test_the_crontab_line_as_it_stands(world: World) -> None:
    """As cron runs it: by sh, in the user's home, with next to nothing in the environment."""
    registry = world.root / "registry"
    sites = world.home / ".config/tuneplane/sites"
    sites.mkdir(parents=True)
    folders = {"runs": str(world.runs), "registry": str(registry)}
    world.site("mysite", "local", folders=folders, publishers={"uids": [os.getuid()]}).rename(
        sites / "mysite.yaml"
    )
    tp = world.home / "tuneplane/.venv/bin/tp"
    tp.parent.mkdir(parents=True)
    tp.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m tuneplane "$@"\n')
    tp.chmod(0o755)

    def run() -> tuple[int, str, str]:
        environment = {
            "HOME": str(world.home),
            "LOGNAME": "admin",
            "SHELL": "/bin/sh",
            "PATH": "/usr/bin:/bin",
        }
        done = subprocess.run(["/bin/sh", "-c", crontab()], cwd=world.home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    log = world.home / "tuneplane-refresh.log"
    assert run() == (0, "", "") and run() == (0, "", "")
    [line] = log.read_text().splitlines()
    assert re.fullmatch(r"[-0-9]{10} [:0-9]{8} published serial 1 \(refresh\) sha256:[0-9a-f]{64}", line)
    (sites / "mysite.yaml").write_text("schema: 2\n")
    code, out, err = run()
    assert (code, out) == (6, "") and err.startswith("error: ") and len(log.read_text().splitlines()) == 1
