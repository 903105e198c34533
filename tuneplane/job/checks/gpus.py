"""Whether this node shows exactly the GPUs that were asked for, counted by the site's way.

Names of visible GPUs are never read as numbers: they may be UUIDs or parts of a GPU (MIG).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from typing import Dict, List, Mapping, Optional, Tuple

TOOL_SECONDS = 20.0

VARIABLES: Dict[str, Tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}
# Slurm writes the first of them for a job without GPUs; CUDA shows nothing of what follows the second.
_NO_GPU = ("NoDevFiles", "-1")
_FILES = {"nvidia": ("", r"nvidia[0-9]+"), "amd": ("dri", r"renderD[0-9]+")}
_TOOLS: Dict[str, Tuple[List[str], str]] = {
    "nvidia": (["nvidia-smi", "-L"], r"^(GPU \d+):"),
    "amd": (["rocm-smi", "--showid"], r"^(GPU\[\d+\])"),
}


def visible_problem(wanted: int, vendor: str, environment: Mapping[str, str], folder: str) -> Optional[str]:
    """Count what the variable of the vendor names, or the device files below `folder` where none is set."""
    name = next((name for name in VARIABLES[vendor] if name in environment), None)
    if name is None:
        return devices_problem(wanted, vendor, folder)
    entries = _entries(environment[name])
    if len(entries) != wanted:
        return f"{_gpus(len(entries))} visible ({name} is `{environment[name]}`), {wanted} asked for"
    if vendor == "nvidia" and not any(entry.startswith("MIG") for entry in entries):
        usable, broken = _device_files(vendor, folder)
        if len(usable) < len(entries):
            found = ", ".join(usable + broken) or f"no nvidia0 in `{folder}`"
            return f"{name} names {_gpus(len(entries))}, {len(usable)} of them can be opened here: {found}"
    return None


def devices_problem(wanted: int, vendor: str, folder: str) -> Optional[str]:
    """Count the device files below `folder` that can be opened: a job may see more than it was given."""
    usable, broken = _device_files(vendor, folder)
    if len(usable) == wanted:
        return None
    place = os.path.join(folder, _FILES[vendor][0]).rstrip("/")
    found = ", ".join(usable + broken) or "no device file"
    return f"{_gpus(len(usable))} can be opened in `{place}` ({found}), {wanted} asked for"


def tool_problem(
    wanted: int, vendor: str, environment: Mapping[str, str], seconds: float = TOOL_SECONDS
) -> Optional[str]:
    """Count the GPUs that the vendor's tool lists: whole ones, not parts of them."""
    words, line = _TOOLS[vendor]
    program = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if program is None:
        return f"the GPUs cannot be counted: `{words[0]}` is not in PATH"
    code, output = _ask([program, *words[1:]], environment, seconds)
    shown = " ".join(words)
    if code is None:
        return f"the GPUs cannot be counted: `{shown}` {output}"
    if code != 0:
        said = next((text.strip() for text in output.splitlines() if text.strip()), "it said nothing")
        return f"the GPUs cannot be counted: `{shown}` ended with exit code {code}: {said[:200]}"
    found = len(set(re.findall(line, output, re.MULTILINE)))
    return None if found == wanted else f"`{shown}` lists {_gpus(found)}, {wanted} asked for"


def _entries(text: str) -> List[str]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    end = next((at for at, entry in enumerate(entries) if entry in _NO_GPU), len(entries))
    return entries[:end]


def _device_files(vendor: str, folder: str) -> Tuple[List[str], List[str]]:
    """The names of device files that can be opened, and of others, each with the reason."""
    below, pattern = _FILES[vendor]
    usable: List[str] = []
    broken: List[str] = []
    try:
        names = sorted(os.listdir(os.path.join(folder, below)))
    except OSError:
        return [], []
    for name in names:
        if re.fullmatch(pattern, name) is None:
            continue
        try:
            os.close(os.open(os.path.join(folder, below, name), os.O_RDWR | os.O_NONBLOCK))
        except OSError as error:
            broken.append(f"{name}: {error.strerror}")
        else:
            usable.append(name)
    return usable, broken


def _ask(words: List[str], environment: Mapping[str, str], seconds: float) -> Tuple[Optional[int], str]:
    """The exit code and the output of a program; without a code, why there is none.

    One that hangs in the driver does not die by KILL: it is left behind, not waited for.
    """
    try:
        process = subprocess.Popen(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return None, f"cannot be started: {error.strerror}"
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
        return None, f"gave no answer within {seconds:g} s"
    return process.returncode, output.decode("utf-8", "backslashreplace")


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
