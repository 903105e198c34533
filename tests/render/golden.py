"""The golden scripts: what `tp compile` gives for the example sites, kept in `golden/` and compared whole.

They are written by `python tests/render/golden.py --write` alone, for a person to read in the diff; no test writes them.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (2, 1)]

from cli.world import World
from image_files import sif, sqsh

from tuneplane.catalog.load import load_catalog
from tuneplane.catalog.recipe import resolve
from tuneplane.experiment.lock import lock_text
from tuneplane.runs.helper import helper

FOLDER = Path(__file__).parent / "golden"
ROOT, HELPER = "/golden", "<digest of the helper>"
"""What stands in a golden script for the folder it was compiled in and for the digest of `tuneplane/job`."""

CUSTOM, PYTORCH = "custom/custom", "pytorch/image-classification"
ENTRIES = {
    CUSTOM: ("train.sh", '#!/bin/bash\nexec python3 "$@"\n'),
    PYTORCH: ("train.py", "print('train')\n"),
}
IMAGE, SQUASHFS = f"{ROOT}/images/tool 1.sif", f"{ROOT}/images/tool 1.sqsh"


@dataclass(frozen=True)
class Case:
    """One script. config: the `config.yaml`; options: words after the experiment, in which ROOT is the real folder."""

    site: str
    method: str
    config: str = ""
    options: tuple[str, ...] = ()


ODD = """\
env:
  PLAIN: value
  QUOTES: "it's \\"quoted\\" `id` $(id) $HOME \\\\"
  LINES: "one\\ntwo\\ttabbed\\r"
  HIDDEN: "a\\u202eb\\u00a0c\\u3164"
  WORLD: 世界 é 🫠
  EMPTY: ""
  COMMA: a,b:c=d
args: [--name=two words, "it's", "$(touch pwned)", "", "-n", "#", "~", "a\\nb", 世界]
"""

OPTIONS = """\
resources:
  profile: h200:16
  time: 1d12h
  account: "proj-1:team a"
  partition: gpu,long
  qos: 'say "high"'
  reservation: it's#1
  constraint: h200&(ib|roce)
  nodelist: n[01-04]
  exclude: n[09,11]
  nice: 100
  begin: 2030-01-01T12:00
  mail_user: "wei 世界@example.org"
  mail_type: END,FAIL
