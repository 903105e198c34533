"""What a program finds in its container on a real cluster, with the real Apptainer, as an ordinary user."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.harness.images import python_sif
from cluster.harness.tools import until
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster

LOOK = r"""
out=$TUNEPLANE_OUTPUT_DIR/seen-$TUNEPLANE_NODE_RANK
can() { mkdir -p "$2" && (echo x >"$2/.probe") 2>/dev/null && echo "$1" writable || echo "$1" read-only; } >>"$out"
for name in HOME TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR \
    VLLM_CACHE_ROOT HF_DATASETS_CACHE HF_MODULES_CACHE TUNEPLANE_OUTPUT_DIR; do can "$name" "${!name}"; done
for name in TUNEPLANE_MODEL TUNEPLANE_TRAIN_DATA TUNEPLANE_EXPERIMENT_DIR; do can "$name" "${!name}"; done 2>/dev/null
can root /opt/new 2>/dev/null
can helper /tuneplane 2>/dev/null
cat "$TUNEPLANE_MODEL/weights" "$TUNEPLANE_TRAIN_DATA/n" >>"$out"
printf '%s\n' "$HOME" >>"$TUNEPLANE_OUTPUT_DIR/home"
"""
"""Says of each place whether it can be written, and shows the model's and the data's content."""
OWN = """
    HOME TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR VLLM_CACHE_ROOT
    HF_DATASETS_CACHE HF_MODULES_CACHE TUNEPLANE_OUTPUT_DIR
    """.split()
GIVEN = ["TUNEPLANE_MODEL", "TUNEPLANE_TRAIN_DATA", "TUNEPLANE_EXPERIMENT_DIR"]
HOSTILE = {
    "APPTAINER_BIND": "/etc:/evil",
    "APPTAINER_WRITABLE_TMPFS": "1",
    "APPTAINERENV_EVIL": "1",
    "SINGULARITY_BIND": "/etc:/evil",
    "SINGULARITYENV_EVIL": "1",
    "APPTAINER_NO_MOUNT": "sys",
}
ODD = "a b, c:d=e 'é' 世界"


def linked(alice: Researcher) -> dict[str, Any]:
    """A model behind two links, whose weights are a link out of its folder, and data in an odd place, as configured.

    All of it lies outside of her home, where no container sees it by itself.
    """
    base = alice.cluster.shared / "store {} {}".format(*Path(alice.root).name.split(" ")[:2])
    for name in ("weights", f"model {ODD}", f"data {ODD}"):
        (base / name).mkdir(parents=True)
    (base / "weights/blob").write_text("weights\n")
    (base / f"data {ODD}/n").write_text("42\n")
    inside = f"/shared/{base.name}"
    (base / f"model {ODD}/weights").symlink_to(f"{inside}/weights/blob")
    (base / "first").symlink_to(f"model {ODD}")
    (base / "second").symlink_to(f"{inside}/first")
    for parent, folders, files in os.walk(base):
        for path in (parent, *(f"{parent}/{name}" for name in (*folders, *files))):
            os.chown(path, 1001, 1001, follow_symlinks=False)
    return {"model": f"{inside}/second", "data": {"train": f"{inside}/data {ODD}"}}


def seen(alice: Researcher, run: str, rank: int) -> dict[str, str]:
    """What LOOK said of each place."""
    lines = alice.output(run, f"seen-{rank}").decode().splitlines()
    assert lines[-2:] == ["weights", "42"]
    return dict(line.rsplit(" ", 1) for line in lines[:-2])  # type: ignore[arg-type]


def expected(**others: str) -> dict[str, str]:
    """As LOOK sees a container of which nothing but its own can be written."""
    return dict.fromkeys(OWN, "writable") | dict.fromkeys([*GIVEN, "root", "helper"], "read-only") | others


def completed(alice: Researcher, *options: str, **how: Any) -> str:
    run = alice.submit("exp", *options, **how)
    facts = alice.ended(run)
    assert facts["state"] == "completed", (facts, alice.log(run))
    return run


def test_places_of_a_container(cluster: Cluster, python_image: str) -> None:
    """Models and data of every name are read and not written, caches are written; the user's settings do nothing."""
    alice = Researcher(cluster, runtime="apptainer")
    alice.rewrite_site(runtime={"kind": "apptainer", "gpu": "none", "binds": ["/opt:ro"]})
    train = LOOK + '[ ! -e /evil ] && [ -z "${EVIL-}" ] && [ -d /sys/class ] && [ ! -e ~alice/.config ]\n'
    alice.experiment("exp", train, config=linked(alice))
    alice.write("/shared/home/alice/.apptainer/x", "")
    words = ["env", *(f"{name}={value}" for name, value in HOSTILE.items())]
    run = completed(alice, "--profile", "one:2", "--image", python_image, through=words)
    assert [seen(alice, run, rank) for rank in (0, 1)] == [expected()] * 2
    assert {place[:8] for place in alice.output(run, "home").decode().splitlines()} == {"/tmp/tp-"}
    alice.assert_nothing_left()


