"""From `NAME[:N]` to nodes, GPUs, processes, memory, directives."""

from __future__ import annotations

from typing import Any

import pytest
from builders import problems_of, site
from hypothesis import given, settings
from hypothesis import strategies as st
from plan.cases import plan, refused

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import SiteError
from tuneplane.plan.inputs import Request
from tuneplane.plan.model import Topology
from tuneplane.plan.topology import topology
from tuneplane.sites.model import Site

H200 = {
    "gpus_per_node": 8,
    "gpu_type": "h200",
    "cpus_per_node": 96,
    "memory_per_gpu": "200G",
    "max_nodes": 4,
    "max_time": "2d",
}
CPU = {
    "cpus_per_node": 32,
    "processes_per_node": 4,
    "memory": "64G",
    "exclusive": "never",
    "partition": "cpu",
    "constraint": "avx",
}


def profiled(**profiles: Any) -> Site:
    first = next(iter(profiles))
    return site(profiles=profiles, default_profile=first)


def made(text: str, **changes: Any) -> Topology:
    return topology(
        profiled(h200={**H200, **changes}, cpu={**CPU, **changes} if "gpus_per_node" not in changes else CPU),
        text,
    )


@pytest.mark.parametrize(
    ("text", "nodes", "gpus", "processes", "cpus", "memory", "exclusive"),
    [("h200:1", 1, 1, 1, 12, "200G", False), ("h200:3", 1, 3, 3, 36, "600G", False), ("h200:7", 1, 7, 7, 84, "1400G", False),
     ("h200:8", 1, 8, 8, 96, "0", True), ("h200", 1, 8, 8, 96, "0", True), ("h200:16", 2, 8, 8, 96, "0", True), ("h200:32", 4, 8, 8, 96, "0", True),
     ("cpu", 1, 0, 4, 32, "64G", False), ("cpu:3", 3, 0, 4, 32, "64G", False)],
)  # fmt: skip
def test_arithmetic(
    text: str, nodes: int, gpus: int, processes: int, cpus: int, memory: str, exclusive: bool
) -> None:
    found = made(text)
    assert (found.nodes, found.gpus_per_node, found.processes_per_node, found.cpus_per_node) == (
        nodes,
        gpus,
        processes,
        cpus,
    )
    assert (found.memory, found.exclusive, found.world_size) == (memory, exclusive, nodes * processes)
    assert found.cpus_per_process == cpus // processes
    assert found.profile == text if ":" in text else f"{text}:{max(1, gpus)}"


@given(st.integers(1, 16), st.integers(1, 200), st.integers(1, 400))
@settings(max_examples=200)
def test_whole_nodes_or_a_part_of_one(size: int, count: int, cpus: int) -> None:
    here = profiled(g={"gpus_per_node": size, "cpus_per_node": cpus})
    try:
        found = topology(here, f"g:{count}")
    except SiteError as error:
        assert count > size and count % size
        (problem,) = error.problems
        lower, upper = count - count % size, count - count % size + size
        assert (
            problem.what == f"{count} GPUs are no whole number of nodes"
            and problem.hint == f"`g:{lower}` or `g:{upper}`"
        )
        return
    assert found.nodes * found.gpus_per_node == count == found.world_size
    assert found.gpus_per_node == size if count >= size else found.nodes == 1
    assert 1 <= found.cpus_per_node <= cpus and found.cpus_per_node * size <= max(
        size, cpus * found.gpus_per_node
    )
    assert found.exclusive == (count >= size)


@pytest.mark.parametrize(
    ("exclusive", "text", "expected"),
    [("whole-nodes", "h200:4", (False, "800G")), ("whole-nodes", "h200:8", (True, "0")), ("always", "h200:4", (True, "0")), ("always", "h200:8", (True, "0")),
     ("never", "h200:4", (False, "800G")), ("never", "h200:8", (False, "1600G")), ("never", "h200:16", (False, "1600G")),
     ("never", "cpu", (False, "64G")), ("whole-nodes", "cpu:2", (True, "64G")), ("always", "cpu:2", (True, "64G"))],
)  # fmt: skip
def test_exclusivity_and_memory(exclusive: str, text: str, expected: tuple[bool, str]) -> None:
    found = made(text, exclusive=exclusive)
    assert (found.exclusive, found.memory) == expected


