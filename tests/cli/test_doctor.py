"""`tp doctor` on the `local` site and with a Slurm whose commands are played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.world import World

import tuneplane.doctor
from tuneplane.doctor import folders, trial

COMMANDS = ("sbatch", "squeue", "sinfo", "scontrol", "scancel", "sacct", "sacctmgr")
PARTITION = (
    "PartitionName=gpu Default=YES MaxTime={} MaxNodes=4 TotalNodes=4 State={} AllowAccounts=ALL AllowQos=ALL"
)


def looked(world: World, *words: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and each check by its name; a bad one hides the others of that name."""
    said = world.tp(*words, "doctor", "--json", **environment)
    assert said.err == "", said
    rows: dict[str, dict[str, Any]] = {}
    for row in json.loads(said.out):
        if row["name"] not in rows or rows[row["name"]]["level"] != "bad":
            rows[row["name"]] = row
    return said.code, rows


def bad(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: row["said"] for name, row in rows.items() if row["level"] == "bad"}


def test_all_is_well(world: World) -> None:
    before = world.tree()
    said = world.tp("doctor")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith("ok    site file    local: ")
    assert [line.split()[0] for line in lines if line[0] != " "] == ["ok"] * 8 + [
        "note",
        "ok",
    ] or "bad" not in said.out
    assert any(line.startswith("note  model cache") for line in lines)
    assert world.tree() == before


def test_a_site_that_is_not_there(world: World) -> None:
    code, rows = looked(world, "--site", "nowhere")
    assert code == 6 and bad(rows) == {"site file": "there is no site `nowhere`"}


def test_a_secrets_file_that_others_read(world: World) -> None:
    file = world.home / ".config/tuneplane/secrets.env"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text("KEY=s3cr3t\n")
    file.chmod(0o644)
    said = world.tp("doctor")
    assert said.code == 3 and "s3cr3t" not in said.out
    assert f"chmod 600 {file}" in said.out
    file.chmod(0o600)
    assert world.tp("doctor").code == 0


def test_folders_without_space(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def full(path: str) -> Any:
        whole = list(real(path))
        whole[4], whole[7], whole[8] = 1, 3, 3  # blocks, all inodes and inodes for users
        return os.statvfs_result(whole)

    monkeypatch.setattr(folders.os, "statvfs", full)
    code, rows = looked(world)
    assert code == 6 and bad(rows).keys() == {"space", "inodes"}


@pytest.mark.parametrize(("skew", "level"), [(-600, "bad"), (600, "bad"), (20, "note"), (1, "ok")])
def test_a_clock_that_is_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch, skew: float, level: str
) -> None:
    real = folders.time.time
    monkeypatch.setattr(folders.time, "time", lambda: real() - skew)
    _, rows = looked(world)
    assert rows["clock"]["level"] == level
    if level == "bad":
        assert f"{abs(skew)} s {'ahead of' if skew > 0 else 'behind'}" in rows["clock"]["said"]


def test_a_runs_folder_that_cannot_be_made(world: World) -> None:
    world.runs.parent.mkdir(parents=True)
    world.runs.write_text("in the way\n")
    code, rows = looked(world)
    assert code == 6 and bad(rows)["runs"].endswith("is no folder")


def test_options_of_the_job_without_it(world: World) -> None:
    assert world.tp("doctor", "--profile", "cpu").code == 2


# -- Slurm --------------------------------------------------------------------------------------------------


