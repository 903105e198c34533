"""Every kind of bad input: what is said of it, with which exit code, and that nothing is written.

Each case is refused by `validate`, `submit` and `compile` alike, in the same words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli.world import REPOSITORY, Expected, Said, World

expected = Expected("bad_input")

RECIPES = [str(REPOSITORY / "tests/catalog_overlay"), str(REPOSITORY / "tests/cli/recipes")]
LONG = "x" * (128 * 1024)
SOUND = "model: .\ndata: {train: .}\n"
"""What the method toy/tuned needs, in two lines."""


@dataclass(frozen=True)
class Case:
    """An experiment gone wrong: its `config.yaml`, more words of the command line, other files, its site."""

    config: str | bytes = ""
    words: tuple[str, ...] = ()
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    method: str = "custom/custom"
    site: str = "local"
    change: Callable[[Path], object] = lambda folder: None
    compiles: bool = False
    commands: tuple[str, ...] = ("submit", "compile")


def toy(config: str = "", *words: str) -> Case:
    return Case(SOUND + config, words, method="toy/tuned", site="bench")


def lock(section: str, key: str, value: object, method: str = "toy/tuned") -> Case:
    def change(folder: Path) -> None:
        file = folder / "recipe.lock.json"
        data = json.loads(file.read_text())
        data[section][key] = value
        file.write_text(json.dumps(data, indent=2) + "\n")

    return Case(SOUND if method == "toy/tuned" else "", method=method, site="bench", change=change)


def lock_text(text: str | bytes | None) -> Case:
    return Case(files={"recipe.lock.json": text})


def bomb(levels: int = 9) -> str:
    """Nine levels of ten aliases each: a billion words from one kilobyte."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, levels):
        lines.append(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]")
    return "\n".join(lines) + "\n"


def sparse(size: int) -> Callable[[Path], object]:
    """A `config.yaml` of `size` bytes that takes no room on disk."""

    def change(folder: Path) -> None:
        with (folder / "config.yaml").open("r+b") as file:
            file.truncate(size)

    return change


