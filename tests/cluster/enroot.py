"""`create`, `start` and `remove` of Enroot 4.1.2 by Apptainer: containers of which only the way in is not Enroot's.

A container is a folder in ENROOT_DATA_PATH that says which image it is of. CI has no Enroot.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from render.recorders import ENROOT, Options, Refused, enroot_mount, one, parsed

APPTAINER = "/usr/bin/apptainer"
WORDS = "--quiet exec --cleanenv --no-eval --pid --no-mount home,cwd,tmp --pwd /var"
RC = "/enroot.rc"


def container(name: str) -> Path:
    return Path(os.environ["ENROOT_DATA_PATH"], name)


def create(options: Options, words: list[str]) -> int:
    [image], name = words, one(options, "--name")
    if "/" in name or container(name).exists():
        raise Refused(1, f"[ERROR] File already exists: {name}")
    Path(os.environ["ENROOT_RUNTIME_PATH"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    container(name).mkdir(parents=True)
    os.stat(image)
    container(name).joinpath("image").symlink_to(image)
    return 0


def start(options: Options, words: list[str]) -> int:
    name, *command = words
    image = os.readlink(container(name) / "image")
    mounts = [enroot_mount(text) for text in options.get("--mount", [])]
    mounts.append([one(options, "--rc"), RC, "ro"])
    said = [APPTAINER, *WORDS.split(), *(["--writable-tmpfs"] if os.environ["ENROOT_ROOTFS_WRITABLE"] == "y" else [])]  # fmt: skip
    for source, target, mode in mounts:
        said += ["--mount", f"type=bind,src={source},dst={target}" + (",ro" if mode == "ro" else "")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("APPTAINER")}
    for text in options.get("--env", []):
        key, equals, value = text.partition("=")
        environment[f"APPTAINERENV_{key}"] = value if equals else os.environ.get(key, "")
    os.execve(APPTAINER, [*said, image, "/bin/sh", RC, *command], environment)


def remove(options: Options, words: list[str]) -> int:
    for name in words:
        shutil.rmtree(container(name))
    return 0


if __name__ == "__main__":
    act = sys.argv[1]
    try:
        found = parsed(sys.argv[2:], ENROOT[act], "enroot")
        sys.exit({"create": create, "start": start, "remove": remove}[act](*found))
    except Refused as refused:
        sys.exit(str(refused))
