"""A site with a registry of images, kept by `admin@login`, for the tests of several rooms."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.world import Said, World
from image_files import sif
from pretend_apptainer import Pretender

ID = "toy-2.0.0"
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
    2.0.0: {runtime_id: toy-2.0.0, requires: [torch==2.14.0]}
launch: {kind: process, entry: {experiment: main.sh}, interpreter: [bash]}
config: {style: flags}
data: {kind: any}
"""
_VARIES = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "<the time of this>",
    r'("mtime"|"inode"|"ctime_ns"|"mtime_ns"|"registered_at"|"at"): \d+': r"\1: <n>",
    r'("host"|"mount"): ".*"': r"\1: <here>",
    r"owned by root( or uid \d+)*": "owned by <publishers>",
    r"(belongs to uid|writable by gid) \d+": r"\1 <n>",
    r"--arch (x86_64|aarch64)\b": "--arch <this>",
}


def steady(said: Said) -> Said:
    """What was said without times and numbers that differ from run to run; widths stay."""
    out, err = said.out, said.err
    for pattern, text in _VARIES.items():
        out, err = re.sub(pattern, text, out), re.sub(pattern, text, err)
    return replace(said, out=out, err=err)


class Shop:
    """A site `here` with a registry, recipes, and an `apptainer` that starts nothing; kept by `admin@login`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registry = world.root / "registry"
        self.images = world.root / "images"
        self.images.mkdir()
        self.recipes = world.root / "recipes"
        (self.recipes / "toy/tuned/starter").mkdir(parents=True)
        (self.recipes / "toy/tuned/recipe.yaml").write_text(MANIFEST)
        (self.recipes / "toy/tuned/starter/main.sh").write_text("echo toy\n")
        self.apptainer = Pretender(world.root / "bin")
        self.site()

    def site(self, name: str = "here", kind: str = "apptainer", **changes: Any) -> None:
        runtime = {
            "kind": kind,
            "apptainer": str(self.apptainer.path),
            "enroot": "/no/enroot",
            **changes.pop("runtime", {}),
        }
        folders = {"runs": str(self.world.runs), "registry": str(self.registry)}
        said = {
            "runtime": runtime,
            "folders": folders,
            "publishers": {"uids": [os.getuid()]},
            "recipes": [str(self.recipes)],
            "inherit": [],
        }
        self.world.site(name, "local", **{**said, **changes})

    def image(self, name: str, data: bytes | None = None) -> Path:
        """An image of long ago, so that a later one has another time."""
        file = self.images / name
        file.write_bytes(sif(name.encode()) if data is None else data)
        os.utime(file, ns=(10**18, 10**18))
        return file

    def tp(self, *words: str, site: str = "here", **environment: str) -> Said:
        return steady(self.world.tp("--site", site, *words, **environment))

    def register(
        self, name: str = "toy.sif", *more: str, runtime_id: str = ID, data: bytes | None = None
    ) -> Path:
        """An image that is registered."""
        file = self.image(name, data)
        said = self.tp("runtime", "register", runtime_id, str(file), *more)
        assert said.code == 0, said
        return file

    def holds(self, python: str, **packages: str) -> None:
        text = json.dumps([python, "x86_64", packages])
        (self.apptainer.place / "holds").write_text(f"tuneplane-holds:{text}\n")

    def records(self, runtime_id: str = ID) -> list[str]:
        folder = self.registry / "artifacts" / runtime_id
        return sorted(file.name for file in folder.iterdir()) if folder.exists() else []