@pytest.mark.parametrize(
    ("changes", "text", "memory"),
    [({"memory": "1800G"}, "h200:8", "1800G"), ({"memory": "1800G"}, "h200:2", "400G"), ({"memory": "1800G", "exclusive": "never"}, "h200:8", "1800G"),
     ({"memory_per_gpu": ""}, "h200:2", ""), ({"memory_per_gpu": "", "exclusive": "never"}, "h200:8", ""), ({"memory_per_gpu": "512"}, "h200:3", "1536")],
)  # fmt: skip
def test_memory_of_a_node_and_of_a_part(changes: dict[str, Any], text: str, memory: str) -> None:
    assert made(text, **changes).memory == memory


@pytest.mark.parametrize(
    ("text", "what", "expected", "hint"),
    [("h100:8", "there is no profile `h100`, did you mean `h200`?", "one of h200, cpu", "tp site show"),
     ("xyz", "there is no profile `xyz`", "one of h200, cpu", "tp site show"),
     ("", 'there is no profile `""`', "one of h200, cpu", "tp site show"),
     ("h200:0", "`0` is no number of GPUs", "`h200:N` with N from 1", ""), ("h200:-8", "`-8` is no number of GPUs", "`h200:N` with N from 1", ""),
     ("h200:", '`""` is no number of GPUs', "`h200:N` with N from 1", ""), ("h200:08", "`08` is no number of GPUs", "`h200:N` with N from 1", ""),
     ("h200:8.0", "`8.0` is no number of GPUs", "`h200:N` with N from 1", ""), ("h200:8:2", "`8:2` is no number of GPUs", "`h200:N` with N from 1", ""),
     ("h200:٨", "`٨` is no number of GPUs", "`h200:N` with N from 1", ""), ("h200:9999999", "`9999999` is no number of GPUs", "`h200:N` with N from 1", ""),
     ("cpu:x", "`x` is no number of nodes", "`cpu:N` with N from 1", ""),
     ("h200:40", "`h200:40` is 5 nodes", "at most 4 of `h200`", ""),
     ("h200:12", "12 GPUs are no whole number of nodes", "nodes of `h200` have 8 GPUs: 1 to 8 on one node, or a multiple of 8", "`h200:8` or `h200:16`"),
     ("h200:33", "33 GPUs are no whole number of nodes", "nodes of `h200` have 8 GPUs: 1 to 8 on one node, or a multiple of 8", "`h200:32`"),
     ("h200:31", "31 GPUs are no whole number of nodes", "nodes of `h200` have 8 GPUs: 1 to 8 on one node, or a multiple of 8", "`h200:24` or `h200:32`"),
     ("h200:100", "100 GPUs are no whole number of nodes", "nodes of `h200` have 8 GPUs: 1 to 8 on one node, or a multiple of 8", "`h200:32`")],
)  # fmt: skip
def test_refusals(text: str, what: str, expected: str, hint: str) -> None:
    with pytest.raises(SiteError) as caught:
        topology(profiled(h200=H200, cpu=CPU), text, "exp/config.yaml:3 resources.profile")
    (problem,) = problems_of(caught)
    assert (problem.what, problem.where) == (what, "exp/config.yaml:3 resources.profile")
    assert (problem.expected, problem.hint) == (expected, hint)


# --- in a plan ---


def directives(
    recipe: Recipe, request: Request | None = None, text: str = "", **over: Any
) -> dict[str, str | None]:
    found = plan(recipe, text, request, **over).directives
    names = [line.name for line in found]
    assert len(set(names)) == len(names)
    return {line.name: line.value for line in found}


FIXED = {
    "ntasks-per-node": "1",
    "output": "slurm-%j.out",
    "open-mode": "append",
    "export": "NIL",
    "propagate": "NONE",
    "no-requeue": None,
}


def test_all_directives_of_whole_nodes(tuned: Recipe) -> None:
    found = directives(tuned, Request(profile="h200:16", time="90m"), site=profiled(h200=H200))
    assert found == {
        **FIXED,
        "job-name": "exp",
        "nodes": "2",
        "cpus-per-task": "96",
        "gres": "gpu:h200:8",
        "time": "0-01:30:00",
        "exclusive": None,
        "mem": "0",
    }


def test_all_directives_of_a_part(tuned: Recipe) -> None:
    found = directives(tuned, Request(profile="h200:2"), site=profiled(h200=H200))
    assert found == {
        **FIXED,
        "job-name": "exp",
        "nodes": "1",
        "cpus-per-task": "24",
        "gres": "gpu:h200:2",
        "time": "0-04:00:00",
        "mem": "400G",
    }


