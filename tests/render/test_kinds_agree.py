"""One experiment, three sites that differ in the kind of their runtime alone: what runs inside finds the same.

Each script is started by the real bash, with stand-ins for srun, apptainer and enroot that record what they are asked;
`contained` and `start` run as they are. What the real programs do with these words was found by hand.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from image_files import sqsh
from render.places import PYTHON, SHOW, Place, Run, arrived, environ, nodes_of, odd_config
from render.recorders import (
    APPTAINER,
    APPTAINER_EXEC,
    ENROOT,
    HOOKS,
    IMAGE,
    PYXIS,
    SRUN,
    Refused,
    install,
    parsed,
)

KINDS = ("apptainer", "pyxis", "enroot")
PROGRAMS = ("srun", "apptainer", "enroot")
OWN = {
    "apptainer": r"APPTAINER_.*|SINGULARITY_.*|PS1|PROMPT_COMMAND|LD_LIBRARY_PATH",
    "pyxis": "NVIDIA_VISIBLE_DEVICES|NVIDIA_DRIVER_CAPABILITIES",
    "enroot": "NVIDIA_VISIBLE_DEVICES|NVIDIA_DRIVER_CAPABILITIES",
}
"""Variables that one kind brings along and the others do not."""
OF_SHELLS = {"PWD", "OLDPWD", "SHLVL", "SHELL", "TERM", "LC_CTYPE", "_"}
SWITCHES = {
    "apptainer": ["APPTAINER_CACHEDIR", "APPTAINER_TMPDIR"],
    "pyxis": ["ENROOT_CONFIG_PATH", "ENROOT_LOGIN_SHELL"],
    "enroot": [
        f"ENROOT_{name}"
        for name in (
            "CACHE_PATH CONFIG_PATH DATA_PATH LOGIN_SHELL MOUNT_HOME REMAP_ROOT ROOTFS_WRITABLE RUNTIME_PATH"
            " TEMP_PATH"
        ).split()
    ],
}
"""All variables that the programs of a kind would obey, as the script leaves them."""
HOSTILE = {
    "APPTAINER_BIND": "/etc",
    "APPTAINER_NO_MOUNT": "tmp",
    "APPTAINERENV_X": "evil",
    "SINGULARITY_BIND": "/etc",
    "SINGULARITYENV_X": "evil",
    "ENROOT_MOUNTS": "/etc:/evil",
    "ENROOT_REMAP_ROOT": "y",
    "ENROOT_ROOTFS_WRITABLE": "y",
    "ENROOT_MOUNT_HOME": "y",
    "PYXIS_CONTAINER_MOUNTS": "/etc:/evil",
    "PYXIS_CONTAINER_IMAGE": "/evil.sqsh",
    "PYXIS_CONTAINER_REMAP_ROOT": "1",
    "NVIDIA_VISIBLE_DEVICES": "3",
    "TUNEPLANE_NAMES": "X",
    "TUNEPLANE_ENV_X": "evil",
    "TUNEPLANE_SCRATCH": "/evil",
    "RANK": "5",
    "LANG": "evil",
}


@dataclass(frozen=True)
class Case:
    """config: the `config.yaml`, in which ROOT is the place's folder; runtime: more keys of the site's; site: too."""

    config: str = ""
    profile: str = "cpu"
    runtime: Mapping[str, Any] = field(default_factory=dict)
    site: Mapping[str, Any] = field(default_factory=dict)


ODD = r"""env:
  PLAIN: value
  LANG: C
  EMPTY: ""
  QUOTED: '"all"'
  QUOTES: "it's \"quoted\" `id` $(touch pwned) ${HOME} \\"
  LINES: "one\nX=evil\n\ttwo\n"
  WORLD: 世界 é 🫠
  CONTROLS: "\x01\x1b[31m\x7f\r"
