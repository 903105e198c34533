"""Pools: which nodes a run takes for which roles, and what Slurm is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import catalog, config, replaced, site, write_recipe
from plan.cases import RECIPE, plan, refused

from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.errors import InputError, SiteError, TuneplaneError
from tuneplane.plan.command import Command
from tuneplane.plan.inputs import Request
from tuneplane.sites.model import Site

LAUNCH = """\
launch:
  kind: ray
  entry: {experiment: main.py}
  words: true
  roles: [actor, rollout]
  pools:
    teacher: {roles: [teacher], need: optional}
    judge: {roles: [judge, scorer], server: {words: [serve, "--at={host}:{port}"], ready: /ready, timeout: 10m}}
"""
RULE = "  - {require: teacher_gpus_per_node <= gpus_per_node, message: {en: the teacher is too big}}\n"


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    root = tmp_path_factory.mktemp("pooled")
    line = "launch: {kind: torchrun, entry: {experiment: main.py}, words: true}\n"
    write_recipe(root, replaced(RECIPE, (line, LAUNCH)) + RULE)
    return resolve(catalog(root).manifest("toy/tuned"))


def here(**more: Any) -> Site:
    profiles = {
        "h200": {"gpus_per_node": 8, "cpus_per_node": 96, "gpu_type": "h200"},
        "l4": {"gpus_per_node": 4, "cpus_per_node": 16, "gpu_type": "l4", "partition": "small", "memory_per_gpu": "10G"},
        "arm": {"cpus_per_node": 8, "arch": "aarch64"},
        "cpu": {"cpus_per_node": 8, "exclusive": "never"},
    }  # fmt: skip
    return site(**{"profiles": profiles, "default_profile": "h200:8"} | more)


def pools(recipe: Recipe, text: str, *pools: str, **more: Any) -> list[tuple[str, str, int]]:
    request = Request(pools=tuple(tuple(item.split("=")) for item in pools))  # type: ignore[misc]
    found = plan(recipe, text, request, site=here(**more))
    return [(pool.name, pool.topology.profile, pool.topology.nodes) for pool in found.pools]


BOTH = "resources: {pools: {'rollout, actor': h200:16, judge: h200:8}}"


def test_the_order_is_the_manifest_s_and_the_launch_comes_first(pooled: Recipe) -> None:
    text = "resources: {pools: {scorer: h200:8, teacher: l4:4, actor: h200:16}}"
    expected = [("trainer", "h200:16", 2), ("teacher", "l4:4", 1), ("judge", "h200:8", 1)]
    assert pools(pooled, text) == expected
    assert pools(pooled, "resources: {profile: h200:16, pools: {judge: h200:8, teacher: l4}}") == expected


def test_the_command_line_stands_over_the_file(pooled: Recipe) -> None:
    assert pools(pooled, BOTH, "judge=l4:2", "trainer=h200:32") == [("trainer", "h200:32", 4), ("judge", "l4:2", 1)]  # fmt: skip
    words = ("tp", "--site", "s", "compile", "/e", "--profile", "h200:8", "--profile", "a,b=l4:1")
    read = Command.read(words)
    assert read.request == Request(profile="h200:8", pools=(("a,b", "l4:1"),)) and read.words() == words


REFUSALS = [
    ("resources: {pools: {actor: h200:8}}", InputError, "toy/tuned needs nodes for `judge`"),
    ("resources: {pools: {judge: h200:8, teecher: h200:8}}", InputError, "toy/tuned has no role `teecher`"),
    ("resources: {pools: {'judge,actor': h200:8}}", InputError, "`judge,actor` are roles of different nodes"),
    ("resources: {pools: {judge: h200:8, scorer: h200:8}}", InputError, "the nodes of `judge` are asked for twice"),
    ("resources: {profile: l4, pools: {judge: h200:8, actor: h200:8}}", InputError, "the nodes of `trainer` are asked for twice"),
    ("resources: {pools: {judge: h300:8}}", SiteError, "there is no profile `h300`, did you mean `h200`?"),
    ("resources: {pools: {judge: arm}}", SiteError, "nodes of aarch64 and x86_64 cannot start one image"),
    ("resources: {profile: l4, pools: {judge: l4, teacher: h200:8}}", InputError, "the teacher is too big"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "what"), REFUSALS)
def test_pools_that_cannot_be(pooled: Recipe, text: str, kind: type[TuneplaneError], what: str) -> None:
    code, problems = refused(pooled, text, site=here())
    assert code == kind.exit_code and what in [problem for problem, _ in problems]


@pytest.mark.parametrize("value", ["h200:8", "[judge]", "{judge: [h200]}"])
def test_pools_of_another_shape(value: str) -> None:
    with pytest.raises(InputError):
        config(f"resources: {{pools: {value}}}")


def test_a_local_site_and_pyxis(pooled: Recipe) -> None:
    text = "resources: {pools: {judge: l4}}"
    local = refused(pooled, text, site=here(scheduler="local", runtime={"kind": "host"}), image=None)
    assert [what for what, _ in local[1]] == ["`2 pools` is 2 nodes"]
    pyxis = refused(pooled, text, site=here(runtime={"kind": "pyxis"}))
    expected = "one step of pyxis cannot start containers on different kinds of nodes"
    assert [what for what, _ in pyxis[1]] == [expected]


def components(recipe: Recipe, text: str) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = [{}]
    for line in plan(recipe, text, site=here()).directives:
        if line.name == "hetjob":
            found.append({})
        else:
            assert line.name not in found[-1]
            found[-1][line.name] = line.value
    return found


def test_like_nodes_are_one_component_and_others_each_their_own(pooled: Recipe) -> None:
    (one,) = components(pooled, BOTH)
    assert (one["nodes"], one["gres"]) == ("3", "gpu:h200:8")
    text = "resources: {time: 90m, pools: {actor: h200:16, teacher: h200:8, judge: l4:2}}"
    first, second = components(pooled, text)
    assert (first["nodes"], first["gres"], "partition" in first) == ("3", "gpu:h200:8", False)
    assert {name: second[name] for name in ("nodes", "gres", "partition", "mem", "time")} == {
        "nodes": "1", "gres": "gpu:l4:2", "partition": "small", "mem": "20G", "time": "0-01:30:00",
    }  # fmt: skip
    assert first.keys() - second.keys() == {"exclusive"} and second["export"] == "NIL"


def test_what_the_supervisors_and_the_command_hear(pooled: Recipe) -> None:
    found = plan(pooled, "resources: {pools: {judge: l4:2, teacher: l4:4}}", site=here())
    options = dict(found.launch)
    assert (options["--kind"], options["--nodes"], options["--gpus"]) == ("ray", "3", "8")
    serving = {"words": ["serve", "--at={host}:{port}"], "ready": "/ready", "timeout": 600}
    assert json.loads(options["--pools"]) == [
        {"name": "trainer", "nodes": 1, "cpus": 96, "gpus": 8, "processes": 8},
        {"name": "teacher", "nodes": 1, "cpus": 16, "gpus": 4, "processes": 4},
        {"name": "judge", "nodes": 1, "cpus": 8, "gpus": 2, "processes": 2, "server": serving},
    ]
    variables = {variable.name: variable.value for variable in found.environment}
    assert (variables["TUNEPLANE_NODES"], variables["TUNEPLANE_GPUS_PER_NODE"]) == ("3", "8")
    assert (variables["TUNEPLANE_POOL_JUDGE_NODES"], variables["TUNEPLANE_POOL_JUDGE_GPUS_PER_NODE"]) == ("1", "2")  # fmt: skip
