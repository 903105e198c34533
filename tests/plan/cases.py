"""A recipe that has everything, and plans of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from builders import catalog, config, site, write_recipe

from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.errors import TuneplaneError
from tuneplane.plan.build import make_plan
from tuneplane.plan.inputs import Inputs, Request
from tuneplane.plan.model import Image, Plan

RECIPE = """\
schema: 1
name: toy/tuned
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: supervised
requires: {core: ">=0.1,<0.2"}
framework: {kind: toy, default: 2.0.0, versions: {2.0.0: {runtime_id: toy-2.0.0}}}
launch: {kind: torchrun, entry: {experiment: main.py}, words: true}
config: {style: flags}
data: {kind: any, train: optional, validation: none}
model: optional
pinned: {trainer.algorithm: ppo}
owned: {trainer.nodes: {by: "--profile NAME:N"}}
environment: {TOY_MODE: recipe, OMP_NUM_THREADS: "3"}
parameters:
  rate: {type: float, range: "(0, 1]", default: 0.1, path: learning-rate, alias: lr, doc: {en: Rate}}
  steps: {type: int, range: "[1, inf)", path: steps, doc: {en: Steps}}
  fast: {type: bool, default: false, path: fast, doc: {en: Fast}}
  note: {type: str, path: note, doc: {en: Note}}
  kind: {type: enum, choices: [a, b], default: a, path: kind, doc: {en: Kind}}
  warmup: {type: duration, default: 90m, path: warmup, doc: {en: Warmup}}
  extra: {type: path, path: extra, doc: {en: Extra}}
  sizes: {type: list, items: int, default: [1, 2], path: sizes, doc: {en: Sizes}}
  words: {type: list, items: str, path: words, doc: {en: Words}}
rules:
  - {require: steps is none or steps % world_size == 0, message: {en: steps must be a multiple of the processes, zh: 步数}}
"""
FILES = (
    "main.py",
    "config.yaml",
    "recipe.lock.json",
    "conf/a.yaml",
    "conf/deep/b.yaml",
    "conf-extra.txt",
    "-odd",
)


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe with a parameter of each kind."""
    root = tmp_path_factory.mktemp("recipes")
    write_recipe(root, RECIPE)
    return resolve(catalog(root).manifest("toy/tuned"))


def inputs(recipe: Recipe, text: str = "", request: Request | None = None, **over: Any) -> Inputs:
    request = request or Request()
    made = Inputs(
        experiment="exp",
        experiment_dir="/home/u/exp",
        config=request.written(config(text)),
        recipe=recipe,
        site_name="s",
        site_digest="5" * 64,
        site=site(),
        request=request,
        located={},
        image=Image("/images/toy.sif", "toy-2.0.0", "site image", "1" * 64, 1),
        has_file=frozenset(FILES),
        files_digest="f" * 64,
        helper_digest="e" * 64,
        config_name="exp/config.yaml",
    )
    return dataclasses.replace(made, **over)


def plan(recipe: Recipe, text: str = "", request: Request | None = None, **over: Any) -> Plan:
    return make_plan(inputs(recipe, text, request, **over))


def refused(
    recipe: Recipe, text: str = "", request: Request | None = None, **over: Any
) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and (what, where) of each problem."""
    with pytest.raises(TuneplaneError) as caught:
        plan(recipe, text, request, **over)
    return caught.value.exit_code, [(problem.what, problem.where) for problem in caught.value.problems]