def only_the_entry(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in ("config.yaml", "recipe.lock.json"):
            path.unlink()
    (folder / "train.sh").write_text("exit\n")


def many_files(folder: Path) -> None:
    only_the_entry(folder)
    for i in range(30):
        (folder / f"part-{i}.txt").write_text("x" * i)


def many_bytes(folder: Path) -> None:
    only_the_entry(folder)
    (folder / "weights.bin").write_bytes(b"x" * 70_000)


def as_link(folder: Path) -> None:
    (folder / "config.yaml").rename(folder.parent / "elsewhere.yaml")
    (folder / "config.yaml").symlink_to("../elsewhere.yaml")


def as_folder(folder: Path) -> None:
    (folder / "config.yaml").unlink()
    (folder / "config.yaml").mkdir()


CONFIG = {
    "unknown section": Case("modle: x\n"),
    "unknown section like none": Case("colour: x\n"),
    "unknown data": Case("data: {trian: x}\n"),
    "unknown resource": Case("resources: {profil: cpu}\n"),
    "resource that belongs to tp": Case("resources: {gres: gpu:8}\n"),
    "unknown tracker": Case("tracking: [console, wanb]\n"),
    "tracker that the method does not take": Case("tracking: [wandb]\n"),
    "section that is no mapping": Case("params: 3\nenv: [A]\nresources: h200\n"),
    "section that is no list": Case("args: x\nsecrets: HF_TOKEN\n"),
    "a list for a text": Case("model: [a]\ndata: {train: {a: b}}\nenv: {A: [1]}\n"),
    "empty texts": Case('model: ""\nenv: {A: }\nargs: [a, null, [b]]\n'),
    "bad names of variables": Case("env: {A-B: x, 1A: y, '': z, É: a}\n"),
    "bad names of secrets": Case("secrets: [A B, 1A, '', A=b]\n"),
    "a document of a text": Case("just text\n"),
    "a document of a list": Case("- a\n"),
    "parameters of a method without any": Case("params: {learning_rate: 1}\n"),
    "words of a method that takes none": toy("args: [a]\n"),
    "model of a method that takes none": Case("model: .\n", method="pytorch/image-classification"),
    "no model and no data": Case("", method="toy/tuned", site="bench"),
}

YAML = {
    "a tab as indentation": Case("data:\n\ttrain: x\n"),
    "a tab behind spaces": Case("data:\n  \ttrain: x\n  validation: y\n"),
    "a tab after a dash": Case("args:\n-\ta\n"),
    "equal keys": Case("args: [a]\nenv: {A: 1}\nargs: [b]\n"),
    "equal keys inside": Case("env:\n  A: 1\n  B: 2\n  A: 3\n"),
    "equal keys, nested and dotted": toy("overrides: {a: {b: 1}, a.b: 2}\n"),
    "a merge key": Case("x: &x {A: 1}\nenv: {<<: *x}\n"),
    "a merge bomb": Case("a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nenv: {<<: [*b, *b]}\n"),
    "an alias bomb": Case(bomb(), commands=()),
    "an alias of itself": Case("args: &a [*a]\n"),
    "an unknown alias": Case("args: *a\n"),
    "deep nesting": Case("args: " + "[" * 5000 + "]" * 5000 + "\n"),
    "100 MB": Case("x", change=sparse(100_000_000)),
    "one byte over 1 MiB": Case("x", change=sparse((1 << 20) + 1)),
    "a tag": Case("args: !!python/object/apply:os.system ['touch pwned']\n"),
    "a value that is not its tag": Case("env: {A: !!int x}\n"),
    "an open bracket": Case("args: [a\n"),
    "an open quote": Case("env:\n  A: 'x\n"),
    "a colon too many": Case("env: {A: 1}\nmodel: a: b\n"),
    "two documents": Case("env: {A: 1}\n---\nenv: {A: 2}\n"),
    "a key that is a list": Case("env: {? [a] : b}\n"),
    "not UTF-8": Case(b"env:\n  A: b\xff\n"),
    "a NUL byte": Case(b"env:\n  A: a\0b\n"),
    "a control character": Case("env:\n  A: a\x1bb\n"),
    "escaped NULs": Case('model: "a\\0b"\nargs: ["a\\0b"]\n'),
    "an escaped NUL in a variable": Case('env: {A: "a\\0b"}\n'),
    "a folder for config.yaml": Case(change=as_folder),
    "a link for config.yaml": Case(change=as_link),
}

VALUES = {
    "above an open end": toy("params: {beta: 1}\n"),
    "below an open end": toy("params: {beta: 0}\n"),
    "below a closed end": toy("params: {warmup: -1}\n"),
    "not a number": toy("params: {beta: .nan}\n"),
    "infinite": toy("params: {beta: .inf}\n"),
    "overflows": toy("params: {beta: 1e999}\n"),
    "words for numbers": toy("params: {beta: small, warmup: ten}\n"),
    "a fraction for a whole number": toy("params: {warmup: 1.5}\n"),
    "an exponent for a whole number": toy("params: {warmup: 1e3}\n"),
    "YAML 1.1's yes": toy("params: {packing: yes}\n"),
    "one for true": toy("params: {packing: 1}\n"),
    "no choice, with a near one": toy("params: {kind: smal}\n"),
    "no choice": toy("params: {kind: medium}\n"),
    "a list, one item out of range": toy("params: {layers: [1, 81]}\n"),
    "a list with an empty item": toy("params: {tags: [a, null]}\n"),
    "a list in a list": toy("params: {layers: [1, [2]]}\n"),
    "a list for a number": toy("params: {beta: [0.1]}\n"),
    "a mapping for a number": toy("params: {beta: {a: 1}}\n"),
    "empty": toy("params: {beta: }\n"),
    "an empty path": toy("params: {template: ''}\n"),
    "a NUL character": toy('params: {note: "a\\0b"}\n'),
    "an ambiguous duration": toy("params: {every: 90}\n"),
    "unknown parameter": toy("params: {bata: 0.2}\n"),
    "unknown parameter like none": toy("params: {zzz: 0.2}\n"),
    "the upstream name of a parameter": toy("params: {loss.beta: 0.2}\n"),
    "name and alias": toy("params: {kl_beta: 0.3, beta: 0.2}\n"),
    "a broken rule": toy("params: {packing: true, warmup: 0}\n"),
    "a broken rule over the topology": Case(
        "params:\n  batch_size: 63\nresources: {profile: cpu2}\n", method="pytorch/image-classification"
    ),
    "a broken rule, half from the command line": toy("params: {warmup: 0}\n", "--set", "packing=true"),
    "--set out of range": toy("", "--set", "beta=2"),
    "--set not finite": toy("", "--set", "beta=nan"),
    "--set empty": toy("", "--set", "beta="),
    "--set of the wrong type": toy("", "--set", "warmup=1.0"),
    "--set of no list": toy("", "--set", "layers=["),
    "--set of a list with a bad item": toy("", "--set", "layers=1,x"),
    "--set of an unknown parameter": toy("", "--set", "bata=1"),
    "--set ambiguous": toy("", "--set", "every=1:30"),
    "--set twice, one of them bad": toy("", "--set", "beta=2", "--set", "beta=0.2"),
    "pinned in params": toy("params: {loss.kind: hinge}\n"),
    "pinned in overrides": toy("overrides: {loss: {kind: hinge}}\n"),
    "pinned in --set": toy("", "--set", "loss.kind=hinge"),
    "owned in params": toy("params: {trainer.nodes: 2, model_path: x}\n"),
    "owned in overrides": toy("overrides: {trainer.nodes: 2}\n"),
    "owned in --set": toy("", "--set", "trainer.nodes=2"),
    "overrides without an index": toy("overrides: {optimizer.betas: 1}\n"),
    "overrides of a named parameter": toy("overrides: {loss: {beta: 0.2}}\n"),
}

PLACES = {
    "unknown profile": Case("resources: {profile: cpuu}\n"),
    "unknown profile like none": Case("resources: {profile: h200:8}\n"),
    "no nodes": Case("resources: {profile: cpu:0}\n"),
    "a number that is none": Case("resources: {profile: cpu:two}\n"),
    "two numbers": Case("resources: {profile: 'cpu:1:2'}\n"),
    "a line break in a profile": Case("", ("--profile", "cpu\nx")),
    "more nodes than there are": Case("resources: {profile: cpu:2}\n"),
    "no whole number of nodes": Case(
        "resources: {profile: h200:12}\n", ("--image", "x.sif"), site="slurm-apptainer"
    ),
    "no whole number of nodes, and no more nodes": Case("resources: {profile: gpu:12}\n"),
    "--profile unknown": Case("resources: {profile: cpu}\n", ("--profile", "gpuu")),
    "a bare number of time": Case("resources: {time: 90}\n"),
    "two fields of time": Case("resources: {time: 90:30}\n"),
    "Slurm's days and hours": Case("resources: {time: 1-12}\n"),
    "no time at all": Case("resources: {time: 0h}\n"),
    "a year and two days": Case("resources: {time: 367d}\n"),
    "no length of time": Case("resources: {time: tomorrow}\n"),
    "--time ambiguous": Case("", ("--time", "90")),
    "longer than the profile": Case("resources: {time: 8d}\n", ("--image", "x.sif"), site="slurm-apptainer"),
    "an option on a site without scheduler": Case("resources: {account: a}\n"),
    "an option the site does not let": Case("resources: {reservation: r}\n", site="slurm-modules"),
    "a value the site does not take": Case("resources: {qos: highest}\n", site="slurm-modules"),
    "bad values of options": Case(
        'resources: {account: "a\\nb", nice: -1, begin: tomorrow, mail_type: SOME, nodelist: "n1 n2"}\n',
        ("--image", "x.sif"),
        site="slurm-apptainer",
    ),
    "no image for a method without runtime id": Case(site="slurm-apptainer"),
    "an image on a site without": Case("", ("--image", "x.sif")),
    "a folder for an image": Case("", ("--image", "."), site="slurm-apptainer"),
}

ENVIRONMENT = {
    "names the launcher owns": Case(
        "env:\n"
        + "".join(
            f"  {name}: x\n"
            for name in (
                "RANK",
                "WORLD_SIZE",
                "MASTER_ADDR",
                "RAY_ADDRESS",
                "CUDA_VISIBLE_DEVICES",
                "SLURM_JOB_ID",
                "APPTAINERENV_X",
                "PATH",
                "LD_PRELOAD",
                "BASH_ENV",
                "TUNEPLANE_RUN_ID",
                "HOME",
            )
        )
    ),
    "secrets the launcher owns": Case("secrets: [LD_PRELOAD, TUNEPLANE_MODEL]\n"),
    "secrets in env": Case("env:\n  HF_TOKEN: hf_abc\n  WANDB_API_KEY: abc\n  MY_PASSWORD: x\n"),
    "secrets in params": toy("params: {hub_token: abc}\n"),
    "secrets in overrides": toy("overrides: {logger: {wandb: {api_key: abc}}}\n"),
    "secrets in --set": toy("", "--set", "hub_token=s3cr3t"),
    "under env and secrets": Case("env: {A: x}\nsecrets: [A]\n"),
    "a variable of 128 KiB": Case(f"env: {{A: {LONG}}}\n"),
    "a word of 128 KiB": Case(f"args: [a, {LONG}]\n"),
    "a word of 128 KiB in UTF-8": Case(f"args: [{'é' * (64 * 1024)}]\n"),
    "a word of 128 KiB on the command line": Case("", ("--", LONG)),
    "a parameter of 128 KiB": Case(f"params: {{arch: {LONG}}}\n", method="pytorch/image-classification"),
}

FILES = {
    "no entry file": Case(files={"train.sh": None}),
    "an entry file that is not frozen": Case(files={".tpignore": "train.sh\n"}),
    "a configuration that is not frozen": Case(files={".tpignore": "*.yaml\n"}),
    "a lock that is not frozen": Case(files={".tpignore": "*.json\n"}),
    "too many files": Case(site="bench", change=many_files),
    "too many bytes": Case(site="bench", change=many_bytes),
    "a control character in a file's name": Case(files={"a\nb": "x"}),
}

LOCKS = {
    "stale recipe version": lock("recipe", "version", "1.1.0"),
    "stale recipe digest": lock("recipe", "digest", "0" * 64),
    "stale framework kind": lock("framework", "kind", "trl"),
    "stale framework version": lock("framework", "version", "1.0.0"),
    "stale runtime id": lock("framework", "runtime_id", "toy-2"),
    "stale core": lock("requires", "core", ">=0.1"),
    "core of another tp": lock("requires", "core", ">=0.2,<0.3"),
    "core that is none": lock("requires", "core", "latest"),
    "unknown method": lock("recipe", "name", "toy/tund"),
    "another method": lock("recipe", "name", "custom/custom"),
    "removed framework version": lock("framework", "version", "1.9.0"),
    "a number for a text": lock("recipe", "version", 1),
    "no lock": lock_text(None),
    "an empty lock": lock_text(""),
    "a lock cut off": lock_text('{\n  "schema": 1,\n  "recipe": {\n'),
    "a lock that is a list": lock_text("[]\n"),
    "a lock of another schema": lock_text('{"schema": 2}\n'),
    "a lock without its fields": lock_text('{"schema": 1, "recipe": {"name": "custom/custom"}}\n'),
    "a lock with equal keys": lock_text('{"schema": 1,\n "schema": 1}\n'),
    "a lock of bytes": lock_text(b"\x00\x01\xff\n"),
}

TOGETHER = {
    "faults of shape": Case("modle: x\ndata: {trian: y}\nenv: {A: [1]}\ntracking: [wanb]\nargs: [[1]]\n"),
    "faults of value": toy(
        "params: {beta: 2, warmup: x}\n"
        "env: {RANK: 1, HF_TOKEN: x}\n"
        "resources: {profile: nowhere, time: 90, account: a}\n"
        "tracking: [wandb]\n"
        "secrets: [PATH]\n",
        "--set",
        "kind=smal",
    ),
    "faults of several exit codes": Case("resources: {qos: highest}\nparams: {a: 1}\n", site="slurm-modules"),
}

ABSENT = {
    "no model": Case("model: weights\n", compiles=True),
    "no path of a parameter": Case(
        SOUND + "params: {template: missing/chat.jinja}\n", method="toy/tuned", site="bench", compiles=True
    ),
    "no model, absolute": Case("model: /nowhere/weights\n", compiles=True),
    "no data": Case("data:\n  train: data/train.parquet\n  validation: ../test\n", compiles=True),
    "--model and the like": Case(
        "", ("--model", "./w", "--train-data", "a.json", "--validation-data", "~/b"), compiles=True
    ),
    "a control character in a path": Case('model: "a\\nb"\n', compiles=True),
    "no model cache": Case("model: org/name\ndata: {train: org/set@v1.0}\n", compiles=True),
    "no image": Case("", ("--image", "x.sif"), site="slurm-apptainer", compiles=True),
    "the site's image is gone": Case(
        method="pytorch/image-classification", site="slurm-apptainer", compiles=True
    ),
    "no image for the runtime id": Case(
        method="pytorch/image-classification", site="imageless", compiles=True
    ),
    "no image, no model, no data": Case(
        "model: weights\ndata: {train: org/set}\n",
        ("--image", "x.sif"),
        site="slurm-apptainer",
        compiles=True,
    ),
    "no secrets file, no model": Case("secrets: [HF_TOKEN]\nmodel: weights\n"),
}

GROUPS = {
    "config": CONFIG,
    "yaml": YAML,
    "value": VALUES,
    "place": PLACES,
    "environment": ENVIRONMENT,
    "file": FILES,
    "lock": LOCKS,
    "together": TOGETHER,
    "absent": ABSENT,
}
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}