class Slurm:
    """A site `here` on a Slurm that says what it is told to."""

    def __init__(self, world: World) -> None:
        self.world, self.bin = world, world.root / "bin"
        self.bin.mkdir()
        self.says(PARTITION.format("1-00:00:00", "UP"))
        for name in ("sacct", "sacctmgr"):
            self.play(name, "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        for name in ("sbatch", "squeue", "scancel"):
            self.play(name, "echo slurm 24.11.5")
        self.nodes("gpu:h200:8(S:0-1)", 16)
        self.site()

    def play(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def says(self, partition: str, ping: str = "Slurmctld(primary) at login is UP") -> None:
        cases = f"--version) echo slurm 24.11.5 ;; ping) echo '{ping}' ;; *) echo '{partition}' ;;"
        self.play("scontrol", f'case "$1" in {cases} esac')

    def nodes(self, gres: str, cpus: int) -> None:
        self.play(
            "sinfo",
            f"case $1 in --version) echo slurm 24.11.5 ;; *) printf 'gpu\\037{gres}\\037{cpus}\\n' ;; esac",
        )

    def site(self, **profile: Any) -> None:
        h200 = {"gpus_per_node": 8, "gpu_type": "h200", "cpus_per_node": 16} | profile
        self.world.site(
            "here", "local", scheduler="slurm", path=[str(self.bin)], inherit=[], profiles={"h200": h200},
            default_profile="h200", folders={"runs": str(self.world.runs)},
        )  # fmt: skip

    def looked(self) -> tuple[int, dict[str, str]]:
        code, rows = looked(self.world, "--site", "here")
        return code, bad(rows)


@pytest.fixture
def slurm(world: World) -> Slurm:
    return Slurm(world)


def test_a_slurm_that_is_well(slurm: Slurm) -> None:
    code, rows = looked(slurm.world, "--site", "here")
    assert (code, bad(rows)) == (0, {})
    assert rows["scheduler"]["said"] == "slurm 24.11.5: sbatch, squeue, sinfo, scontrol, scancel"
    assert rows["profile h200"]["said"] == "in Slurm's default partition"
    assert (rows["accounting"]["level"], rows["controller"]["level"]) == ("note", "ok")


def test_a_command_that_is_not_there(slurm: Slurm) -> None:
    (slurm.bin / "sbatch").unlink()
    code, rows = slurm.looked()
    assert code == 6 and rows == {"sbatch": "cannot run sbatch: No such file or directory"}


def test_a_controller_that_is_down(slurm: Slurm) -> None:
    slurm.says("", "Slurmctld(primary) at login is DOWN")
    code, rows = slurm.looked()
    assert code == 6 and rows == {"controller": "it does not answer: Slurmctld(primary) at login is DOWN"}


def test_profiles_that_the_partitions_do_not_give(slurm: Slurm) -> None:
    slurm.site(partition="gqu")
    assert slurm.looked() == (6, {"profile h200": "there is no partition `gqu`, did you mean `gpu`?"})
    slurm.site()
    slurm.says(PARTITION.format("00:30:00", "DOWN"))
    assert slurm.looked()[1]["profile h200"] == "4h is longer than the partition `gpu` allows"


@pytest.mark.parametrize(
    ("gres", "cpus"), [("gpu:a100:8", 16), ("gpu:h200:4", 16), ("(null)", 16), ("gpu:h200:8", 8)]
)
def test_profiles_that_no_node_has(slurm: Slurm, gres: str, cpus: int) -> None:
    slurm.nodes(gres, cpus)
    code, rows = slurm.looked()
    assert code == 6 and rows == {"profile h200": "no node there has 16 CPUs and 8 GPUs h200"}


@pytest.mark.parametrize(
    "gres", ["gpu:8", "gpu:h200:8", "gpu:a100:2,gpu:h200:8(S:0-1)", "nvme:1,gpu:h200:16"]
)
def test_gpus_as_nodes_name_them(slurm: Slurm, gres: str) -> None:
    slurm.nodes(gres, 16)
    assert slurm.looked() == (0, {})


# -- the job ------------------------------------------------------------------------------------------------


def test_a_job_on_this_machine(world: World) -> None:
    said = world.tp("doctor", "--job")
    assert said.code == 0, said
    assert said.out == f"ok    node 0 ({os.uname().nodename}): it ran\n"
    (run,) = os.listdir(world.runs)
    frozen = sorted(os.listdir(world.runs / run / "files"))
    assert frozen == ["allreduce.py", "config.yaml", "recipe.lock.json", "train.sh"]


def test_a_job_that_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SCRIPT", "#!/bin/bash\necho 'no way to n2'\nexit 7\n")
    said = world.tp("doctor", "--job")
    sentence = f"the command ended with exit code 7 on node 0 ({os.uname().nodename})"
    assert (said.code, said.out) == (8, f"bad   node 0: {sentence}\n")
    assert f": {sentence}\n  at       attempts/1/node-0.log: no way to n2\n  try      " in said.err


def test_a_job_that_is_not_waited_for(world: World) -> None:
    said = world.tp("doctor", "--job", "--no-wait")
    assert (said.code, said.out) == (0, f"{os.listdir(world.runs)[0]}\n")


def all_reduce(place: Path, nodes: int, **spoiled: str) -> list[tuple[int, dict[str, Any] | None]]:
    """Run the program once for each node on this machine; code and result of each."""
    program = Path(tuneplane.doctor.__file__).with_name("allreduce.py")
    from random import randrange

    port = str(randrange(20000, 30000))
    started = []
    for rank in range(nodes):
        own = {"TUNEPLANE_NODE_RANK": rank, "TUNEPLANE_NODES": nodes, "TUNEPLANE_HEAD_PORT": port}
        more = {"TUNEPLANE_HEAD_ADDRESS": "127.0.0.1", "TUNEPLANE_OUTPUT_DIR": place, "TUNEPLANE_RUN_ID": "x"}
        environment = {**os.environ, **{k: str(v) for k, v in {**own, **more, **spoiled}.items()}}
        started.append(subprocess.Popen([sys.executable, program], env=environment, stdout=subprocess.PIPE))
    codes = [process.wait(60) for process in started]
    for process in started:
        process.communicate()
    files = [place / f"allreduce-{rank}.json" for rank in range(nodes)]
    return [
        (code, json.loads(file.read_text()) if file.exists() else None)
        for code, file in zip(codes, files, strict=True)
    ]


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_an_all_reduce(tmp_path: Path, nodes: int) -> None:
    for rank, (code, result) in enumerate(all_reduce(tmp_path, nodes)):
        assert code == 0 and result is not None and result["node"] == rank
        if nodes > 1:
            assert result["bytes_per_second"] > 1e5 and 0 < result["latency_seconds"] < 1


def test_an_all_reduce_whose_head_is_nowhere(tmp_path: Path) -> None:
    """An address that this machine does not have: nothing is written, and each says why."""
    assert all_reduce(tmp_path, 1, TUNEPLANE_NODES="2", TUNEPLANE_HEAD_ADDRESS="203.0.113.1") == [(1, None)]
