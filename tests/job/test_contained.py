"""What runs first inside a container of pyxis or Enroot: variables get their names back, and with pyxis a scratch folder."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHELLS = [text for text in ("dash", "bash", "bash --posix", "busybox sh") if shutil.which(text.split()[0])]
"""Those of this machine."""
SHOW = 'env -0 >"$SEEN/environ"; printf "%s\\0" "$@" >"$SEEN/args"; pwd >"$SEEN/pwd"\n'
"""A supervisor that shows what it was started with."""
ODD = {
    "EMPTY": b"",
    "LINES": b"one\nSLURM_NTASKS=evil\ntp_child=1\n\nlast\n",
    "QUOTED": b"\"all\" 'it''s' \"",
    "SHELL_TEXT": b"$HOME ${PATH} $(touch pwned) `touch pwned` \\ \\n \\\\",
    "BYTES": bytes(range(1, 256)),
    "a_1": " é 世界 \U0001f680 ".encode(),
    "LONG": b"x" * 100_000,
    "OPTION": b"-n",
    "HOME_OF": b"~root *",
}


class Contained:
    """`contained` with another supervisor behind it, in a run folder of its own."""

    def __init__(self, root: Path, shell: list[str]) -> None:
        self.root, self.shell = root, shell
        self.helper, self.run = root / "the helper", root / 'run "é" $(touch pwned)'
        self.attempt = self.run / "attempts/2"
        self.scratch, self.seen, self.image = root / "tp-abc-2", root / "seen", root / "image"
        for folder in (self.helper, self.attempt, self.seen, self.image):
            folder.mkdir(parents=True)
        # the one thing that is not as it is inside a container
        text = (REPOSITORY / "tuneplane/job/contained.sh").read_text()
        assert text.count("/.singularity.d/env") == 2
        (self.helper / "contained").write_text(text.replace("/.singularity.d/env", str(self.image)))
        self.supervisor(SHOW)

    def supervisor(self, text: str) -> None:
        (self.helper / "start").write_text(text)

    def start(
        self, *words: str, given: dict[str, bytes] | None = None, **environment: str | bytes
    ) -> subprocess.Popen[bytes]:
        """given: variables for the supervisor, under the names that they come in with."""
        values: dict[str, bytes] = {
            "TUNEPLANE_RUN_DIR": os.fsencode(self.run),
            "TUNEPLANE_ATTEMPT": b"2",
            **(given or {}),
        }
        variables: dict[str, str | bytes] = {
            "PATH": "/usr/bin:/bin",
            "SEEN": str(self.seen),
            "SLURMD_NODENAME": "n7",
            "TUNEPLANE_NAMES": " ".join(values),
            **{f"TUNEPLANE_ENV_{name}": value for name, value in values.items()},
        }
        # what comes from the caller wins, also without a value
        return subprocess.Popen(
            [*self.shell, str(self.helper / "contained"), *words],
            cwd=self.root,
            env={name: value for name, value in {**variables, **environment}.items() if value != "-"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def go(self, *words: str, given: dict[str, bytes] | None = None, **environment: str | bytes) -> int:
        """The exit code; nothing is said."""
        process = self.start(*words, given=given, **environment)
        out, err = process.communicate(timeout=30)
        assert (out, err) == (b"", b"")
        return process.returncode

    def environ(self) -> dict[str, bytes]:
        """What the supervisor saw, less what a shell adds."""
        entries = (self.seen / "environ").read_bytes().split(b"\0")[:-1]
        found = dict(entry.partition(b"=")[::2] for entry in entries)
        return {os.fsdecode(name): value for name, value in found.items() if name not in (b"PWD", b"_", b"SHLVL", b"OLDPWD")}  # fmt: skip

    def with_scratch(self) -> dict[str, str]:
        return {"TUNEPLANE_SCRATCH": str(self.scratch), "SLURM_PROCID": "3"}

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 20
        while not (self.seen / name).exists():
            assert time.monotonic() < deadline, name
            time.sleep(0.01)


@pytest.fixture(params=SHELLS)
def contained(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Contained]:
    name, *options = request.param.split()
    program = shutil.which(name)
    assert program is not None
    yield Contained(tmp_path, [program, *options])
    assert not list(tmp_path.rglob("pwned"))


@pytest.fixture
def one(tmp_path: Path) -> Contained:
    """The same under /bin/sh alone."""
    return Contained(tmp_path, ["/bin/sh"])


# ---- variables and words


def test_variables_and_words_arrive_byte_for_byte(contained: Contained) -> None:
    words = ["--kind", "process", "--", "", "two words", "$(touch pwned)", "a\nb", '"all"', "é", "-n", "\\"]
    assert contained.go(*words, given=ODD) == 0
    found = contained.environ()
    assert {name: found.get(name) for name in ODD} == ODD
    assert (contained.seen / "args").read_bytes() == b"".join(os.fsencode(word) + b"\0" for word in words)
    assert (contained.seen / "pwd").read_text() == f"{contained.root}\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_what_slurm_and_the_plugins_set_is_removed(contained: Contained, locale: str) -> None:
    names = """
        SLURM_NTASKS SLURM_JOB_NAME SLURM_EXPORT_ENV SLURM_CPU_BIND SRUN_DEBUG _SLURM_SPANK_OPTION_pyxis_container_image
        PMIX_RANK PMIX_MCA_gds PMI_FD PMI_RANK PYXIS_CONTAINER_IMAGE ENROOT_LOGIN_SHELL SPANK_X OMPI_MCA_btl
        PRTE_MCA_x HYDRA_X I_MPI_HYDRA tp_run tp_child RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE
        MASTER_ADDR MASTER_PORT ENVIRONMENT
    """.split()
    # an empty one, one of several lines, and one in another encoding than the locale's
    values = [b"", b"x\nSLURM_NTASKS x=1\n", b"caf\xe9 $(touch pwned) \xff;*"]
    given = {name: values[i % 3] for i, name in enumerate(names)}
    kept = {"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n7", "SLURM_PROCID": "5", "SLURMX": "-"}
    kept |= {"CUDA_VISIBLE_DEVICES": "0,1", "OWN": "the image's", "LC_ALL": locale, "HOME": "/h"}
    assert contained.go(**given, **kept) == 0
    found = contained.environ()
    own = {"TUNEPLANE_RUN_DIR", "TUNEPLANE_ATTEMPT", "TUNEPLANE_NODE_RANK", "PATH", "SEEN"}
    assert set(found) - own == {
        "SLURM_JOB_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "OWN", "LC_ALL", "HOME"
    }  # fmt: skip
    assert found["TUNEPLANE_NODE_RANK"] == b"5"


def test_ours_win_over_the_images(contained: Contained) -> None:
    """The parts of an image that was made from a SIF, in the order of their names; then what is handed in."""
    (contained.image / "10-docker2singularity.sh").write_text(
        'export PATH="/image/bin:$PATH"; export A="${A:-docker}" B=docker D=docker RANK=1\n'
    )
    (contained.image / "90-environment.sh").write_text(
        'export B="$B, ninety" E=ninety MASTER_ADDR=1 SLURM_X=1\n'
    )
    (contained.image / "95-apps.sh").write_text("export NOT=read\n")
    (contained.image / "01-base.sh").write_text("export NOT=read\n")
    (contained.image / "91-environment.sh").write_text('export E="$E, ninety-one"\n')
    assert contained.go(given={"D": b"ours", "EMPTY": b""}, A="job's", EMPTY="image's", D="image's") == 0
    found = contained.environ()
    expected = {"A": b"job's", "B": b"docker, ninety", "D": b"ours", "E": b"ninety, ninety-one", "EMPTY": b""}
    assert {name: found[name] for name in expected} == expected
    assert found["PATH"] == b"/image/bin:/usr/bin:/bin"
    assert not {"NOT", "RANK", "MASTER_ADDR"} & set(found)


def test_an_image_without_a_path(contained: Contained) -> None:
    assert contained.go(PATH="-") == 0
    assert b"/usr/bin" in contained.environ()["PATH"].split(b":")


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"SLURM_PROCID": "3"}, b"3"),
        ({}, b""),
        ({"TUNEPLANE_NAMES": "-"}, b""),
        ({"TUNEPLANE_NAMES": "TUNEPLANE_NODE_RANK", "TUNEPLANE_ENV_TUNEPLANE_NODE_RANK": "2", "SLURM_PROCID": "9"}, b"2"),
    ],
)  # fmt: skip
def test_the_rank(contained: Contained, environment: dict[str, str], rank: bytes) -> None:
    """Slurm's with pyxis; handed in with Enroot; and none where nobody says one, which the supervisor refuses."""
    assert contained.go(**environment) == 0
    assert contained.environ()["TUNEPLANE_NODE_RANK"] == rank