def test_all_directives_without_gpus(tuned: Recipe) -> None:
    found = directives(tuned, Request(profile="cpu:2"), site=profiled(cpu=CPU))
    assert found == {
        **FIXED,
        "job-name": "exp",
        "nodes": "2",
        "cpus-per-task": "32",
        "time": "0-04:00:00",
        "mem": "64G",
        "partition": "cpu",
        "constraint": "avx",
    }


@pytest.mark.parametrize(
    ("form", "kind", "name", "value"),
    [("gres", "h200", "gres", "gpu:h200:8"), ("gres", "", "gres", "gpu:8"), ("gpus-per-node", "h200", "gpus-per-node", "h200:8"), ("gpus-per-node", "", "gpus-per-node", "8"),
     ("gpus", "h200", "gpus", "h200:16"), ("gpus", "", "gpus", "16"), ("none", "h200", None, None)],
)  # fmt: skip
def test_the_four_forms_of_asking_for_gpus(
    tuned: Recipe, form: str, kind: str, name: str | None, value: str | None
) -> None:
    here = site(
        slurm={"gpu_request": form}, profiles={"g": {**H200, "gpu_type": kind}}, default_profile="g:16"
    )
    found = directives(tuned, site=here)
    asked = {key: found[key] for key in ("gres", "gpus-per-node", "gpus") if key in found}
    assert asked == ({name: value} if name else {})


def test_directives_omitted_and_added(tuned: Recipe) -> None:
    slurm = {
        "omit": ["mem", "exclusive"],
        "add": {"switches": "1", "contiguous": True, "nice": 5},
        "job_name": "{experiment}@{method}",
    }
    found = directives(tuned, site=site(slurm=slurm))
    assert not {"mem", "exclusive"} & found.keys()
    assert (found["switches"], found["contiguous"], found["nice"], found["job-name"]) == (
        "1",
        None,
        "5",
        "exp@toy/tuned",
    )
    assert list(found)[-3:] == ["contiguous", "nice", "switches"]


def test_an_added_directive_stands_once(tuned: Recipe) -> None:
    here = site(slurm={"add": {"partition": "only"}, "options": {"partition": {"default": "gpu"}}})
    assert directives(tuned, site=here)["partition"] == "only"


# --- time ---


@pytest.mark.parametrize(
    ("text", "request_time", "time"), [("", None, "0-04:00:00"), ("resources: {time: 2h}", None, "0-02:00:00"), ("resources: {time: 2h}", "1-12:00:00", "1-12:00:00")]
)  # fmt: skip
def test_time_limits(tuned: Recipe, text: str, request_time: str | None, time: str) -> None:
    assert directives(tuned, Request(time=request_time), text, site=profiled(h200=H200))["time"] == time


def test_times_that_are_refused(tuned: Recipe) -> None:
    here = profiled(h200=H200)
    assert refused(tuned, "resources:\n  time: 90", site=here) == (
        3, [("90 could be 90 minutes (as Slurm reads it) or 90 seconds", "exp/config.yaml:2 resources.time")])  # fmt: skip
    assert refused(tuned, "", Request(time="2d1s"), site=here) == (
        6, [("`2d1s` is longer than the site lets `h200` run", "command line --time")])  # fmt: skip
    assert plan(tuned, "", Request(time="2d"), site=here).seconds == 2 * 86400


# --- options a user may set ---

OPTIONS = {
    "account": {},
    "partition": {"default": "gpu"},
    "qos": {"default": "normal", "allowed": ["normal", "long"]},
    "mail_type": {},
    "nodelist": {},
    "begin": {},
    "nice": {},
}
OPEN = {"options": OPTIONS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", {"partition": "gpu", "qos": "normal"}), ("resources: {qos: long, account: lab}", {"partition": "gpu", "qos": "long", "account": "lab"}),
     ("resources: {partition: big}", {"partition": "big", "qos": "normal"}), ("resources: {mail_type: 'END,fail'}", {"partition": "gpu", "qos": "normal", "mail-type": "END,fail"}),
     ("resources: {nodelist: 'n[1-3],m-2'}", {"partition": "gpu", "qos": "normal", "nodelist": "n[1-3],m-2"}),
     ("resources: {begin: now+2hours, nice: 100}", {"partition": "gpu", "qos": "normal", "begin": "now+2hours", "nice": "100"}),
     ("resources: {begin: 2030-01-02T03:04}", {"partition": "gpu", "qos": "normal", "begin": "2030-01-02T03:04"})],
)  # fmt: skip
def test_options(tuned: Recipe, text: str, expected: dict[str, str]) -> None:
    found = directives(tuned, text=text, site=site(slurm=OPEN))
    users = {
        key: found[key]
        for key in found
        if key in ("account", "partition", "qos", "mail-type", "nodelist", "begin", "nice", "mail-user")
    }
    assert users == expected


