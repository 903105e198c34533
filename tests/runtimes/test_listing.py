"""The runtime ids of a catalog, a site file and a registry, and the image that a site has for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from builders import site, write_recipe
from registry.images import artifact

from tuneplane.registry.layout import Registry
from tuneplane.registry.refresh import refresh
from tuneplane.registry.shelf import put, retire
from tuneplane.runtimes.listing import Row, listing
from tuneplane.sites.load import NamedSite

MANIFEST = """\
schema: 1
name: toy/tuned
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: supervised
requires: {core: ">=0.1,<0.2"}
framework: {kind: toy, default: 2.0.0, versions: {1.0.0: {runtime_id: toy-1.0.0}, 2.0.0: {runtime_id: toy-2.0.0}, 2.1.0: {runtime_id: toy-2.0.0}}}
launch: {kind: process, entry: {experiment: main.sh}, interpreter: [bash]}
config: {style: argv}
data: {kind: any}
"""


class Here:
    """A site with recipes of its own, with or without a registry."""

    def __init__(self, place: Path) -> None:
        self.place = place
        write_recipe(place / "recipes", MANIFEST)
        self.registry = Registry(place / "registry", frozenset({0, os.getuid()}))

    def named(
        self, kind: str = "apptainer", registry: bool = True, images: Any = None, **fields: Any
    ) -> NamedSite:
        runtime = {"kind": kind, **({"images": images} if images else {})}
        made = site(
            runtime=runtime,
            recipes=[str(self.place / "recipes")],
            publishers={"uids": [os.getuid()]},
            **fields,
        )
        return NamedSite(
            "here", self.place / "here.yaml", "0" * 64, made, self.registry.root if registry else None
        )

    def publish(self) -> None:
        from tuneplane.in_force import source_catalog
        from tuneplane.registry.content import build

        refresh(self.registry, build(source_catalog(self.named()), {}))

    def put(self, word: str, there: bool = True, **fields: Any) -> str:
        path = self.place / word
        if there:
            path.write_text(word)
        put(self.registry, artifact(word, path=str(path), **fields), replace=True)
        return str(path)

    def rows(self, *args: Any, **fields: Any) -> dict[str, Row]:
        return {row.runtime_id: row for row in listing(self.named(*args, **fields))}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_without_a_registry(here: Here, tmp_path: Path) -> None:
    (tmp_path / "one.sif").write_text("x")
    images = {"toy-1.0.0": f"{tmp_path}/one.sif", "toy-2.0.0": f"{tmp_path}/two.sif", "own": "/none"}
    rows = here.rows(registry=False, images=images)
    assert list(rows) == sorted(rows) and {"own", "toy-1.0.0", "toy-2.0.0", "pytorch-2.14.0"} <= set(rows)
    methods = ["toy/tuned 2.0.0", "toy/tuned 2.1.0"]
    assert rows["toy-2.0.0"] == Row(
        "toy-2.0.0", "site file, gone", False, [], f"{tmp_path}/two.sif", "", methods
    )
    assert rows["toy-1.0.0"] == Row("toy-1.0.0", "site file", True, [], f"{tmp_path}/one.sif", "", ["toy/tuned 1.0.0"])  # fmt: skip
    assert rows["own"] == Row("own", "site file, gone", False, [], "/none", "", [])
    assert rows["pytorch-2.14.0"].image == "none"
    assert (rows["toy-2.0.0"].methods_text, rows["own"].methods_text) == ("toy/tuned", "-")


def test_what_is_registered_comes_before_the_site_file(here: Here) -> None:
    here.publish()
    path = here.put("a", python="3.12.4")
    gone = here.put("b", there=False, runtime_id="toy-1.0.0")
    here.put("c", runtime_id="extra+1")
    rows = here.rows(images={"toy-2.0.0": "/none"})
    assert rows["toy-2.0.0"] == Row(
        "toy-2.0.0",
        "sif-x86_64",
        True,
        ["sif-x86_64"],
        path,
        "3.12.4",
        ["toy/tuned 2.0.0", "toy/tuned 2.1.0"],
    )
    assert (rows["toy-1.0.0"].image, rows["toy-1.0.0"].usable) == ("sif-x86_64, its file is gone", False)
    assert rows["toy-1.0.0"].path == gone and rows["extra+1"].methods == []


def test_the_image_is_one_that_the_site_starts(here: Here) -> None:
    here.publish()
    here.put("a")
    squash = here.put("b", format="sqsh")
    arm = here.put("c", arch="aarch64")
    slots = ["sif-aarch64", "sif-x86_64", "sqsh-x86_64"]
    assert (here.rows()["toy-2.0.0"].image, here.rows()["toy-2.0.0"].slots) == ("sif-x86_64", slots)
    assert here.rows("pyxis")["toy-2.0.0"].path == here.rows("enroot")["toy-2.0.0"].path == squash
    profiles = {"gh": {"cpus_per_node": 1, "arch": "aarch64"}}
    assert here.rows(profiles=profiles)["toy-2.0.0"].path == arm
    row = here.rows("enroot", profiles=profiles)["toy-2.0.0"]
    assert (row.image, row.usable, row.path) == (f"none, only {', '.join(slots)}", False, "")
    host = here.rows("host")["toy-2.0.0"]
    assert (host.image, host.usable, host.slots) == ("none: this site runs on the host", False, slots)


def test_what_is_retired_is_not_in_use(here: Here) -> None:
    here.publish()
    here.put("a", runtime_id="extra")
    retire(here.registry, "extra", "sif-x86_64")
    assert here.rows()["extra"] == Row("extra", "none", False)