def test_what_a_site_opens(cluster: Cluster, python_image: str) -> None:
    """The home, the image's own folders, and host folders, one of them the user's own."""
    alice = Researcher(cluster)
    for name in ("alice", "bob"):
        place = cluster.shared / "scratch" / name
        place.mkdir(parents=True, exist_ok=True)
        os.chown(place, *[{"alice": 1001, "bob": 1002}[name]] * 2)
    (cluster.shared / "tools").mkdir(exist_ok=True)
    (cluster.shared / "tools").chmod(0o777)
    runtime = {"kind": "apptainer", "gpu": "none", "home": True, "writable": True}
    alice.rewrite_site(runtime=runtime | {"binds": ["/shared/scratch/{user}", "/shared/tools:ro"]})
    train = (
        LOOK
        + """
    for place in /shared/home/alice /shared/scratch/alice /shared/scratch/bob /shared/tools; do
        can "$place" "$place"
    done 2>/dev/null
    cp /bin/true /usr/bin/false && /usr/bin/false && dd if=/dev/zero of=/opt/large bs=1M count=200 2>/dev/null
    """
    )
    alice.experiment("exp", train, config=linked(alice))
    run = alice.submit("exp", "--profile", "one:2", "--image", python_image)
    facts = alice.ended(run)
    assert facts["state"] == "completed", (facts, alice.log(run))
    for rank in (0, 1):
        lines = alice.output(run, f"seen-{rank}").decode().splitlines()
        places = dict(line.rsplit(" ", 1) for line in lines if line.startswith("/shared"))  # type: ignore[arg-type]
        assert places == {
            "/shared/home/alice": "writable",
            "/shared/scratch/alice": "writable",
            # only made for the mount of the other
            "/shared/scratch/bob": "writable",
            "/shared/tools": "read-only",
        }
        assert (
            "root writable" in lines and "helper read-only" in lines and "TUNEPLANE_MODEL read-only" in lines
        )
    assert not (cluster.shared / "scratch/bob/.probe").exists()
    assert (cluster.shared / "home/alice/.probe").exists()
    alice.assert_nothing_left()


# ---- what is killed


def on(alice: Researcher, host: str, *parts: str) -> list[int]:
    """Processes of hers on a host whose arguments hold all the parts."""
    found = alice.cluster.processes(host, "alice")
    return [
        one.outer_pid
        for one in found
        if one.name != "srun" and all(part in " ".join(one.argv) for part in parts)
    ]


def without_fuse(alice: Researcher, host: str) -> None:
    """Nothing of hers runs there: but a killed Apptainer's FUSE server, which Slurm ends where it has cgroups."""

    def left() -> list[str]:
        return [one.name for one in alice.cluster.processes(host, "alice") if "squashfuse" not in one.name]

    until(lambda: not left(), "nothing of it runs", 30)
    for one in alice.cluster.processes(host, "alice"):
        os.kill(one.outer_pid, 9)
    until(lambda: not alice.cluster.processes(host, "alice"), "nothing runs", 10)


