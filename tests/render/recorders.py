"""Stand-ins for srun (with pyxis), apptainer and enroot: they take the words and variables that the real ones take, as
Apptainer 1.4.5, Enroot 4.1.2 and pyxis 0.24.0 do, and record what a program in their container would find.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

Options = dict[str, list[str]]

VALUE, FLAG = True, False
APPTAINER = {"--quiet": FLAG}
APPTAINER_EXEC = {
    "--bind": VALUE, "--cleanenv": FLAG, "--compat": FLAG, "--contain": FLAG, "--containall": FLAG, "--env": VALUE,
    "--fakeroot": FLAG, "--home": VALUE, "--mount": VALUE, "--no-eval": FLAG, "--no-home": FLAG, "--no-mount": VALUE,
    "--no-umask": FLAG, "--nv": FLAG, "--overlay": VALUE, "--pid": FLAG, "--pwd": VALUE, "--rocm": FLAG,
    "--userns": FLAG, "--writable": FLAG, "--writable-tmpfs": FLAG,
}  # fmt: skip
ENROOT = {
    "create": {"--name": VALUE, "--force": FLAG},
    "start": {
        "--conf": VALUE,
        "--env": VALUE,
        "--rc": VALUE,
        "--root": FLAG,
        "--rw": FLAG,
        "--mount": VALUE,
    },
    "remove": {"--force": FLAG},
}
SRUN = {
    "--nodes": VALUE, "--ntasks": VALUE, "--ntasks-per-node": VALUE, "--cpus-per-task": VALUE, "--cpu-bind": VALUE,
    "--mpi": VALUE, "--input": VALUE, "--kill-on-bad-exit": VALUE, "--wait": VALUE,
}  # fmt: skip
PYXIS = {
    "--container-image": VALUE, "--container-mounts": VALUE, "--container-workdir": VALUE, "--container-env": VALUE,
    "--container-name": VALUE, "--container-save": VALUE, "--container-mount-home": FLAG,
    "--no-container-mount-home": FLAG, "--container-remap-root": FLAG, "--no-container-remap-root": FLAG,
    "--container-entrypoint": FLAG, "--no-container-entrypoint": FLAG, "--container-writable": FLAG,
    "--container-readonly": FLAG,
}  # fmt: skip
"""Option → whether a value comes with it: of those that the real programs have, the ones a script might want."""

IMAGE = {
    "LANG": "the image's",
    "HF_HOME": "/image/hf",
    "PLAIN": "the image's",
    "TMPDIR": "/image",
    "OWN": "kept",
}
"""Variables of every image, beside its PATH."""
HOOKS = {"RANK": "7", "LOCAL_RANK": "7", "WORLD_SIZE": "9", "MASTER_ADDR": "hook", "MASTER_PORT": "61000"}
"""What pyxis and Enroot's hook for PyTorch put over anything that a job says."""

SUPERVISE = """\
import json, os, sys
with open({record!r}, "a") as file:
    file.write(json.dumps({{"program": "supervise", "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
        "scratch": os.path.isdir(os.environ["TMPDIR"])}}) + "\\n")
folder = os.path.join(os.environ["TUNEPLANE_RUN_DIR"], "attempts", os.environ["TUNEPLANE_ATTEMPT"])
with open(os.path.join(folder, "verdict"), "w") as file:
    file.write('0\\n{{"code": 0}}\\n')
"""
"""Stands in the supervisor's place, and says at once that all went well."""