def test_without_a_scratch_folder_it_becomes_the_supervisor(contained: Contained) -> None:
    contained.supervisor('echo $$ >"$SEEN/pid"; exit 7\n')
    process = contained.start()
    assert process.wait(timeout=30) == 7
    assert (contained.seen / "pid").read_text() == f"{process.pid}\n"


# ---- the scratch folder of pyxis


def test_the_scratch_folder_is_made_and_removed(contained: Contained) -> None:
    contained.supervisor(
        SHOW
        + 'stat -c %a "$WHERE" >"$SEEN/mode"; ls "$WHERE" >"$SEEN/names"; touch "$WHERE/tmp/x"; umask >"$SEEN/umask"\n'
    )
    where = {"WHERE": str(contained.scratch)}
    assert contained.go("a b", given={"HERE": b"x"}, **contained.with_scratch(), **where) == 0
    assert (contained.seen / "mode").read_text() == "700\n"
    assert (contained.seen / "names").read_text().split() == ["cache", "config", "data", "home", "tmp"]
    assert (contained.seen / "args").read_bytes() == b"a b\0"
    assert contained.environ()["HERE"] == b"x" and "TUNEPLANE_SCRATCH" not in contained.environ()
    assert not contained.scratch.exists()


def test_what_the_program_left_is_removed(contained: Contained) -> None:
    """Folders that their owner may not change, odd names; and no link is followed."""
    outside = contained.root / "outside"
    outside.mkdir()
    (outside / "precious").touch(mode=0o400)
    contained.supervisor(
        f'cd "{contained.scratch}/tmp" && mkdir -p a/b/c ./-n "é \n" && touch a/b/c/x && ln -s "{outside}" link\n'
        "ln -s /nowhere gone; chmod 000 a/b/c; chmod 500 a/b; chmod 000 a ./-n\n"
    )
    if os.getuid() == 0:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *contained.shell]
        contained.shell = words
        for folder in (contained.root, contained.seen, contained.attempt):
            os.chown(folder, 65534, 65534)
        for parent in list(contained.root.parents)[:-1]:
            if parent != Path("/tmp") and parent.owner() == "root":
                parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    assert contained.go(**contained.with_scratch()) == 0
    assert not contained.scratch.exists()
    assert stat.S_IMODE((outside / "precious").stat().st_mode) == 0o400