KILLED = {
    "node": ("/bin/bash -p", "attempts/1/node.sh"),
    "apptainer": ("Apptainer runtime parent",),
    "supervisor": ("supervise.py",),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "node" else pytest.mark.long) for name in KILLED]
)
def test_what_kill_leaves_is_removed(cluster: Cluster, python_image: str, name: str) -> None:
    """The run ends soon; what nobody was left to remove, the user's next job there removes."""
    alice = Researcher(cluster, runtime="apptainer")
    alice.experiment("exp", "exec sleep 300", config={"resources": {"nodelist": "n1"}})
    run = alice.submit("exp", "--image", python_image)
    alice.running(run)
    pids = on(alice, "n1", *KILLED[name])
    assert pids, alice.cluster.processes("n1", "alice")
    os.kill(pids[0], 9)
    facts = alice.ended(run, 60)
    assert (facts["state"], facts["code"]) == ("failed", 143 if name == "node" else 137), facts
    without_fuse(alice, "n1")
    place = f"/tmp/tp-{run[-8:]}-1-0"
    left = cluster.run("n1", ["find", "/tmp", "-mindepth", "1", "-maxdepth", "1", "-user", "alice"]).stdout
    assert left == (f"{place}\n" if name == "node" else "")
    alice.experiment("next", "exit 0", config={"resources": {"nodelist": "n1"}})
    if left:
        # too young: somebody could just be about to lock it
        assert alice.run("next", "--image", python_image)["state"] == "completed"
        assert cluster.run("n1", ["test", "-d", place]).returncode == 0
        cluster.run("n1", ["touch", "-d", "11 minutes ago", f"{place}/.alive"], check=True)
    assert alice.run("next", "--image", python_image)["state"] == "completed"
    alice.assert_nothing_left()


@pytest.mark.long
def test_nobody_sweeps_what_is_alive_or_not_theirs(cluster: Cluster, python_image: str) -> None:
    alice, bob = (
        Researcher(cluster, runtime="apptainer"),
        Researcher(cluster, user="bob", runtime="apptainer"),
    )
    there = {"resources": {"nodelist": "n1"}}
    for who in (alice, bob):
        who.experiment("exp", "exec sleep 300", config=there)
        who.experiment("next", "exit 0", config=there)
    runs = [(who, who.submit("exp", "--image", python_image)) for who in (alice, bob)]
    try:
        for who, run in runs:
            who.running(run)
            place = f"/tmp/tp-{run[-8:]}-1-0"
            cluster.run("n1", ["touch", "-d", "1 hour ago", f"{place}/.alive"], check=True)
        link = "/tmp/tp-exp-planted-1-0"
        cluster.run("n1", ["ln", "-s", "/shared/home/alice", link], user="bob", check=True)
        assert alice.run("next", "--image", python_image)["state"] == "completed"
        for _, run in runs:
            assert cluster.run("n1", ["test", "-d", f"/tmp/tp-{run[-8:]}-1-0/tmp"]).returncode == 0
        assert (cluster.shared / "home/alice").is_dir()
    finally:
        cluster.run("n1", ["rm", "-f", link])
        for who, run in runs:
            who.tp("job", "cancel", run)
            who.ended(run)
    alice.assert_nothing_left()


# ---- Enroot's way in


def squashfs_of(sif: Path) -> bytes:
    """The file system in a SIF: descriptors of 585 bytes, of which the one of type 0x4004 says where it lies."""
    data = sif.read_bytes()
    count, start = struct.unpack_from("<qq", data, 88)
    for number in range(count):
        kind, used, *_, offset, size = struct.unpack_from("<i?IIIqq", data, start + 585 * number)
        if used and kind == 0x4004:
            return data[offset : offset + size]
    raise AssertionError(f"no file system in {sif}")