args: [--name=two words, "it's", "$(touch pwned)", "", "-n", "--", "a\nb", 世界, '"all"', "\\"]
"""
SECRETS = "secrets: [MY_TOKEN, OTHER_TOKEN]\n"
CASES = {
    "plain": Case(),
    "odd": Case(ODD),
    "secrets": Case(SECRETS),
    "nodes": Case(ODD + SECRETS, "cpu:3"),
    "gpus": Case(profile="gpu:8"),
    "part": Case(profile="gpu:3", runtime={"gpu": "none"}),
    "data": Case("model: ROOT/linked\ndata: {train: ROOT/data, validation: ROOT/data/one}\n"),
    "hub": Case("model: org/model\n"),
    "cache": Case(site={"network": {"online": True}, "environment": {"HF_HOME": "/else", "NCCL_DEBUG": "it's"}}),
    "home": Case(runtime={"home": True}),
    "writable": Case(runtime={"writable": True}),
    "binds": Case(runtime={"binds": ["ROOT/binds/{user}:ro", "ROOT/data", "/etc:ro"]}),
    "staged": Case(ODD, "cpu:2", runtime={"staging": {"folder": "ROOT/local", "keep_free": "0"}}),
    "setup": Case(site={"setup": ["export LD_LIBRARY_PATH=/host PYTHONPATH=/host MODULES=1 LANG=host"]}),
    "all": Case(
        ODD + SECRETS + "model: org/model\ndata: {train: ROOT/data}\n",
        "gpu:16",
        {"home": True, "writable": True, "binds": ["/etc:ro"], "staging": {"folder": "ROOT/local", "keep_free": "0"}},
        {"private_runs": True},
    ),
}  # fmt: skip
SUPERVISOR = [
    "--kind", "process", "--nodes", "1", "--cpus", "2", "--gpus", "0", "--interface", "lo",
    "--free", '{"scratch":268435456,"shared_memory":67108864,"run":268435456,"inodes":1000}',
    "--gpu-count", "visible", "--gpu-vendor", "nvidia", "--", "bash", "train.sh",
]  # fmt: skip
"""What every kind starts the supervisor with in a plain job."""


class Kinds:
    """The place with one site for each kind, and what the scripts for them ask for."""

    def __init__(self, place: Place, supervise: bool = True) -> None:
        self.place, self.root, self.user = place, place.root, pwd.getpwuid(os.getuid()).pw_name
        self.image = self.root / "images/tool.sqsh"
        self.image.parent.mkdir()
        self.image.write_bytes(sqsh(b"payload"))
        for name in ("data", "store", "real", f"binds/{self.user}", "local", "huggingface"):
            (self.root / name).mkdir(parents=True)
        (self.root / "data/one").touch()
        self._linked()
        place.secrets.write_text('MY_TOKEN=it\'s c4n4ry $(id) "é"\nOTHER_TOKEN=x=y,z\n')
        place.secrets.chmod(0o600)
        self.record = self.root / "record"
        self.programs = self.root / "programs"
        install(self.programs, self.record, f"{PYTHON}:/usr/bin:/bin", supervise)

    def _linked(self) -> None:
        """A model behind links, whose weights lie elsewhere; and one of the Hub."""
        (self.root / "store/weights").touch()
        (self.root / "real/weights").symlink_to(self.root / "store/weights")
        (self.root / "linked").symlink_to(self.root / "real")
        repository = self.root / "huggingface/hub/models--org--model"
        commit = "0123456789abcdef0123456789abcdef01234567"
        for name in ("refs", "blobs", f"snapshots/{commit}"):
            (repository / name).mkdir(parents=True)
        (repository / "refs/main").write_text(commit)
        (repository / "blobs/abc").touch()
        (repository / "snapshots" / commit / "config.json").symlink_to("../../blobs/abc")

    def site(self, kind: str, case: Case) -> None:
        """The site of a kind, as the case wants it."""
        real = json.loads(json.dumps([case.runtime, case.site]).replace("ROOT", str(self.root)))
        runtime = {"gpu": "nvidia", "kind": kind, "apptainer": str(self.programs / "apptainer"), **real[0]}
        runtime["enroot"] = str(self.programs / "enroot")
        folders = {"runs": str(self.root / "runs"), "scratch": str(self.place.scratch)}
        folders |= {"secrets": str(self.place.secrets), "model_cache": str(self.root / "huggingface")}
        gpus = {"gpus_per_node": 8, "gpu_type": "h200", "cpus_per_node": 8, "memory_per_gpu": "1G"}
        changes = {
            "runtime": runtime,
            "folders": folders,
            "setup": [],
            "path": [str(self.programs), PYTHON, "/usr/bin", "/bin"],
            "profiles": {"cpu": {"cpus_per_node": 2}, "gpu": gpus},
            "default_profile": case.profile,
            "network": {"interface": "lo"},
        }
        self.place.site(kind, "slurm-modules", **{**changes, **real[1]})

    def run(self, kind: str, case: Case, train: str = "exit 0", **environment: str) -> Run:
        """The run after its script has ended well."""
        self.site(kind, case)
        run = self.frozen(kind, case.config, train)
        if case.profile.startswith("gpu"):
            environment["CUDA_VISIBLE_DEVICES"] = "0,1,2"
        assert (
            run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711", SLURM_JOB_UID="0", **environment)
            == 0
        ), run.log()
        assert list(self.place.scratch.iterdir()) == []
        assert not list((run.folder / "attempts/1").glob(".*"))
        self.check_words(kind)
        return run

    def check_words(self, kind: str) -> None:
        """Every option is one that the real program has."""
        calls = [(program, one["argv"]) for program in PROGRAMS for one in self.records(program)]
        assert {program for program, _ in calls} == {"srun"} | ({kind} - {"pyxis"})
        for program, words in calls:
            if program == "srun":
                parsed(words, SRUN | PYXIS, program)
            elif program == "apptainer":
                _, rest = parsed(words, APPTAINER, program)
                assert rest[0] == "exec"
                parsed(rest[1:], APPTAINER_EXEC, program)
            else:
                parsed(words[1:], ENROOT[words[0]], program)

    def frozen(self, kind: str, config: str, train: str = "exit 0") -> Run:
        """A run of a site that is there, not started yet."""
        shutil.rmtree(self.place.folder / "exp", ignore_errors=True)
        self.record.unlink(missing_ok=True)
        config = config.replace("ROOT", str(self.root))
        return self.place.frozen(train, config, site=kind, image=str(self.image))

    def records(self, program: str) -> list[dict[str, Any]]:
        facts = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [one for one in facts if one["program"] == program]

    def neutral(self, kind: str, run: Run) -> list[dict[str, Any]]:
        """What each node's program finds, in one form for all kinds."""
        found = []
        for inside, node in zip(self.records("inside"), self.records("supervise"), strict=True):
            assert inside.pop("switches") == SWITCHES[kind]
            scratch = node["env"]["TMPDIR"].removesuffix("/tmp")
            assert Path(scratch).parent == self.place.scratch and node["scratch"]
            mounts = inside.pop("mounts")
            # the plugin's are made on each node before there is a folder of the job
            mounts[3] = [place.replace(scratch, "SCRATCH") for place in mounts[3]]
            if kind == "pyxis":
                mounts[3] = [place.replace(str(self.place.scratch), "SCRATCH") for place in mounts[3]]
            left = re.compile(OWN[kind])
            text = json.dumps(
                {
                    **inside,
                    "mounts": mounts,
                    "cwd": node["cwd"],
                    "argv": node["argv"],
                    "environment": {
                        name: value
                        for name, value in sorted(node["env"].items())
                        if name not in OF_SHELLS and not left.fullmatch(name)
                    },
                }
            )
            text = text.replace(scratch, "SCRATCH").replace(run.folder.name, "RUN")
            found.append(json.loads(re.sub(rf"{re.escape(str(self.root))}/helper-\w+", "/tuneplane", text)))
        return found