def prepared(world: World, case: Case) -> None:
    """The experiment `exp` of a case, and the sites that cases name."""
    world.site("bench", "local", recipes=RECIPES, freeze={"max_bytes": 1 << 16, "max_files": 20})
    world.site("imageless", "slurm-apptainer", runtime={"kind": "apptainer"})
    folder = world.made("exp", case.method, "--site", "bench")
    config = case.config.encode() if isinstance(case.config, str) else case.config
    files: dict[str, str | bytes | None] = {"config.yaml": config, **case.files}
    for name, data in files.items():
        if data is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    case.change(folder)


def tried(world: World, case: Case, command: str) -> Said:
    """One command on the case, after which the world is as it was."""
    before = world.tree()
    said = world.tp("--site", case.site, command, "exp", *case.words)
    assert world.tree() == before
    return said


@pytest.mark.parametrize("name", CASES)
def test_refused_and_nothing_is_written(world: World, name: str) -> None:
    case = CASES[name]
    prepared(world, case)
    said = tried(world, case, "validate")
    expected(said, name, world)
    for command in case.commands:
        if command != "compile" or not name.startswith("absent:"):
            assert tried(world, case, command) == said


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.compiles])
def test_what_is_absent_compiles_and_the_script_ends_in_its_checks(world: World, name: str) -> None:
    case = CASES[name]
    prepared(world, case)
    said = tried(world, case, "compile")
    expected(Said(said.code, "", said.err), f"compiled: {name}", world)
    assert said.out.startswith("#!/bin/bash -p\n") and said.out.endswith("\n")
    assert said.out.count("tp_missing=") == len(said.err.splitlines())
    assert ("digest unknown" in said.out) == ("image" in name)