@pytest.fixture(scope="module")
def enroot(cluster: Cluster, python_image: str) -> str:
    """A program that starts containers when it is asked as Enroot is; `/shared/plain/python.sqsh` is an image for it."""
    place = cluster.shared / "plain"
    place.mkdir()
    place.chmod(0o1777)
    (place / "python.sqsh").write_bytes(squashfs_of(python_sif()))
    program = place / "enroot"
    program.write_text('#!/bin/sh\nexec /opt/tp/bin/python -B /opt/tuneplane/tests/cluster/enroot.py "$@"\n')
    program.chmod(0o755)
    return f"/shared/plain/{program.name}"


def by_enroot(cluster: Cluster, enroot: str, **runtime: Any) -> Researcher:
    """A researcher whose runs lie where Enroot can mount them."""
    alice = Researcher(cluster)
    alice.rewrite_site(
        runtime={"kind": "enroot", "enroot": enroot, "gpu": "none", **runtime},
        folders=alice.site["folders"] | {"runs": "/shared/plain/runs"},
        # what stands for Enroot gives its containers a small /tmp
        preflight={"scratch": "16M"},
    )
    return alice


def test_a_run_by_enroot(cluster: Cluster, enroot: str) -> None:
    """Two nodes, with values that only the rc file carries; the container lives and ends in the scratch folder."""
    alice = by_enroot(cluster, enroot)
    plain = cluster.shared / "plain/data"
    plain.mkdir()
    (plain / "n").write_text("42\n")
    (plain / "weights").write_text("weights\n")
    env = {"LINES": 'one\nX=evil\n"two"', "EMPTY": "", "QUOTED": '"all"', "WORLD": "世界 $(touch /tmp/pwned)"}
    train = LOOK + 'printf "%s|" "$LINES" "$EMPTY" "$QUOTED" "$WORLD" "$@" >"$TUNEPLANE_OUTPUT_DIR/values"\n'
    config = {
        "model": "/shared/plain/data",
        "data": {"train": "/shared/plain/data"},
        "env": env,
        "args": ["a b", ""],
    }
    alice.experiment("exp", train, config=config)
    run = alice.submit("exp", "--profile", "one:2", "--image", "/shared/plain/python.sqsh")
    facts = alice.ended(run)
    folder = cluster.shared / "plain/runs" / run
    logs = "".join(file.read_text() for file in folder.glob("attempts/1/*.log"))
    assert facts["state"] == "completed", (facts, logs)
    for rank in (0, 1):
        lines = (folder / f"output/seen-{rank}").read_text().splitlines()
        assert dict(line.rsplit(" ", 1) for line in lines[:-2]) == expected()  # type: ignore[arg-type]
    assert (folder / "output/values").read_text() == "|".join([*env.values(), "a b", "", ""])
    alice.assert_nothing_left()


@pytest.mark.long
@pytest.mark.parametrize("end", ["kill", "cancel"])
def test_no_container_of_enroot_is_left(cluster: Cluster, enroot: str, end: str) -> None:
    alice = by_enroot(cluster, enroot, writable=True)
    alice.experiment("exp", 'touch /opt/x; touch "$TUNEPLANE_OUTPUT_DIR/up"; exec sleep 300')
    run = alice.submit("exp", "--image", "/shared/plain/python.sqsh")
    folder = cluster.shared / "plain/runs" / run
    until(lambda: (folder / "output/up").exists(), "it runs", 60)
    name = f"tp-{json.loads((folder / 'job.json').read_text())['id']}-1-0"
    place = f"/tmp/tp-{run[-8:]}-1-0/enroot/data/{name}"
    assert cluster.run("n1", ["test", "-d", place]).returncode == 0
    if end == "cancel":
        assert alice.tp("job", "cancel", run).code == 0
    else:
        os.kill(on(alice, "n1", "Apptainer runtime parent")[0], 9)
    assert alice.ended(run, 60)["state"] == ("cancelled" if end == "cancel" else "failed")
    if end == "kill":
        without_fuse(alice, "n1")
    alice.assert_nothing_left()
