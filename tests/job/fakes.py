"""Interpreters with packages that record how they were started, in place of the real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RECORDER = """
import json, os, sys
def record(what):
    path = os.path.join(os.environ["TUNEPLANE_EXPERIMENT_DIR"], what + "-" + os.environ["TUNEPLANE_NODE_RANK"])
    with open(path + ".new", "w") as file:
        json.dump({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}, file)
    os.rename(path + ".new", path)
"""

ACCELERATE = {
    "accelerate/__init__.py": "",
    "accelerate/commands/__init__.py": "",
    "accelerate/commands/launch.py": RECORDER
    + "default_config_file = 'the file of the user'\n"
    + "def main():\n    assert not default_config_file\n    record('accelerate')\n",
}

# `ray start` leaves a file per node, which `ray.nodes()` reads; a file `broken-RANK` makes it end, `absent-RANK`
# makes it never join, `slow-RANK` makes its first start fail.
RAY = {
    "ray/__init__.py": """
import glob, json, os
def init(**_): assert os.environ["RAY_ADDRESS"]
def shutdown(): pass
def nodes():
    return [json.load(open(path)) for path in glob.glob(os.environ["TUNEPLANE_EXPERIMENT_DIR"] + "/joined-*")]
""",
    "ray/scripts/__init__.py": "",
    "ray/scripts/scripts.py": RECORDER
    + """
import socket, time
def main():
    record("ray")
    folder, rank = os.environ["TUNEPLANE_EXPERIMENT_DIR"], os.environ["TUNEPLANE_NODE_RANK"]
    slow = os.path.join(folder, "slow-" + rank)
    if os.path.exists(slow):
        os.unlink(slow)
        print("the node timed out during startup")
        return 1
    given = dict(word[2:].partition("=")[::2] for word in sys.argv[2:])
    services = [socket.create_server(("", int(given["node-manager-port"])))]
    if "head" in given:
        services.append(socket.create_server(("", int(given["port"]))))
    names = ("NodeManagerAddress", given["node-ip-address"]), ("NodeManagerPort", int(given["node-manager-port"]))
    has = {"CPU": float(given["num-cpus"]), "GPU": float(given["num-gpus"])}
    joined = os.path.join(folder, "joined-" + rank)
    while True:
        if not os.path.exists(os.path.join(folder, "absent-" + rank)) and not os.path.exists(joined):
            with open(os.path.join(folder, "." + rank), "w") as file:
                json.dump(dict(names, Alive=True, Resources=has), file)
            os.rename(file.name, joined)
        if os.path.exists(os.path.join(folder, "broken-" + rank)):
            print("a raylet died")
            return 1
        time.sleep(0.05)
""",
}


def ray(version: str) -> dict[str, str]:
    """The files of a Ray of this version."""
    about = f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n"
    return RAY | {f"ray-{version}.dist-info/METADATA": about}


def interpreter(folder: Path, files: dict[str, str], base: str = sys.executable) -> str:
    """An interpreter that finds these files as packages, whatever PYTHONPATH says."""
    subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    for name, text in files.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder / "bin" / "python")