def test_a_broken_rule_is_told_in_the_locales_language(world: World) -> None:
    prepared(world, CASES["value: a broken rule over the topology"])
    said = world.tp("validate", "exp", LC_ALL="zh_CN.UTF-8")
    assert said.code == 3 and said.err.startswith("error: batch_size 必须是进程数的整数倍\n")


def test_a_script_over_the_sites_size(world: World) -> None:
    world.made()
    slurm = {"options": {}, "max_script_size": 4 << 20}
    world.site("tight", "slurm-modules", slurm=slurm)
    size = len(world.tp("--site", "tight", "compile", "exp").out.encode())
    for limit, code in ((size, 0), (size - 1, 6)):
        world.site("tight", "slurm-modules", slurm=slurm | {"max_script_size": limit})
        before = world.tree()
        refused = f"error: the script has {size} bytes\n  expected at most {size - 1} (max_script_size)\n"
        for command in ("compile", "validate", "submit") if code else ("compile", "validate"):
            said = world.tp("--site", "tight", command, "exp")
            assert (said.code, said.err) == ((code, refused) if code else (0, ""))
        assert world.tree() == before


def test_every_transcript_is_of_a_case() -> None:
    from cli.world import sections

    compiled = {f"compiled: {name}" for name, case in CASES.items() if case.compiles}
    assert set(sections("bad_input")) == {*CASES, *compiled, *NOT_THERE}


