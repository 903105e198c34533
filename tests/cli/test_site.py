"""`tp site`, and how a site is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.world import REPOSITORY, Expected, World

import tuneplane.sites.load as loading

expected = Expected("site")

CASES = {
    "ls": ["site", "ls"],
    "ls in Chinese": ["site", "ls", "--lang", "zh"],
    "ls as JSON": ["site", "ls", "--json"],
    "show": ["site", "show"],
    "show a name": ["site", "show", "slurm-apptainer"],
    "show in Chinese": ["site", "show", "slurm-modules", "--lang", "zh"],
    "show as JSON": ["site", "show", "slurm-modules", "--json"],
    "show what --site names": ["--site", "slurm-modules", "site", "show"],
    "show a file": ["site", "show", str(REPOSITORY / "site-configs/local.yaml")],
    "unknown": ["site", "show", "locl"],
    "unknown like none": ["--site", "zzz", "methods"],
    "no such file": ["--site", "./none.yaml", "methods"],
}


@pytest.fixture(autouse=True)
def no_admin(monkeypatch: pytest.MonkeyPatch, world: World) -> Path:
    """The admin's folder of this machine, replaced."""
    folder = world.root / "admin"
    usual = loading.site_folders
    monkeypatch.setattr(loading, "site_folders", lambda: [folder, *usual()[1:]])
    return folder


@pytest.mark.parametrize("name", CASES)
def test_site(world: World, name: str) -> None:
    expected(world.tp(*CASES[name]), name, world)


def test_a_name_wins_over_the_option_and_the_option_over_the_environment(world: World) -> None:
    named = world.tp("--site", "local", "site", "show", "slurm-modules", "--json", TUNEPLANE_SITE="nowhere")
    assert json.loads(named.out)["site"] == "slurm-modules"
    option = world.tp("--site", "local", "site", "show", "--json", TUNEPLANE_SITE="nowhere")
    assert json.loads(option.out)["site"] == "local"
    variable = world.tp("site", "show", "--json", TUNEPLANE_SITE="slurm-apptainer")
    assert json.loads(variable.out)["site"] == "slurm-apptainer"


def test_the_users_site_wins_over_the_bundled_of_the_same_name(world: World) -> None:
    file = world.site("slurm-modules", "slurm-modules", title={"en": "Ours"})
    found = json.loads(world.tp("site", "show", "slurm-modules", "--json").out)
    assert (found["file"], found["title"]["en"]) == (str(file), "Ours")


def test_the_admins_only_site_is_the_default(world: World, no_admin: Path) -> None:
    no_admin.mkdir()
    source = REPOSITORY / "site-configs/slurm-modules.yaml"
    (no_admin / "cluster.yaml").write_bytes(source.read_bytes())
    assert json.loads(world.tp("site", "show", "--json").out)["site"] == "cluster"
    (no_admin / "second.yaml").write_bytes(source.read_bytes())
    expected(world.tp("methods"), "two sites of the admin", world)


BROKEN = {
    "not YAML": "a: [\n",
    "shape": "schema: 1\ntitel: {en: x}\nscheduler: pbs\nprofiles: {a: {cpus_per_node: many, gpus: 1}}\n",
    "values": (
        "schema: 1\ntitle: {en: x}\nscheduler: local\nruntime: {kind: host}\n"
        "folders: {runs: runs, scratch: ~/s, model_cache: m, secrets: s}\n"
        "slurm: {options: {gres: {}, acount: {}}, add: {array: 1, Foo: 2}}\n"
        "environment: {A-B: x}\npath: [bin]\n"
        "profiles: {1a: {cpus_per_node: 0, gpus_per_node: -1, max_time: '90', memory: lots}}\n"
        "default_profile: b\ndefault_time: 1:30\n"
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_site_file(world: World, name: str) -> None:
    file = world.config / "tuneplane/sites/broken.yaml"
    file.write_text(BROKEN[name])
    expected(world.tp("--site", "broken", "methods"), f"broken: {name}", world)
    assert world.tp("site", "show", "broken") == world.tp("--site", "broken", "site", "show")
    listed = world.tp("site", "ls")
    assert listed.code == 0 and listed.out == world.tp("site", "ls").out
    expected(listed, f"ls with a broken one: {name}", world)