@pytest.mark.parametrize("what", ["folder", "file", "link", "link to nowhere"])
def test_a_planted_scratch_folder_is_never_used(contained: Contained, what: str) -> None:
    victim = contained.root / "victim"
    victim.mkdir()
    (victim / "precious").touch()
    if what == "folder":
        shutil.copytree(victim, contained.scratch)
    elif what == "file":
        contained.scratch.touch()
    else:
        contained.scratch.symlink_to(victim if what == "link" else contained.root / "nowhere")
    process = contained.start(**contained.with_scratch())
    out, err = process.communicate(timeout=30)
    said = "tuneplane: node 3 (n7): its scratch folder is there already or cannot be made\n"
    assert (process.returncode, out) == (0, b"") and err.decode().endswith(said)
    verdict = (contained.attempt / "verdict").read_text().splitlines()
    assert verdict == [
        "1",
        '{"code":1,"node":3,"host":"n7","signal":null,"reason":"preflight",'
        '"message":"its scratch folder is there already or cannot be made","rank":null,"phase":"preflight","tail":[]}',
    ]
    assert not list(contained.seen.iterdir())
    assert os.listdir(victim) == ["precious"] and os.path.lexists(contained.scratch)
    assert not (contained.root / "nowhere").exists()


def test_a_planted_scratch_folder_does_not_change_a_verdict(one: Contained) -> None:
    (one.attempt / "verdict").write_text("7\nfirst\n")
    one.scratch.mkdir()
    process = one.start(**one.with_scratch())
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (one.attempt / "verdict").read_text() == "7\nfirst\n"