"""
SECRETS = "secrets: [WANDB_API_KEY, HF_TOKEN]\n"
DATA = "data: {train: '../../data/images, à trier', validation: '../../data/images, à trier'}\n"
MISSING = "model: ../models/none\ndata: {train: '../../no such data'}\n"


def cases() -> dict[str, Case]:
    """Every golden script by its name."""
    image = ("--image", IMAGE)
    found: dict[str, Case] = {}

    def add(site: str, method: str, what: str, config: str = "", *options: str) -> None:
        found[f"{site}.{method.partition('/')[0]}.{what}"] = Case(site, method, config, options)

    site = "slurm-apptainer"
    for method in (CUSTOM, PYTORCH):
        add(site, method, "part", "resources: {profile: h200:2}\n", *image)
        add(site, method, "node", "resources: {profile: h200:8}\n", *image)
        add(site, method, "nodes", "resources: {profile: h200:16, time: 2d}\n", *image)
        add(site, method, "cpu", "resources: {profile: cpu:2}\n", *image)
        add(site, method, "options", OPTIONS, *image)
    add(site, CUSTOM, "odd", ODD + SECRETS, *image)
    add(site, CUSTOM, "missing", MISSING, "--image", f"{ROOT}/images/none.sif")
    add(site, CUSTOM, "hub", "model: org/model@v1\ndata: {train: org/data}\n", *image)
    add(site, PYTORCH, "no-image", SECRETS)
    add(site, PYTORCH, "data", DATA + "params: {input_pipeline: image-folder}\n", *image, "--set", "epochs=3")
    image = ("--image", SQUASHFS)
    for site in ("slurm-pyxis", "slurm-enroot"):
        add(site, PYTORCH, "nodes", "resources: {profile: h100:16}\n", *image)
        add(site, PYTORCH, "no-image")
        add(site, CUSTOM, "odd", ODD + SECRETS, *image)
        add(site, CUSTOM, "hub", "model: org/model@v1\ndata: {train: org/data}\n", *image)
        add(site, CUSTOM, "data", "data: {train: '../../data/images'}\n", *image)
    site = "slurm-modules"
    for method in (CUSTOM, PYTORCH):
        add(site, method, "part", "resources: {profile: a100:1}\n")
        add(site, method, "node", "resources: {profile: a100:4}\n")
        add(site, method, "nodes", "resources: {profile: a100:8}\n", "--time", "90m")
    add(site, CUSTOM, "odd", ODD + SECRETS, "--", "--other", "it's", "--")
    add(site, CUSTOM, "missing", MISSING)
    add(site, PYTORCH, "options", "resources: {qos: long, account: a b, mail_user: me, mail_type: all}\n")
    site = "local"
    for method in (CUSTOM, PYTORCH):
        add(site, method, "node", "resources: {profile: cpu2}\n")
        add(site, method, "part", "resources: {profile: gpu:1}\n")
    add(site, CUSTOM, "odd", ODD + SECRETS)
    add(site, CUSTOM, "hub", "model: org/model\n")
    add(site, CUSTOM, "missing", MISSING)
    add(site, PYTORCH, "data", DATA)
    return found


class Maker:
    """Compiles the cases in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.world = World(place, place / "cache")
        self.root = root = self.world.root
        if not re.fullmatch(r"[A-Za-z0-9/_.-]+", str(root)) or ROOT in str(root):
            raise ValueError(f"{root} is no folder whose name can be replaced in a script")
        (root / "images").mkdir()
        Path(self.real(IMAGE)).write_bytes(sif())
        Path(self.real(SQUASHFS)).write_bytes(sqsh())
        (root / "data/images, à trier").mkdir(parents=True)
        (root / "data/images").mkdir()
        repository = self.world.home / ".cache/huggingface/hub/models--org--model"
        commit = "0123456789abcdef0123456789abcdef01234567"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs/main").write_text(commit)
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text("{}")

    def real(self, text: str) -> str:
        return text.replace(ROOT, str(self.root))

    def script(self, name: str, case: Case) -> str:
        """The script of a case, with nothing in it that depends on this folder or on the helper's code."""
        folder = self.root / "experiments" / name
        folder.mkdir(parents=True)
        entry, text = ENTRIES[case.method]
        (folder / entry).write_text(text)
        (folder / "config.yaml").write_text(case.config, encoding="utf-8")
        (folder / "recipe.lock.json").write_text(lock_text(resolve(load_catalog().manifest(case.method))))
        words = ["--site", case.site, "compile", str(folder), *map(self.real, case.options)]
        said = self.world.tp(*words)
        if said.code:
            raise ValueError(f"{name} does not compile:\n{said.err}")
        return self.placeless(said.out)

    def placeless(self, script: str) -> str:
        digest = helper().digest
        # in the header and in the check, and what stands for them nowhere by itself
        if script.count(digest) != 2 or ROOT in script.replace(str(self.root), "") or HELPER in script:
            raise ValueError(f"not the script that was expected:\n{script}")
        return script.replace(digest, HELPER).replace(str(self.root), ROOT)


def write() -> None:
    """Make `golden/` hold the scripts of today, and no others."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tpgold") as place:
        maker = Maker(Path(place))
        scripts = {f"{name}.sbatch": maker.script(name, case) for name, case in cases().items()}
    for file in FOLDER.iterdir():
        if file.name not in scripts:
            file.unlink()
    for name, text in scripts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: golden.py --write")
    write()