class Refused(Exception):
    """What the real program would not take: its exit code and its words."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def install(folder: Path, record: Path, path: str, supervise: bool = True) -> None:
    """Write the programs into `folder`. record: the file they write to; path: the PATH of every image;
    supervise: whether the supervisor is replaced too.
    """
    tests = str(Path(__file__).resolve().parents[1])
    folder.mkdir(exist_ok=True)
    for name in ("srun", "apptainer", "enroot"):
        text = f"#!{sys.executable} -BE\nimport sys\nsys.path.insert(0, {tests!r})\n"
        text += f"from render.recorders import Recorder\nRecorder({str(record)!r}, {path!r}, {supervise}).{name}()\n"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def parsed(words: Sequence[str], known: Mapping[str, bool], program: str) -> tuple[Options, list[str]]:
    """Options by name, and the words after them. Raises Refused for one that the program does not have."""
    found: Options = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name not in known or (equals and not known[name]):
            raise Refused(1, f"{program}: unknown option {word}")
        if known[name] and not equals:
            if not rest:
                raise Refused(1, f"{program}: {name} needs a value")
            value = rest.pop(0)
        found.setdefault(name, []).append(value)
    return found, rest


def one(options: Options, name: str, default: str = "") -> str:
    """The value of an option of which the last counts."""
    return options.get(name, [default])[-1]


class Recorder:
    """One call of one of the programs."""

    def __init__(self, record: str, path: str, supervise: bool) -> None:
        self.record, self.path, self.supervise = Path(record), path, supervise

    def note(self, **facts: Any) -> None:
        with self.record.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    def srun(self) -> NoReturn:
        self._do("srun", self._srun)

    def apptainer(self) -> NoReturn:
        self._do("apptainer", self._apptainer)

    def enroot(self) -> NoReturn:
        self._do("enroot", self._enroot)

    def _do(self, program: str, act: Any) -> NoReturn:
        words = sys.argv[1:]
        self.note(program=program, argv=words, env=dict(os.environ))
        try:
            sys.exit(act(words))
        except Refused as refused:
            print(refused, file=sys.stderr)
            sys.exit(refused.code)

    # -- srun and pyxis

    def _srun(self, words: list[str]) -> int:
        options, command = parsed(words, SRUN | PYXIS, "srun")
        if command[:1] and not shutil.which(command[0]) and "--container-image" not in options:
            raise Refused(2, f"srun: {command[0]}: No such file or directory")
        codes = []
        for rank in range(int(one(options, "--ntasks", "1"))):
            mine = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": "0", "SLURMD_NODENAME": f"n{rank + 1}"}
            environment = {**os.environ, **mine}
            words = command
            # the plugin's variables count where it has no option
            if "--container-image" in options or "PYXIS_CONTAINER_IMAGE" in os.environ:
                environment = self._pyxis(options, environment)
                words = self._inside(command)
            done = subprocess.run(words, env=environment, cwd="/", check=False)
            codes.append(done.returncode)
        return max(codes)

    def _pyxis(self, options: Options, given: dict[str, str]) -> dict[str, str]:
        """Records the container; what a task in it finds in its environment."""
        mounts = []
        for text in one(options, "--container-mounts", given.get("PYXIS_CONTAINER_MOUNTS", "")).split(","):
            source, target, mode, *more = [*text.split(":"), "", ""]
            # the plugin writes each mount into a script of bash
            if mode not in ("ro", "rw") or any(more) or re.search(r'[\s\\"$`]', text):
                raise Refused(255, f"pyxis: --container-mounts: invalid entry {text}")
            if not os.path.exists(source):
                raise Refused(1, f"pyxis: --container-mounts: source path does not exist: {source}")
            mounts.append([source, target, mode])
        if one(options, "--container-workdir") != "/":
            raise Refused(1, "pyxis: couldn't chdir")
        kept = one(options, "--container-env").split(",")
        environment = {
            key: value for key, value in given.items() if key not in ("LANG", "LANGUAGE", "LC_ALL")
        }
        environment |= IMAGE | {"PATH": self.path, "SHELL": "/bin/bash", "SHLVL": "0", "TERM": "dumb"}
        environment |= {name: given[name] for name in kept if name in given}
        environment |= {f"_SLURM_SPANK_OPTION_pyxis_{name[2:]}": "x" for name in options} | HOOKS
        self.note(
            program="inside",
            image=self._image(one(options, "--container-image", given.get("PYXIS_CONTAINER_IMAGE", ""))),
            mounts=mounts,
            home="--no-container-mount-home" not in options,
            writable="--container-writable" in options,
            root="--no-container-remap-root" not in options,
            gpus=_requested(given),
            switches=_enroot_switches(given),
        )
        return environment

    # -- apptainer

    def _apptainer(self, words: list[str]) -> int:
        _, rest = parsed(words, APPTAINER, "apptainer")
        if rest[:1] != ["exec"]:
            raise Refused(1, f"apptainer: unknown command {rest[:1]}")
        options, (image, *command) = parsed(rest[1:], APPTAINER_EXEC, "apptainer exec")
        mounts = [_apptainer_mount(text) for text in options.get("--mount", [])]
        mounts += [[text, text, "rw"] for text in os.environ.get("APPTAINER_BIND", "").split(",") if text]
        unmounted = ",".join(options.get("--no-mount", [])).split(",")
        inside = {"HOME": "/root", "LANG": "C", "PATH": self.path, "LD_LIBRARY_PATH": "/.singularity.d/libs"}
        inside |= {"PS1": "Apptainer> ", "PROMPT_COMMAND": "", "APPTAINER_COMMAND": "exec", **IMAGE}
        if "--cleanenv" not in options:
            inside = {**os.environ, **inside}
        for name, value in os.environ.items():
            for prefix in ("SINGULARITYENV_", "APPTAINERENV_"):
                if name.startswith(prefix):
                    inside[name.removeprefix(prefix)] = value
        self.note(
            program="inside",
            image=self._image(image),
            mounts=mounts,
            home="home" not in unmounted,
            writable=any(name in options for name in ("--writable", "--writable-tmpfs")) or _overlay(options),
            root="--fakeroot" in options,
            gpus="nvidia" if "--nv" in options else "amd" if "--rocm" in options else "none",
            switches=sorted(name for name in os.environ if re.match(r"(APPTAINER|SINGULARITY)_", name)),
        )
        os.chdir(one(options, "--pwd", "/"))
        command = self._inside(command)
        os.execvpe(command[0], command, inside)

    # -- enroot

    def _enroot(self, words: list[str]) -> int:
        if not words or words[0] not in ENROOT:
            raise Refused(1, f"enroot: unknown command {words[:1]}")
        data = Path(os.environ.get("ENROOT_DATA_PATH", "/run/enroot/data"))
        for name in ("DATA", "CACHE", "RUNTIME"):
            Path(os.environ[f"ENROOT_{name}_PATH"]).mkdir(mode=0o700, parents=True, exist_ok=True)
        options, rest = parsed(words[1:], ENROOT[words[0]], "enroot")
        if words[0] == "create":
            name = one(options, "--name")
            if "/" in name or (data / name).exists() or len(rest) != 1:
                raise Refused(1, f"[ERROR] File already exists, or no such name: {name}")
            # as a container's own files are, also those that their owner cannot enter
            (data / name / "rootfs").mkdir(parents=True)
            (data / name / "image").write_text(self._image(rest[0]))
            (data / name / "rootfs").chmod(0)
            return 0
        if words[0] == "remove":
            for name in rest:
                shutil.rmtree(data / name)
            return 0
        return self._enroot_start(options, data / rest[0], rest[1:])

    def _enroot_start(self, options: Options, container: Path, command: list[str]) -> int:
        if not container.is_dir():
            raise Refused(1, f"[ERROR] No such file or directory: {container}")
        rc = one(options, "--rc")
        if not rc or not stat.S_ISREG(os.stat(rc).st_mode):
            raise Refused(1, f"[ERROR] cp: cannot stat {rc}")
        inside = {
            **IMAGE,
            "PATH": self.path,
            "TERM": "dumb",
            "PWD": "/",
            "SHLVL": "0",
            "PMIX_RANK": "0",
            **HOOKS,
        }
        inside |= {name: value for name, value in os.environ.items() if name.startswith("SLURM_")}
        for text in options.get("--env", []):
            name, equals, value = text.partition("=")
            # the real one loses what comes after a line break
            inside[name] = (value if equals else os.environ.get(name, "")).partition("\n")[0]
        self.note(
            program="inside",
            image=(container / "image").read_text(),
            mounts=[enroot_mount(text) for text in options.get("--mount", [])],
            home=not re.match(r"(n|no|f|false)\Z", os.environ.get("ENROOT_MOUNT_HOME", ""), re.I),
            writable="--rw" in options or os.environ.get("ENROOT_ROOTFS_WRITABLE") == "y",
            root="--root" in options or os.environ.get("ENROOT_REMAP_ROOT") == "y",
            gpus=_requested(inside),
            switches=_enroot_switches(os.environ),
        )
        os.chdir("/var")  # the rc file says where the program starts
        os.execve("/bin/sh", ["/bin/sh", rc, *self._inside(command)], inside)

    # -- all

    def _image(self, path: str) -> str:
        if not os.path.isfile(path):
            raise Refused(1, f"no such image: {path}")
        return path

    def _inside(self, command: list[str]) -> list[str]:
        """The command with the mounted helper at its real place, where the supervisor is another one."""
        facts = [json.loads(line) for line in self.record.read_text().splitlines()]
        mounts = [one["mounts"] for one in facts if one["program"] == "inside"][-1]
        source = next(source for source, target, _ in mounts if target == "/tuneplane")
        if self.supervise:
            copy = Path(tempfile.mkdtemp(prefix="helper-", dir=self.record.parent))
            shutil.copytree(source, copy, dirs_exist_ok=True)
            (copy / "supervise.py").chmod(0o644)
            (copy / "supervise.py").write_text(SUPERVISE.format(record=str(self.record)))
            source = str(copy)
        return [re.sub(r"\A/tuneplane/", f"{source}/", word) for word in command]


def _apptainer_mount(text: str) -> list[str]:
    """(source, target, ro or rw) of `--mount`, whose fields are those of a CSV line."""
    fields = dict(field.partition("=")[::2] for field in next(csv.reader([text])))
    mode = "ro" if "ro" in fields else "rw"
    if fields.keys() - {"ro"} != {"type", "src", "dst"} or fields["type"] != "bind":
        raise Refused(255, f"FATAL: invalid mount {text}")
    return [_there(fields["src"]), fields["dst"], mode]


def enroot_mount(text: str) -> list[str]:
    """(source, target, ro or rw) of a line as fstab has them, where the kind of the source is said right."""
    match = re.fullmatch(r"([^:\s]+):([^:\s]+):none:x-create=(dir|file),bind,(ro|rw)", text)
    if match is None or "\\" in text:
        raise Refused(1, f"enroot-mount: invalid argument: {text}")
    if (match[3] == "dir") != os.path.isdir(_there(match[1])):
        raise Refused(1, f"enroot-mount: Not a directory: {match[1]}")
    return [match[1], match[2], match[4]]


def _there(source: str) -> str:
    if not os.path.exists(source):
        raise Refused(1, f"mount source {source} doesn't exist")
    return source


def _overlay(options: Options) -> bool:
    """Whether a writable folder lies over the image."""
    return any(os.path.isdir(folder) for folder in options.get("--overlay", []))


def _requested(environment: Mapping[str, str]) -> str:
    """Whose GPUs Enroot's hook gives."""
    return {"all": "nvidia", "void": "none"}[environment["NVIDIA_VISIBLE_DEVICES"]]


def _enroot_switches(environment: Mapping[str, str]) -> list[str]:
    """Everything that Enroot and pyxis would obey beside their options."""
    return sorted(name for name in environment if re.match(r"(ENROOT|PYXIS)_", name))