NOT_THERE = {
    "experiment: none": "nothing",
    "experiment: a near one": "exq",
    "experiment: a file": "file",
    "experiment: a folder that is none": "folder",
    "experiment: a path": "some/where",
    "experiment: a control character": "a\nb",
    "experiment: without a lock": "half",
    "experiment: hidden": ".hidden",
}


@pytest.mark.parametrize("name", NOT_THERE)
def test_no_experiment(world: World, name: str) -> None:
    world.made("exp")
    (world.folder / "file").write_text("x")
    for folder in ("folder", "half", ".hidden"):
        (world.folder / folder).mkdir()
    (world.folder / "half/config.yaml").write_text("")
    for file in ("config.yaml", "recipe.lock.json"):
        (world.folder / ".hidden" / file).write_bytes((world.folder / "exp" / file).read_bytes())
    before = world.tree()
    said = [world.tp(command, NOT_THERE[name]) for command in ("validate", "submit", "compile", "explain")]
    expected(said[0], name, world)
    assert said == [said[0]] * 4 and world.tree() == before


def test_a_fifo_is_never_waited_for(world: World) -> None:
    import os

    folder = world.made()
    (folder / "config.yaml").unlink()
    os.mkfifo(folder / "config.yaml")
    said = world.tp("validate", "exp")
    assert (said.code, said.out) == (3, "") and "config.yaml" in said.err


def test_the_same_as_a_process(world: World) -> None:
    case = CASES["value: above an open end"]
    prepared(world, case)
    before = world.tree()
    expected(world.real("--site", "bench", "submit", "exp"), "value: above an open end", world)
    assert world.tree() == before
