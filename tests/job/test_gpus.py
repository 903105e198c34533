"""GPUs are counted by names, by device files or by the vendor's tool: here files and programs that stand for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tuneplane.job.checks.gpus import devices_problem, tool_problem, visible_problem


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """The folder of device files."""
    (tmp_path / "dev/dri").mkdir(parents=True)
    return tmp_path / "dev"


def put(dev: Path, *names: str) -> None:
    for name in names:
        (dev / name).touch()


UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-1"
MIGS = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0,MIG-2,MIG-3"


@pytest.mark.parametrize(
    ("value", "found"),
    [("0", 1), ("0,1", 2), (" 6 , 7,", 2), (UUIDS, 2), (MIGS, 3), ("", 0), ("NoDevFiles", 0), ("1,-1,0", 1)],
)
def test_visible_gpus(dev: Path, value: str, found: int) -> None:
    put(dev, "nvidia0", "nvidia7", "nvidiactl", "nvidia-uvm")
    shown = "1 GPU" if found == 1 else f"{found} GPUs"
    for asked in range(1, 5):
        said = f"{shown} visible (CUDA_VISIBLE_DEVICES is `{value}`), {asked} asked for"
        problem = visible_problem(asked, "nvidia", {"CUDA_VISIBLE_DEVICES": value}, str(dev))
        assert problem == (None if asked == found else said)


def test_visible_gpus_without_device_files(dev: Path) -> None:
    """A container that was started without GPUs still has the variable; the parts of one GPU share its file."""
    two, parts = {"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": MIGS}
    names = "CUDA_VISIBLE_DEVICES names 2 GPUs"
    said = f"{names}, 0 of them can be opened here: no nvidia0 in `{dev}`"
    assert visible_problem(2, "nvidia", two, str(dev)) == said
    put(dev, "nvidia0")
    (dev / "nvidia1").symlink_to("nowhere")
    said = f"{names}, 1 of them can be opened here: nvidia0, nvidia1: No such file or directory"
    assert visible_problem(2, "nvidia", two, str(dev)) == said
    assert visible_problem(3, "nvidia", parts, str(dev)) is None


@pytest.mark.parametrize("name", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"])
def test_visible_gpus_of_amd(dev: Path, name: str) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0", name: "0,GPU-4f"}
    assert visible_problem(2, "amd", environment, str(dev)) is None
    said = f"2 GPUs visible ({name} is `0,GPU-4f`), 1 asked for"
    assert visible_problem(1, "amd", environment, str(dev)) == said


def test_device_files(dev: Path) -> None:
    """Also what is counted where no variable is set."""

    def problem(wanted: int, vendor: str = "nvidia") -> str | None:
        said = devices_problem(wanted, vendor, str(dev))
        assert visible_problem(wanted, vendor, {}, str(dev)) == said
        return said

    empty = f"0 GPUs can be opened in `{dev}` (no device file), 2 asked for"
    assert problem(2) == empty
    assert problem(2, "amd") == empty.replace(str(dev), f"{dev}/dri")
    put(dev, "nvidia0", "nvidia10", "nvidiactl", "nvidia-modeset", "dri/card0", "dri/renderD128")
    assert problem(2) is None and problem(1, "amd") is None
    assert problem(3) == f"2 GPUs can be opened in `{dev}` (nvidia0, nvidia10), 3 asked for"
    assert problem(1) == f"2 GPUs can be opened in `{dev}` (nvidia0, nvidia10), 1 asked for"


NVIDIA = """
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
  MIG 1g.10gb     Device  0: (UUID: MIG-1)
  MIG 1g.10gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)
"""
AMD = """
============== ROCm System Management Interface ==============
GPU[0]\t\t: Device Name: \t\tAMD Instinct MI300X
GPU[0]\t\t: Device ID: \t\t0x74a1
GPU[1]\t\t: Device Name: \t\tAMD Instinct MI300X
GPU[1]\t\t: Device ID: \t\t0x74a1
"""


def put_tool(folder: Path, name: str, text: str) -> dict[str, str]:
    """A program of this name, and an environment that finds nothing else."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("vendor", "words", "listing"), [("nvidia", "nvidia-smi -L", NVIDIA), ("amd", "rocm-smi --showid", AMD)]
)
def test_what_the_tool_counts(tmp_path: Path, vendor: str, words: str, listing: str) -> None:
    name, option = words.split()
    environment = put_tool(tmp_path, name, f"[ \"$*\" = '{option}' ] && echo '{listing}'")
    assert tool_problem(2, vendor, environment) is None
    assert tool_problem(4, vendor, environment) == f"`{words}` lists 2 GPUs, 4 asked for"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "echo; echo 'no driver' >&2; echo more; exit 9",
            "`nvidia-smi -L` ended with exit code 9: no driver",
        ),
        ("exit 1", "`nvidia-smi -L` ended with exit code 1: it said nothing"),
        ("sleep 60", "`nvidia-smi -L` ended with exit code 127: "),
    ],
)
def test_a_tool_that_fails(tmp_path: Path, text: str, said: str) -> None:
    problem = tool_problem(2, "nvidia", put_tool(tmp_path, "nvidia-smi", text))
    assert problem is not None and problem.startswith(f"the GPUs cannot be counted: {said}")


def test_a_tool_that_cannot_be_started(tmp_path: Path) -> None:
    environment = put_tool(tmp_path, "nvidia-smi", "exit 0")
    (tmp_path / "nvidia-smi").write_text("#!/no/such/program\n")
    said = "the GPUs cannot be counted: `nvidia-smi -L` cannot be started: No such file or directory"
    assert tool_problem(2, "nvidia", environment) == said
    (tmp_path / "nvidia-smi").unlink()
    assert tool_problem(2, "nvidia", environment) == "the GPUs cannot be counted: `nvidia-smi` is not in PATH"


def test_a_tool_that_hangs(tmp_path: Path, running: Any) -> None:
    environment = put_tool(tmp_path, "nvidia-smi", f"/bin/sleep 60 & echo $! >{tmp_path}/pid; wait")
    began = time.monotonic()
    said = tool_problem(1, "nvidia", environment, seconds=0.5)
    assert said == "the GPUs cannot be counted: `nvidia-smi -L` gave no answer within 0.5 s"
    child = int((tmp_path / "pid").read_text())
    while running(child):
        assert time.monotonic() - began < 5, "what the tool started lives on"
        time.sleep(0.01)