@pytest.fixture
def kinds(place: Place) -> Kinds:
    return Kinds(place)


@pytest.mark.parametrize("name", CASES)
def test_the_kinds_agree(kinds: Kinds, name: str) -> None:
    case, found = CASES[name], {}
    for kind in KINDS:
        run = kinds.run(kind, case)
        found[kind] = kinds.neutral(kind, run)
        # of whatever kind: the first to come copies the image, the others take its copy
        assert run.log().count("copying the image") == (kind == KINDS[0] and "staging" in case.runtime)
    assert found["apptainer"] == found["pyxis"]
    assert found["apptainer"] == found["enroot"]
    CHECKS.get(name, lambda kinds, nodes: None)(kinds, found["apptainer"])


# ---- what they agree on is right


def plain(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    [node] = nodes
    run = f"{kinds.root}/runs/RUN"
    assert node["mounts"] == [
        [run, run, "rw"],
        [f"{run}/files", f"{run}/files", "ro"],
        [f"{run}/helper", "/tuneplane", "ro"],
        ["SCRATCH", "SCRATCH", "rw"],
        [f"{kinds.root}/huggingface", f"{kinds.root}/huggingface", "ro"],
    ]
    assert node["argv"] == SUPERVISOR
    facts = {key: node[key] for key in ("image", "home", "writable", "root", "gpus", "cwd")}
    image = str(kinds.image)
    assert facts == {
        "image": image,
        "home": False,
        "writable": False,
        "root": False,
        "gpus": "none",
        "cwd": "/",
    }
    found = node["environment"]
    assert found["HOME"] == "SCRATCH/home" and found["TUNEPLANE_RUN_DIR"] == run
    assert (found["LANG"], found["OWN"]) == ("C.UTF-8", IMAGE["OWN"])
    assert (found["TUNEPLANE_NODE_RANK"], found["SLURM_JOB_ID"], found["SLURMD_NODENAME"]) == (
        "0",
        "4711",
        "n1",
    )
    strange = re.compile(
        r"tp_.*|_?SLURM_(?!JOB_ID).*|PMI.*|PYXIS.*|ENROOT.*|TUNEPLANE_(ENV_.*|NAMES|SCRATCH)"
    )
    assert [name for name in found if strange.fullmatch(name) or name in HOOKS] == []


def several(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    assert [node["environment"]["TUNEPLANE_NODE_RANK"] for node in nodes] == ["0", "1", "2"]


def gpus(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    assert [(node["gpus"], node["environment"]["CUDA_VISIBLE_DEVICES"]) for node in nodes] == [
        ("nvidia", "0,1,2")
    ]


def no_gpus(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    assert [node["gpus"] for node in nodes] == ["none"]


def data(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    seen = [f"{kinds.root}/{name}" for name in ("linked", "real", "store/weights", "data", "data/one")]
    assert nodes[0]["mounts"][5:] == [[path, path, "ro"] for path in seen]


def home(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    place = pwd.getpwuid(os.getuid()).pw_dir
    assert nodes[0]["mounts"][4] == [place, place, "rw"] and not nodes[0]["home"]


def writable(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    assert nodes[0]["writable"] and not nodes[0]["home"]


def bound(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    places = [(f"{kinds.root}/binds/{kinds.user}", "ro"), (f"{kinds.root}/data", "rw"), ("/etc", "ro")]
    assert nodes[0]["mounts"][4:7] == [[path, path, mode] for path, mode in places]


def secrets(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    found = nodes[0]["environment"]
    assert (found["MY_TOKEN"], found["OTHER_TOKEN"]) == ('it\'s c4n4ry $(id) "é"', "x=y,z")
    for kept in kinds.root.glob("runs/*/**/*"):
        assert not kept.is_file() or b"c4n4ry" not in kept.read_bytes(), kept


def staged(kinds: Kinds, nodes: list[dict[str, Any]]) -> None:
    [first, second] = nodes
    assert first["image"] == second["image"] != str(kinds.image)
    assert Path(first["image"]).parent.parent == kinds.root / "local"


CHECKS: dict[str, Callable[[Kinds, list[dict[str, Any]]], None]] = {
    "plain": plain, "nodes": several, "gpus": gpus, "part": no_gpus, "data": data, "home": home,
    "writable": writable, "binds": bound, "secrets": secrets, "staged": staged,
}  # fmt: skip


def test_a_hostile_environment_changes_nothing(kinds: Kinds) -> None:
    expected = kinds.neutral("apptainer", kinds.run("apptainer", CASES["data"]))
    for kind in KINDS:
        assert kinds.neutral(kind, kinds.run(kind, CASES["data"], **HOSTILE)) == expected


# ---- what the real programs are asked


@pytest.mark.parametrize("word", ["--no-evil", "--container-mount", "--cleanenv=x", "--mounts"])
def test_a_misspelt_option_is_seen(word: str) -> None:
    for known in (SRUN | PYXIS, APPTAINER_EXEC, ENROOT["start"]):
        with pytest.raises(Refused):
            parsed([word, "x"], known, "program")


def said(kinds: Kinds, kind: str, program: str) -> list[list[str]]:
    """The words of a program in a plain job, without what differs from run to run."""
    run = kinds.run(kind, CASES["plain"])
    tail = run.folder.name.rpartition("-")[2]
    found = []
    for record in kinds.records(program):
        text = json.dumps(record["argv"]).replace(str(run.folder), "RUN").replace(f"tp-{tail}-1-0", "SCRATCH")
        found.append(json.loads(text.replace(str(kinds.root), "ROOT")))
    return found


def test_the_words_for_apptainer(kinds: Kinds) -> None:
    [words] = said(kinds, "apptainer", "apptainer")
    mounts = [words[i + 1] for i, word in enumerate(words) if word == "--mount"]
    assert mounts[:2] == [
        'type=bind,"src=RUN","dst=RUN"',
        'type=bind,"src=RUN/files","dst=RUN/files",ro',
    ]
    rest = [word for word in words if word != "--mount" and word not in mounts]
    assert rest == [
        *"--quiet exec --cleanenv --no-eval --pid --no-mount home,cwd --pwd /".split(),
        "ROOT/images/tool.sqsh", "/bin/sh", "/tuneplane/start", *SUPERVISOR,
    ]  # fmt: skip


def test_the_words_for_pyxis(kinds: Kinds) -> None:
    outside, inside = said(kinds, "pyxis", "srun")
    step = outside[: outside.index("/bin/bash")]
    assert inside[: len(step)] == step
    assert inside[len(step) :] == [
        "--container-image=ROOT/images/tool.sqsh",
        "--container-mounts=RUN:RUN:rw,RUN/files:RUN/files:ro,RUN/helper:/tuneplane:ro,"
        "ROOT/scratch:ROOT/scratch:rw,ROOT/huggingface:ROOT/huggingface:ro",
        "--container-workdir=/",
        "--container-env=NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES",
        "--no-container-mount-home",
        "--no-container-entrypoint",
        "--no-container-remap-root",
        "--container-readonly",
        "/bin/sh", "/tuneplane/contained", *SUPERVISOR,
    ]  # fmt: skip


def test_the_words_for_enroot(kinds: Kinds) -> None:
    create, start = said(kinds, "enroot", "enroot")
    assert create == ["create", "--name", "tp-4711-1-0", "--", "ROOT/images/tool.sqsh"]
    mounts = [start[i + 1] for i, word in enumerate(start) if word == "--mount"]
    assert mounts[:3] == [
        "RUN:RUN:none:x-create=dir,bind,rw",
        "RUN/files:RUN/files:none:x-create=dir,bind,ro",
        "RUN/helper:/tuneplane:none:x-create=dir,bind,ro",
    ]
    assert [word for word in start if word != "--mount" and word not in mounts] == [
        "start", "--rc", "ROOT/scratch/SCRATCH/enroot/rc",
        "--env", "NVIDIA_VISIBLE_DEVICES", "--env", "NVIDIA_DRIVER_CAPABILITIES",
        "--", "tp-4711-1-0", "/bin/sh", "/tuneplane/contained", *SUPERVISOR,
    ]  # fmt: skip


# ---- with the real supervisor


@pytest.mark.parametrize("kind", KINDS)
def test_values_arrive_through_every_kind(place: Place, kind: str) -> None:
    kinds = Kinds(place, supervise=False)
    bad = ("\x80", "\x81", "\r\n")  # what Apptainer changes
    values, config = odd_config(150, 61, lambda text: not any(part in text for part in bad))
    run = kinds.run(kind, Case(config), SHOW)
    arrived(run, values)
    assert environ(run)["HOME"].endswith("/home")


# ---- what goes wrong

LAUNCHER = """\
#!/bin/sh
# takes every word, and starts no container
case "$*" in create*) exit 0 ;; *--container-image*|*--mount*) exit {code} ;; esac
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""


def bare(kinds: Kinds, kind: str, program: str) -> Run:
    """A run that is not started yet; `program` stands in the place of the one that starts containers."""
    kinds.site(kind, CASES["plain"])
    run = kinds.frozen(kind, "")
    (kinds.programs / ("srun" if kind == "pyxis" else kind)).write_text(program)
    return run


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (0, 1, "the step ended without a verdict of its supervisors"),
        (3, 5, "no container started, the lines above say why"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_launcher_that_starts_nothing(
    kinds: Kinds, kind: str, status: int, code: int, sentence: str
) -> None:
    """Whatever it says: without a supervisor's word the run has not gone well."""
    run = bare(kinds, kind, LAUNCHER.replace("{code}", str(status)))
    assert run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711") == code
    assert run.file("refusal") == f"{sentence}\n"
    assert list(kinds.place.scratch.iterdir()) == []


def test_a_container_that_cannot_be_made(kinds: Kinds) -> None:
    run = bare(kinds, "enroot", "#!/bin/sh\necho no room >&2\nexit 1\n")
    assert run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711") == 5
    assert "no room\n" in run.log() and "the container cannot be made" in run.file("verdict")
    assert list(kinds.place.scratch.iterdir()) == []


@pytest.mark.parametrize("kind", ["pyxis", "enroot"])
def test_a_link_to_what_cannot_be_mounted_ends_the_job(kinds: Kinds, kind: str) -> None:
    """Known on the node alone: the link changed after the submission."""
    kinds.site(kind, CASES["plain"])
    run = kinds.frozen(kind, "data: {train: ROOT/linked}\n")
    (kinds.root / "odd: name").mkdir()
    (kinds.root / "linked").unlink()
    (kinds.root / "linked").symlink_to(kinds.root / "odd: name")
    assert run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711") == 5
    assert "cannot mount a path with white space" in run.log() and f"{kinds.root}/odd: name" in run.log()
    assert kinds.records("inside") == [] and list(kinds.place.scratch.iterdir()) == []