def test_a_profiles_partition_stands_between_the_sites_and_the_users(tuned: Recipe) -> None:
    here = site(slurm=OPEN, profiles={"cpu": CPU}, default_profile="cpu")
    found = plan(tuned, site=here).directives
    assert [(d.value, d.source) for d in found if d.name == "partition"] == [("cpu", "profile")]
    found = plan(tuned, "resources: {partition: mine}", site=here).directives
    assert [(d.value, d.source) for d in found if d.name == "partition"] == [("mine", "resources.partition")]


@pytest.mark.parametrize(
    ("option", "code", "what"),
    [("qos: fast", 6, "this site does not take `fast`"), ("reservation: r", 6, "this site does not let users set `reservation`"),
     ('account: "a\\nb"', 3, "`a\\nb` is not 1 to 1024 printable characters"), (f"account: {'x' * 1025}", 3, None),
     ("nice: -5", 3, "`-5` is no nice value: a whole number from 0"), ("nice: 1.5", 3, "`1.5` is no nice value: a whole number from 0"),
     ("begin: tomorrow", 3, "`tomorrow` is no begin time: `YYYY-MM-DDTHH:MM` or `now+2hours`"), ("nodelist: 'a b'", 3, "`a b` is no list of node names"),
     ("nodelist: 'a;b'", 3, "`a;b` is no list of node names"), ("mail_type: SOON", 3, None), ("mail_type: 'END,'", 3, None)],
)  # fmt: skip
def test_options_that_are_refused(tuned: Recipe, option: str, code: int, what: str | None) -> None:
    found, problems = refused(tuned, f"resources:\n  {option}", site=site(slurm=OPEN))
    assert found == code and [where for _, where in problems] == [
        f"exp/config.yaml:2 resources.{option.partition(':')[0]}"
    ]
    assert what is None or problems[0][0] == what


@pytest.mark.parametrize(
    "key",
    ["array", "dependency", "output", "chdir", "nodes", "gres", "export", "requeue", "gpus", "wrap", "mem"],
)
def test_what_belongs_to_tp_is_no_resource(key: str) -> None:
    from builders import config

    from tuneplane.errors import InputError

    with pytest.raises(InputError, match=f"unknown key `{key}`"):
        config(f"resources: {{{key}: x}}")


# --- on this machine ---

LOCAL = {
    "scheduler": "local",
    "runtime": {"kind": "host"},
    "profiles": {"cpu": {"cpus_per_node": 2}},
    "default_profile": "cpu",
}


def test_the_local_scheduler_has_one_node_and_no_directives(tuned: Recipe) -> None:
    assert plan(tuned, site=site(**LOCAL), image=None).directives == ()
    code, problems = refused(tuned, "resources: {profile: cpu:2}", site=site(**LOCAL), image=None)
    assert (code, problems) == (6, [("`cpu:2` is 2 nodes", "exp/config.yaml:1 resources.profile")])


def test_slurm_options_mean_nothing_on_the_local_scheduler(tuned: Recipe) -> None:
    here = site(**LOCAL, slurm=OPEN)
    assert refused(tuned, "resources: {account: x}", site=here, image=None) == (
        6, [("this site does not let users set `account`", "exp/config.yaml:1 resources.account")])  # fmt: skip


def test_problems_of_all_kinds_come_together_under_the_lowest_code(tuned: Recipe) -> None:
    text = "model: m\nparams: {rate: 9}\nresources: {profile: h100, time: 90, qos: x}\n"
    code, problems = refused(tuned, text, site=site(slurm=OPEN))
    assert code == 3 and {what for what, _ in problems} >= {
        "`9` is out of range", "there is no profile `h100`, did you mean `h200`?", "90 could be 90 minutes (as Slurm reads it) or 90 seconds"}  # fmt: skip


def test_a_part_of_a_node_that_is_taken_whole_asks_for_all_its_cpus() -> None:
    whole = made("h200:8", exclusive="always")
    part = made("h200:2", exclusive="always")
    assert (part.gpus_per_node, part.processes_per_node) == (2, 2)
    assert part.cpus_per_node == whole.cpus_per_node