# ---- how it ends


@pytest.mark.parametrize(
    ("end", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)],
)
def test_the_exit_code_is_the_supervisors(contained: Contained, end: str, code: int) -> None:
    contained.supervisor(end + "\n")
    process = contained.start(**contained.with_scratch())
    process.communicate(timeout=30)
    assert process.returncode == code
    assert not contained.scratch.exists()


def test_a_verdict_says_it_all(contained: Contained) -> None:
    """A failing status would make srun kill nodes that are still clearing away."""
    contained.supervisor('echo 9 >"$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT/verdict"; exit 9\n')
    assert contained.go(**contained.with_scratch()) == 0


TOLD = """
for name in TERM INT USR1 USR2; do trap "echo $name >>'$SEEN/told'; [ $name != TERM ] || exit 9" "$name"; done
touch "$SEEN/up"
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_to_stop_reaches_the_supervisor(contained: Contained, name: str) -> None:
    contained.supervisor(TOLD)
    process = contained.start(**contained.with_scratch())
    contained.wait_for("up")
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.wait(timeout=30) == 9
    assert (contained.seen / "told").read_text() == "TERM\n"
    assert not contained.scratch.exists()


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_other_signals_reach_it_and_end_nothing(contained: Contained, name: str) -> None:
    contained.supervisor(TOLD)
    process = contained.start(**contained.with_scratch())
    contained.wait_for("up")
    told = contained.seen / "told"
    for count in (1, 2):
        deadline = time.monotonic() + 20
        # again now and then: bash may sleep over one that comes just when it begins to wait
        while not told.exists() or told.read_text().count(f"{name}\n") < count:
            assert time.monotonic() < deadline
            process.send_signal(getattr(signal, f"SIG{name}"))
            time.sleep(0.5)
    assert set(told.read_text().split()) == {name}
    process.terminate()
    assert process.wait(timeout=30) == 9
    assert not contained.scratch.exists()


def test_a_signal_that_comes_early_is_not_lost(contained: Contained) -> None:
    """While the scratch folder is made, before there is a supervisor."""
    if "busybox" in contained.shell[0]:
        pytest.skip("it takes its own `mkdir`, not the one of this test")
    programs = contained.root / "programs"
    programs.mkdir()
    (programs / "mkdir").write_text('#!/bin/sh\n/bin/mkdir "$@"; status=$?; kill -TERM $PPID; exit $status\n')
    (programs / "mkdir").chmod(0o755)
    contained.supervisor(TOLD)
    process = contained.start(**contained.with_scratch(), PATH=f"{programs}:/usr/bin:/bin")
    assert process.wait(timeout=30) == 143
    assert not contained.scratch.exists() and not list(contained.seen.iterdir())


def test_the_real_supervisor_runs_behind_it(one: Contained) -> None:
    """As with pyxis, on one node, from the helper of a run."""
    from tuneplane.runs.helper import helper

    helper().write(one.run / "helper")
    experiment = one.run / "files"
    experiment.mkdir()
    one.helper = one.run / "helper"
    train = 'import os; print(repr(os.environ["ODD"]), os.environ["HOME"], flush=True)'
    words = ["--kind", "process", "--nodes", "1", "--", "python3", "-c", train]
    given = {
        "TUNEPLANE_RUN_ID": b"probe-1a2b",
        "TUNEPLANE_EXPERIMENT_DIR": os.fsencode(experiment),
        "TUNEPLANE_NODES": b"1",
        "TUNEPLANE_HOME": os.fsencode(one.scratch / "home"),
        "ODD": b'one\n"two"',
    }
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {**one.with_scratch(), "SLURM_PROCID": "0", "SLURM_JOB_ID": "4711", "PATH": path}
    assert one.go(*words, given=given, **environment) == 0
    log = (one.attempt / "node-0.log").read_text()
    assert f"{'one' + chr(10) + chr(34) + 'two' + chr(34)!r} {one.scratch}/home\n" in log
    assert (one.attempt / "verdict").read_text().startswith("0\n")
    assert not one.scratch.exists()
