"""The image's check and its copy on a node's own disk, by real bash: every sentence, many jobs at once, and strangers."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from render.tools import lacking, program

from tuneplane.runtimes.node_sh import CHECK_IMAGE_SH, NODE_FUNCTIONS, STAGE_SH

BLOCK = 1 << 20
SAY = "tp_say() { printf 'tuneplane: %s\\n' \"$*\" >&2; }"
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
STRANGE = 'it\'s "a"\n$(strange) é `x`'
JOB, STRANGER = 54321, 54322
HOUR = 3600
COPYING = "tuneplane: copying the image to this node: "
SHARED = "tuneplane: the shared image is used, not a copy on this node: "
AGAIN = "tuneplane: the copy on this node is removed and made again: "
WAITING = "tuneplane: waiting for another job on this node that copies the image, up to 60 s"


def sampled(path: Path) -> str:
    """The rule in Python."""
    blocks = -(-path.stat().st_size // BLOCK)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for number in range(blocks) if blocks <= 64 else [i * (blocks - 1) // 63 for i in range(64)]:
            file.seek(number * BLOCK)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()


def check(path: Path | str, size: int, samples: str, **more: object) -> tuple[int, str]:
    script = f'set -u\n{CHECK_IMAGE_SH}\ntp_check_image "$@"'
    words = ["/bin/bash", "-p", "-c", script, "bash", str(path), str(size), samples]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": SYSTEM}, **more)  # type: ignore[call-overload]
    assert done.stdout == ""
    return done.returncode, done.stderr


@dataclass(frozen=True)
class Staged:
    code: int
    image: str
    said: list[str]


@dataclass(frozen=True)
class Stage:
    """One call of tp_stage; `folder` is this user's below the cache."""

    image: Path
    cache: Path
    size: int = -1
    sha: str = ""
    samples: str = ""
    keep: int = 0
    age: int = 100 * 24 * HOUR
    uid: int = -1
    env: dict[str, str] = field(default_factory=dict)
    around: tuple[str, str] = ("", "")
    declared: bool = False

    @property
    def digest(self) -> str:
        return self.sha or hashlib.sha256(self.image.read_bytes()).hexdigest()

    @property
    def folder(self) -> Path:
        return self.cache / f"tuneplane-images-{os.geteuid() if self.uid < 0 else self.uid}"

    @property
    def copy(self) -> Path:
        return self.folder / f"{self.digest}{self.image.suffix}"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.digest}.lock"

    def start(self, **more: object) -> subprocess.Popen[str]:
        size = self.image.stat().st_size if self.size < 0 else self.size
        before, after = self.around
        texts = f"{SAY}\n{CHECK_IMAGE_SH}{STAGE_SH}"
        if self.declared:
            words = " ".join(["tp_say", *NODE_FUNCTIONS])
            made = subprocess.run(
                ["/bin/bash", "-p", "-c", f"{texts}\ndeclare -f {words}"], capture_output=True, text=True
            )
            texts = made.stdout
        script = f'set -u\numask 027\n{texts}\n{before}\ntp_stage "$@"\ntp_code=$?\n{after}\nprintf "%s\\0%s" "$tp_code" "$tp_image"'
        values = [self.image, size, self.digest, self.samples or sampled(self.image), self.cache, self.keep, self.age]  # fmt: skip
        if self.uid >= 0:
            more |= {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            ["/bin/bash", "-p", "-c", script, "bash", *map(str, values)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": SYSTEM, **self.env},
            **more,
        )

    def run(self) -> Staged:
        return ended(self.start())


def ended(process: subprocess.Popen[str]) -> Staged:
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    code, image = out.split("\0")
    return Staged(int(code), image, errors.splitlines())


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a folder: every copy is written through to the disk."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """An image of 3 MB and the empty folder that the site names for copies."""
    return made(tmp_path)


def made(place: Path) -> Stage:
    (place / "shared").mkdir()
    (place / "local").mkdir()
    return Stage(content(place / "shared/an image.sif"), place / "local")


def content(path: Path, size: int = 3_000_001, seed: int = 1) -> Path:
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def tools(folder: Path, **texts: str) -> dict[str, str]:
    """A PATH on which some programs are bash scripts of these texts."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{SYSTEM}"}


def without(folder: Path, *names: str) -> dict[str, str]:
    """A PATH without some programs."""
    folder.mkdir()
    for name in "bash cat chmod date dd df fallocate flock id mkdir mktemp mv rm sha256sum sleep sort stat tail tee touch".split():
        if name not in names:
            (folder / name).symlink_to(program(name))
    return {"PATH": str(folder)}


def aged(path: Path, seconds: float) -> Path:
    past = time.time() - seconds
    os.utime(path, (past, past))
    return path


def left(stage: Stage) -> list[str]:
    """What is in the folder, with the digest of the image as `IMAGE`."""
    return sorted(path.name.replace(stage.digest, "IMAGE") for path in stage.folder.iterdir())


# --- the check ---


@pytest.mark.parametrize(
    "size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 63 * BLOCK + 5, 64 * BLOCK, 64 * BLOCK + 1, 65 * BLOCK, 200 * BLOCK - 1]
)  # fmt: skip
def test_samples_are_what_the_rule_in_python_says(tmp_path: Path, size: int) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        for number in range(0, size, BLOCK):
            file.seek(number)
            file.write(f"block {number}".encode()[: size - number])
        file.truncate(size)
    assert check(path, size, sampled(path)) == (0, "")


@pytest.mark.parametrize("size", [5_000_000_001, 3 << 40])
def test_a_huge_file_takes_less_than_two_seconds(tmp_path: Path, size: int) -> None:
    path = tmp_path / "image"
    blocks = -(-size // BLOCK)
    with path.open("wb") as file:
        for i in range(64):
            file.seek(i * (blocks - 1) // 63 * BLOCK)
            file.write(b"%d" % i)
        file.truncate(size)
    samples, took = sampled(path), []
    for _ in range(3):
        begun = time.monotonic()
        assert check(path, size, samples) == (0, "")
        took.append(time.monotonic() - begun)
        if took[-1] < 2:
            break
    assert min(took) < 2
    with path.open("r+b") as file:
        file.seek(size - 1)
        file.write(b"x")
    assert check(path, size, samples)[0] == 1


def test_each_sampled_block_counts_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.touch()
    os.truncate(path, 130 * BLOCK)
    samples = sampled(path)
    chosen = {i * 129 // 63 for i in range(64)}
    assert {0, 129} <= chosen and len(chosen) == 64
    for block in (0, 1, 64, 129):
        with path.open("r+b") as file:
            file.seek(block * BLOCK + 7)
            file.write(b"x")
            file.flush()
            assert check(path, 130 * BLOCK, samples)[0] == int(block in chosen), block
            file.seek(block * BLOCK + 7)
            file.write(b"\0")


def test_short_reads_of_a_network_filesystem_are_filled_up(stage: Stage) -> None:
    """dd is told to: without it a read of less than a block would be all of the block."""
    assert "iflag=fullblock" in CHECK_IMAGE_SH and "iflag=fullblock" in STAGE_SH


def test_every_sentence_of_the_check(tmp_path: Path) -> None:
    path = content(tmp_path / "image")
    size, samples = path.stat().st_size, sampled(path)
    differs = (1, "the image has another content in the sampled blocks\n")
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    assert check(tmp_path / "link", size, samples) == (0, "")
    assert check(path, size, "0" * 64) == differs
    assert check(path, size + 1, samples) == (1, f"the image has another size: {size} bytes, expected {size + 1}\n")  # fmt: skip
    for gone in ("nothing", "dangling", "image/below"):
        assert check(tmp_path / gone, size, samples) == (1, "the image is gone\n")
    for other in ("", "fifo"):
        assert check(tmp_path / other, size, samples) == (1, "the image is not a regular file\n")
    assert check(tmp_path / "loop", size, samples) == (1, "the image cannot be read\n")
    with path.open("r+b") as file:
        file.write(b"x")
    assert check(path, size, samples) == differs


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            path = content(Path(folder, "image"))
            assert check(path, 3_000_001, "", user=JOB, group=JOB, extra_groups=[]) == (1, "the image cannot be read\n")  # fmt: skip
            os.chmod(folder, 0o755)
            path.chmod(0o600)
            empty = Path(folder, "empty")
            empty.touch(0o600)
            for one, size in ((path, 3_000_001), (empty, 0)):
                assert check(one, size, "", user=JOB, group=JOB, extra_groups=[]) == (1, "the image cannot be read\n")  # fmt: skip
    else:
        path = content(tmp_path / "image")
        path.chmod(0)
        assert check(path, 3_000_001, "") == (1, "the image cannot be read\n")


def test_a_read_that_fails_is_no_other_content(stage: Stage, tmp_path: Path) -> None:
    path = stage.image
    for broken in ({"dd": "head -c 10 /dev/zero; exit 1"}, {"sha256sum": "cat >/dev/null; exit 1"}):
        env = tools(tmp_path / "bin", **broken)
        script = f'set -u\nPATH={env["PATH"]}\n{CHECK_IMAGE_SH}\ntp_check_image "$@"'
        done = subprocess.run(["/bin/bash", "-pc", script, "bash", path, "3000001", sampled(path)], capture_output=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (1, b"the image cannot be read\n")
        shutil.rmtree(tmp_path / "bin")


NAMES = [
    "-",
    "-x.sif",
    "if=x",
    "a b.sif",
    "it's.sif",
    'a"b',
    "a\nb.sif",
    "a\n",
    "é.sif",
    "$(id)",
    "*",
    "a\\b",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_check_takes_any_name(tmp_path: Path, name: str) -> None:
    path = content(tmp_path / name, 1000)
    assert check(path, 1000, sampled(path)) == (0, "")
    assert check(name, 1000, sampled(path), cwd=tmp_path) == (0, "")
    assert check(name, 1000, "0", cwd=tmp_path)[0] == 1


# --- the copy ---


@pytest.mark.parametrize("declared", [False, True], ids=["written", "declared"])
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}])
def test_a_copy_is_made_once_and_used_again(stage: Stage, locale: dict[str, str], declared: bool) -> None:
    stage = replace(stage, env=locale, declared=declared)
    assert stage.run() == Staged(0, str(stage.copy), [f"{COPYING}{stage.copy}"])
    assert stage.copy.read_bytes() == stage.image.read_bytes()
    assert stat.S_IMODE(stage.copy.stat().st_mode) == 0o400
    assert stat.S_IMODE(stage.folder.stat().st_mode) == 0o700
    inode = aged(stage.copy, 10 * HOUR).stat().st_ino
    assert stage.run() == Staged(0, str(stage.copy), [])
    assert stage.copy.stat().st_ino == inode
    assert time.time() - stage.copy.stat().st_mtime < 60, "the clock of its last use"
    assert left(stage) == ["IMAGE.lock", "IMAGE.sif"]


@pytest.mark.parametrize("name", [*NAMES, STRANGE])
def test_any_name_of_the_image_and_the_cache(stage: Stage, name: str) -> None:
    stage.cache.rename(stage.cache.parent / f"{name} local\n")
    odd = replace(stage, image=stage.image.rename(stage.image.parent / name), cache=stage.cache.parent / f"{name} local\n")  # fmt: skip
    first = odd.run()
    assert first.code == 0 and Path(first.image).parent == odd.folder
    assert Path(first.image).name in (odd.digest, f"{odd.digest}.sif")
    assert Path(first.image).read_bytes() == odd.image.read_bytes()
    assert len(first.said) == 1 and first.said[0].startswith(COPYING)
    assert odd.run() == replace(first, said=[])
    assert replace(odd, sha="0" * 64).run().code == 1
    odd.image.unlink()
    gone = replace(odd, size=5, sha="1" * 64, samples="2").run()
    assert gone == Staged(0, str(odd.image), [f"{SHARED}the image cannot be read"])


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.sif", ".sif"), ("a.b.sqsh", ".sqsh"), (".sif", ".sif"), ("a.SIF", ".SIF"), ("a", ""), ("a.d/b", ""), ("a.", "."),
     ("a.s f", ""), ("a.lock", ""), ("a.part", ""), ("a.said", ""), ("a.averylongone", ""), ("a.é", "")],
)  # fmt: skip
def test_the_suffix_of_the_image_is_the_copys(stage: Stage, name: str, suffix: str) -> None:
    (stage.image.parent / name).parent.mkdir(exist_ok=True)
    stage = replace(stage, image=stage.image.rename(stage.image.parent / name))
    assert stage.run().image == str(stage.folder / f"{stage.digest}{suffix}")


def test_the_script_is_left_as_it_was(stage: Stage) -> None:
    look = 'shopt -p; shopt -po; umask; trap; ls /proc/$$/fd; printf \'%q \' "$IFS" "$PWD" "${LC_ALL-}"'
    around = (
        f"trap 'echo end >&2' EXIT; tp_child=; look() {{ {look}; }}; look >$TP_LOOK/before; tp_names=$(compgen -v)",
        'look >"$TP_LOOK/after"; diff "$TP_LOOK/before" "$TP_LOOK/after" >&2;'
        'comm -13 <(sort <<<"$tp_names") <(compgen -v | sort) | grep -vE "^(tp_|BASH|PIPESTATUS|_$|FUNCNAME)" >&2',
    )
    stage = replace(stage, env={"TP_LOOK": str(stage.image.parent)})
    for said in ([f"{COPYING}{stage.copy}", "end"], ["end"]):
        assert replace(stage, around=around).run() == Staged(0, str(stage.copy), said)
    assert replace(stage, around=around, sha="0" * 64).run().said[-1] == "end"


def test_all_names_begin_alike() -> None:
    assert all(name.startswith("tp_") for name in NODE_FUNCTIONS) and len(set(NODE_FUNCTIONS)) == 13


def test_an_empty_image(stage: Stage) -> None:
    stage.image.write_bytes(b"")
    assert stage.run().image == str(stage.copy) and stage.copy.read_bytes() == b""


def test_twenty_jobs_at_once_copy_once(stage: Stage, tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", tee=f"echo one >>'{tmp_path}/count'; sleep 0.5; exec /usr/bin/tee \"$@\"")
    stage = replace(stage, env=env)
    results = [ended(process) for process in [stage.start() for _ in range(20)]]
    assert {(one.code, one.image) for one in results} == {(0, str(stage.copy))}
    assert (tmp_path / "count").read_text() == "one\n"
    said = [line for one in results for line in one.said]
    assert said.count(f"{COPYING}{stage.copy}") == 1 and set(said) <= {f"{COPYING}{stage.copy}", WAITING}
    assert left(stage) == ["IMAGE.lock", "IMAGE.sif"]


def test_other_images_are_copied_meanwhile(stage: Stage, tmp_path: Path) -> None:
    other = replace(stage, image=content(tmp_path / "other.sif", seed=2))
    assert stage.run().code == 0
    with stage.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert other.run() == Staged(0, str(other.copy), [f"{COPYING}{other.copy}"])


def test_the_wait_for_anothers_copy_is_bounded(stage: Stage, tmp_path: Path) -> None:
    """By 20 MiB a second and a minute."""
    env = tools(tmp_path / "bin", flock='[[ $1 != -w ]] || { echo "waited $2" >&2; shift 2; }; exec /usr/bin/flock -w 0.1 "$@"')  # fmt: skip
    assert stage.run().code == 0
    huge = replace(stage, env=env, sha=stage.digest, samples="0", size=70 * 20 * BLOCK)
    with stage.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert huge.run() == Staged(
            0,
            str(stage.image),
            [
                WAITING.replace("60", "130"),
                "waited 130",
                f"{SHARED}its lock was not free within 130 s, or a signal came",
            ],
        )


def test_a_lock_that_is_shared_does_not_keep_others_from_a_copy(stage: Stage) -> None:
    assert stage.run().code == 0
    with stage.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert stage.run() == Staged(0, str(stage.copy), [])


@pytest.mark.parametrize("name", ["flock", "fallocate"])
def test_without_a_program(stage: Stage, tmp_path: Path, name: str) -> None:
    stage = replace(stage, env=without(tmp_path / "bin", name))
    results = [ended(process) for process in [stage.start() for _ in range(4)]]
    assert {(one.code, one.image) for one in results} == {(0, str(stage.copy))}
    assert {line for one in results for line in one.said} <= {f"{COPYING}{stage.copy}", WAITING}
    assert left(stage) == ["IMAGE.lock", "IMAGE.sif"]
    assert stage.run().said == []


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "other bytes": (lambda copy: content(copy, seed=3), "the image has another content in the sampled blocks"),
    "shorter": (lambda copy: os.truncate(copy, 5), "the image has another size: 5 bytes, expected 3000001"),
    "writable by a group": (lambda copy: copy.chmod(0o460), "it is not a file of this user alone"),
    "writable by all": (lambda copy: copy.chmod(0o402), "it is not a file of this user alone"),
    "a link": (lambda copy: copy.symlink_to(copy.rename(copy.parent / "real")), "it is not a file of this user alone"),
    "a dangling link": (lambda copy: (copy.unlink(), copy.symlink_to("x")), "it is not a file of this user alone"),
    "a FIFO": (lambda copy: (copy.unlink(), os.mkfifo(copy)), "it is not a file of this user alone"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_made_again(stage: Stage, damage: str) -> None:
    change, why = DAMAGES[damage]
    stage.run()
    stage.copy.chmod(0o600)
    change(stage.copy)
    assert stage.run() == Staged(0, str(stage.copy), [f"{AGAIN}{why}", f"{COPYING}{stage.copy}"])
    assert stage.copy.read_bytes() == stage.image.read_bytes() and not stage.copy.is_symlink()
    if damage == "a link":
        assert (stage.folder / "real").read_bytes() == stage.image.read_bytes(), (
            "nothing is written through it"
        )


def test_a_folder_in_place_of_the_copy(stage: Stage) -> None:
    stage.folder.mkdir(0o700)
    stage.copy.mkdir()
    said = [f"{AGAIN}it is not a file of this user alone", f"{COPYING}{stage.copy}"]
    result = stage.run()
    assert (result.code, result.image, result.said[:-1]) == (0, str(stage.image), said)
    assert result.said[-1].startswith(
        f"{SHARED}copying stopped at 3000001 of 3000001 bytes: it cannot be kept ("
    )
    assert left(stage) == ["IMAGE.lock", "IMAGE.sif"]


def test_another_image_than_the_registered_is_refused(stage: Stage) -> None:
    """The samples may be those of the registered one: what differs lies between them."""
    wrong = replace(stage, sha="0" * 64)
    sentence = f"tuneplane: the image is not the one that was registered: its sha256 is {stage.digest}"
    assert wrong.run() == Staged(1, "", [f"{COPYING}{wrong.copy}", sentence])
    assert [path.name for path in wrong.folder.iterdir()] == ["0" * 64 + ".lock"]
    sentence = "tuneplane: the image is not the one that was registered: it has 3000001 bytes, expected 5"
    assert replace(stage, size=5).run() == Staged(1, "", [sentence])


HALF = 'case " $* " in *" bs=4M "*) head -c 1000000 /dev/zero;'
FAULTS = {
    "the read fails": ({"dd": f'{HALF} echo "dd: error reading x: Input/output error" >&2; exit 1;; esac'}, "Input/output error"),
    "the reader is killed": ({"dd": f"{HALF} kill -9 $$;; esac"}, "not all of it was read and written"),
    "the image becomes shorter": ({"dd": f"{HALF} exit 0;; esac"}, "not all of it was read and written"),
    "the image becomes longer": ({"dd": 'cat "${1#if=}"; echo more'}, "not all of it was read and written"),
    "the write fails": ({"tee": 'echo "tee: x: Quota exceeded" >&2; cat; exit 1'}, "Quota exceeded"),
    "the writer is killed": ({"tee": "head -c 5; kill -9 $$"}, "not all of it was read and written"),
    "the writer loses bytes": ({"tee": "cat"}, "not all of it was read and written"),
    "the hash fails": ({"sha256sum": "cat >/dev/null; echo 'sha256sum: no memory' >&2; exit 1"}, "no memory"),
    "the hash fails after it is said": ({"sha256sum": "/usr/bin/sha256sum; exit 1"}, "-"),
    "the hash is killed": ({"sha256sum": "kill -9 $$"}, "a signal came"),
    "the hash says nothing": ({"sha256sum": "cat >/dev/null"}, ""),
    "the disk loses it": ({"dd": 'case " $* " in *" conv=notrunc,fsync "*) exit 1;; esac; exec /usr/bin/dd "$@"'}, "it cannot be kept"),
    "the rename fails": ({"mv": "exit 1"}, "it cannot be kept"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_copy_that_fails_is_no_copy(stage: Stage, tmp_path: Path, fault: str) -> None:
    texts, why = FAULTS[fault]
    result = replace(stage, env=tools(tmp_path / "bin", **texts)).run()
    assert (result.code, result.image, result.said[0]) == (0, str(stage.image), f"{COPYING}{stage.copy}")
    assert len(result.said) == 2 and result.said[1].startswith(f"{SHARED}copying stopped at ")
    assert f" of 3000001 bytes: {why} (" in result.said[1] or fault == "the hash fails after it is said"
    assert left(stage) == ["IMAGE.lock"]
    assert stage.run() == Staged(0, str(stage.copy), [f"{COPYING}{stage.copy}"])


# --- signals ---

SLOW = 'case " $* " in *" bs=4M "*) head -c 1000000 /dev/zero; exec sleep 60;; esac; exec /usr/bin/dd "$@"'
TRAP = 'tp_interrupted=; tp_child=; trap \'tp_interrupted=1; [ -z "$tp_child" ] || kill -s TERM "$tp_child" 2>/dev/null\' TERM'


def half_copied(stage: Stage) -> Path:
    """The part of a copy that has begun."""
    for _ in range(400):
        found = list(stage.folder.glob("*.part")) if stage.folder.exists() else []
        if found and found[0].stat().st_size:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no copy has begun")


def all_gone(group: int) -> bool:
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("trap", [TRAP, "trap : TERM"], ids=["the script's", "any"])
def test_a_signal_ends_the_copy_at_once(stage: Stage, tmp_path: Path, trap: str) -> None:
    env = tools(tmp_path / "bin", dd=SLOW)
    process = replace(stage, env=env, around=(trap, "")).start(start_new_session=True)
    half_copied(stage)
    process.send_signal(signal.SIGTERM)
    result = ended(process)
    assert (result.code, result.image) == (0, str(stage.image))
    assert len(result.said) == 2 and ": a signal came (" in result.said[1]
    assert left(stage) == ["IMAGE.lock"]
    assert all_gone(process.pid)


def test_a_signal_ends_the_wait_at_once(stage: Stage) -> None:
    stage.run()
    with stage.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = replace(stage, around=(TRAP, "")).start(start_new_session=True)
        assert process.stderr is not None and process.stderr.readline() == WAITING + "\n"
        process.send_signal(signal.SIGTERM)
        result = ended(process)
    assert result.said == [f"{SHARED}its lock was not free within 60 s, or a signal came"]
    assert all_gone(process.pid)


def test_after_a_signal_no_copy_is_made(stage: Stage, tmp_path: Path) -> None:
    result = replace(stage, env=tools(tmp_path / "bin", dd=SLOW), around=("tp_interrupted=1", "")).run()
    assert (result.code, result.image) == (0, str(stage.image)) and ": a signal came (" in result.said[-1]
    assert left(stage) == ["IMAGE.lock"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_copy_leaves_is_not_trusted_and_goes_after_an_hour(
    stage: Stage, tmp_path: Path, number: signal.Signals
) -> None:
    process = replace(stage, env=tools(tmp_path / "bin", dd=SLOW)).start(start_new_session=True)
    part = half_copied(stage)
    os.killpg(process.pid, number)
    process.communicate()
    assert all_gone(process.pid)
    others = [replace(stage, image=content(tmp_path / f"{n}.sif", 100, seed=n)) for n in (5, 6, 7)]
    assert others[0].run().code == 0 and part.exists()
    for path in (part, said := Path(f"{part}.said")):
        aged(path, HOUR + 100)
    with stage.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert others[1].run().code == 0 and part.exists()
    assert others[2].run().code == 0 and not part.exists() and not said.exists()
    assert stage.run() == Staged(0, str(stage.copy), [f"{COPYING}{stage.copy}"])


def test_what_a_killed_copy_of_the_same_image_left_goes(stage: Stage) -> None:
    stage.folder.mkdir(0o700)
    aged(content(stage.folder / f"{stage.digest}.sif.abcdef.part"), HOUR + 100)
    assert stage.run().code == 0 and left(stage) == ["IMAGE.lock", "IMAGE.sif"]


def test_a_copy_whose_script_was_killed_keeps_its_lock_until_it_ends(stage: Stage, tmp_path: Path) -> None:
    slow = SLOW.replace("sleep 60", "sleep 1.5")
    process = replace(stage, env=tools(tmp_path / "bin", dd=slow)).start(start_new_session=True)
    half_copied(stage)
    process.kill()
    assert stage.run() == Staged(0, str(stage.copy), [WAITING, f"{COPYING}{stage.copy}"])


# --- room ---


def cached(stage: Stage, number: int, age: float, size: int = 1_000_000) -> Path:
    """A copy of another image, last used `age` seconds ago."""
    stage.folder.mkdir(0o700, exist_ok=True)
    path = content(stage.folder / (f"{number:x}" * 64 + ".sif"), size)
    path.chmod(0o400)
    return aged(path, age)


def disk_of(stage: Stage, folder: Path, size: int) -> dict[str, str]:
    """A PATH whose df knows of a disk of that size with nothing on it but copies."""
    return tools(
        folder, df=f"used=$(cat '{stage.folder}'/* | wc -c); printf 'Avail\\n%s\\n' $(({size} - used))"
    )


def test_copies_go_after_the_age_and_stay_until_then(stage: Stage) -> None:
    old, newer, fresh = cached(stage, 1, 1001 * HOUR), cached(stage, 2, 999 * HOUR), cached(stage, 3, 10)
    (keepsake := aged(content(stage.folder / "notes", 10), 5000 * HOUR))
    assert replace(stage, age=1000 * HOUR).run().code == 0
    assert [path.exists() for path in (old, newer, fresh, keepsake)] == [False, True, True, True]
    other = replace(stage, image=content(stage.image.parent / "b.sif", seed=2), age=5)
    aged(newer, HOUR - 60)
    assert other.run().code == 0
    assert newer.exists() and fresh.exists(), "whatever the age, an hour"


def test_the_least_recently_used_copies_make_room_and_no_more_than_needed(
    stage: Stage, tmp_path: Path
) -> None:
    paths = [cached(stage, n, hours * HOUR) for n, hours in ((1, 5), (2, 9), (3, 2), (4, 7))]
    stage = replace(stage, env=disk_of(stage, tmp_path / "bin", 5_500_001), keep=500_000)
    assert stage.run() == Staged(0, str(stage.copy), [f"{COPYING}{stage.copy}"])
    assert [path.exists() for path in paths] == [True, False, True, False]


def test_a_copy_that_was_used_again_is_the_last_to_go(stage: Stage, tmp_path: Path) -> None:
    stage.run()
    aged(stage.copy, 9 * HOUR)
    stage.run()
    other = replace(stage, image=content(tmp_path / "b.sif", seed=2))
    second = cached(stage, 2, 8 * HOUR)
    assert replace(other, env=disk_of(stage, tmp_path / "bin", 6_500_000)).run().code == 0
    assert stage.copy.exists() and not second.exists()


def test_nothing_of_the_last_hour_goes_nor_what_is_locked(stage: Stage, tmp_path: Path) -> None:
    fresh, locked = cached(stage, 1, HOUR - 60), cached(stage, 2, 9 * HOUR)
    stage = replace(stage, env=disk_of(stage, tmp_path / "bin", 4_000_000), keep=7)
    with (stage.folder / ("2" * 64 + ".lock")).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        why = f"{stage.folder} has 2000000 bytes free, needed are 3000001 and 7 to stay free"
        assert stage.run() == Staged(0, str(stage.image), [f"{SHARED}{why}"])
    assert fresh.exists() and locked.exists()


def test_a_copy_that_is_used_while_room_is_made_stays(stage: Stage, tmp_path: Path) -> None:
    """Its time is looked at again under its lock."""
    old = cached(stage, 1, 9 * HOUR)
    env = tools(tmp_path / "bin", df=f"touch '{old}'; printf 'Avail\\n5\\n'")
    result = replace(stage, env=env).run()
    assert result.image == str(stage.image) and old.exists()


@pytest.mark.parametrize("text", ["exit 1", "echo Avail; echo -", "echo; echo '?'"])
def test_a_disk_that_says_nothing_has_no_room(stage: Stage, tmp_path: Path, text: str) -> None:
    result = replace(stage, env=tools(tmp_path / "bin", df=text)).run()
    assert result.said == [f"{SHARED}{stage.folder} has 0 bytes free, needed are 3000001 and 0 to stay free"]


@pytest.fixture
def small_disk(stage: Stage) -> Stage:
    """The cache on a disk of 2 MiB, for as long as the process lives."""
    mount = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(stage.cache)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        lacking("needs root and a mount namespace")
    return stage


def run_there(stage: Stage, before: str = "") -> Staged:
    """The script in a mount namespace of its own, which says at the end what is left in the folder."""
    mount = (
        'if [[ -z ${TP_THERE-} ]]; then TP_THERE=1 exec unshare -m /bin/bash -pc "$BASH_EXECUTION_STRING" bash "$@"; fi; '
        f'mount -t tmpfs -o size=2m,mode=755 tmpfs "$5"; {before}'
    )
    return replace(stage, around=(mount, 'tp_image+=" "$(ls "$5"/*)')).run()


def test_a_full_disk(small_disk: Stage) -> None:
    result = run_there(small_disk)
    folder = f"{SHARED}{small_disk.folder} has "
    assert result.said[0].startswith(folder) and result.said[0].endswith(
        "needed are 3000001 and 0 to stay free"
    )
    assert result.image.split(" ")[2] == f"{small_disk.digest}.lock" and len(result.said) == 1


@pytest.mark.parametrize("reserved", [True, False])
def test_a_disk_that_fills_up_meanwhile(small_disk: Stage, tmp_path: Path, reserved: bool) -> None:
    """Noticed before the copy where the filesystem reserves blocks, in the middle of it elsewhere."""
    lies = {"df": "printf 'Avail\\n999999999999\\n'"} | ({} if reserved else {"fallocate": "exit 1"})
    result = run_there(replace(small_disk, env=tools(tmp_path / "bin", **lies)))
    assert result.image == f"{small_disk.image} {small_disk.digest}.lock"
    assert len(result.said) == 2 and result.said[1].startswith(f"{SHARED}copying stopped at ")
    assert result.said[1].startswith(f"{SHARED}copying stopped at 0 of") == reserved
    if reserved:
        assert ": No space left on device (" in result.said[1]


def test_a_disk_without_room_for_a_name(small_disk: Stage) -> None:
    result = run_there(small_disk, before='mount -o remount,ro "$5"; tp_folder=')
    assert result.said[0] == f"{SHARED}cannot make {small_disk.folder}"


# --- whom a copy is believed from ---


def fallen_back(stage: Stage, why: str) -> None:
    assert stage.run() == Staged(0, str(stage.image), [f"{SHARED}{why}"])


def test_a_cache_that_is_no_folder(stage: Stage) -> None:
    for name in ("nothing", "shared/an image.sif"):
        path = stage.cache.parent / name
        fallen_back(replace(stage, cache=path), f"{path} is not a folder")
        assert not (stage.cache.parent / "nothing").exists()


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
@pytest.mark.parametrize("above", [False, True])
def test_a_cache_that_others_may_change(stage: Stage, mode: int, above: bool) -> None:
    """And a sticky one, in which they cannot replace what is ours."""
    inner = replace(stage, cache=stage.cache / "inner")
    inner.cache.mkdir()
    open_one = stage.cache if above else inner.cache
    open_one.chmod(mode)
    fallen_back(inner, f"others may change {open_one}")
    assert not inner.folder.exists()
    open_one.chmod(mode | 0o1000)
    assert inner.run().image == str(inner.copy)


def test_a_link_to_the_cache_is_followed_once(stage: Stage) -> None:
    (stage.image.parent / "link").symlink_to(stage.cache)
    through = replace(stage, cache=stage.image.parent / "link")
    through.cache.parent.chmod(0o777)
    assert through.run().image == str(stage.copy), "where it leads is safe, wherever the link is"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_of_ours_that_others_may_write_to(stage: Stage, mode: int) -> None:
    stage.run()
    stage.folder.chmod(mode)
    fallen_back(stage, f"it is not a folder of this user alone: {stage.folder}")


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Stage]:
    """The job of another user than root, with a cache like /tmp."""
    if os.geteuid() != 0:
        lacking("only root can be two other users")
    with tempfile.TemporaryDirectory(dir=tmp_path.parent) as folder:
        os.chmod(folder, 0o755)
        stage = replace(made(Path(folder)), uid=JOB)
        stage.cache.chmod(0o1777)
        yield stage


def plant(path: Path, uid: int = STRANGER, mode: int = 0o755) -> Path:
    """Give away what was just made."""
    os.chown(path, uid, uid, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(mode)
    return path


def decoy(stage: Stage, folder: Path, uid: int = STRANGER, mode: int = 0o755) -> Path:
    """A folder with the right copy in it."""
    folder.mkdir()
    plant(Path(shutil.copy(stage.image, folder / stage.copy.name)), uid, 0o444)
    return plant(folder, uid, mode)


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def tree(folder: Path) -> list[tuple[str, int, int, int, int]]:
    found = [(str(path), path.lstat()) for path in sorted(folder.rglob("*"))]
    return [(path, s.st_ino, s.st_mode, s.st_uid, s.st_mtime_ns) for path, s in found]


PLANTED: dict[str, Callable[[Stage], object]] = {
    "a folder": lambda s: decoy(s, s.folder),
    "a folder for all": lambda s: decoy(s, s.folder, mode=0o777),
    "a folder for all, sticky": lambda s: decoy(s, s.folder, mode=0o1777),
    "ours in another's name": lambda s: decoy(s, s.folder, JOB, 0o770),
    "root's for all": lambda s: decoy(s, s.folder, 0, 0o777),
    "a link to a folder of theirs": lambda s: plant(link(s.folder, decoy(s, s.cache / "x"))),
    "a link to a folder of ours": lambda s: plant(link(s.folder, decoy(s, s.cache / "x", JOB, 0o700))),
    "a dangling link": lambda s: plant(link(s.folder, s.cache / "nothing")),
    "a file": lambda s: plant(content(s.folder)),
    "a FIFO": lambda s: plant(fifo(s.folder)),
}


@pytest.mark.parametrize("case", PLANTED)
def test_planted(strangers: Stage, case: str) -> None:
    PLANTED[case](strangers)
    before = tree(strangers.cache)
    fallen_back(strangers, f"it is not a folder of this user alone: {strangers.folder}")
    assert tree(strangers.cache) == before


def test_another_user_makes_uses_and_keeps_a_copy(strangers: Stage) -> None:
    """And root's folder in the user's name is read, though nothing can be written to it."""
    assert strangers.run() == Staged(0, str(strangers.copy), [f"{COPYING}{strangers.copy}"])
    assert strangers.copy.stat().st_uid == JOB
    assert strangers.run().said == []
    plant(strangers.copy, 0, 0o444)
    assert strangers.run() == Staged(0, str(strangers.copy), []), "root's is as good"
    plant(strangers.folder, 0)
    strangers.lock.unlink()
    fallen_back(strangers, f"cannot write to {strangers.folder}")


INSIDE: dict[str, Callable[[Stage], object]] = {
    "their file": lambda s: plant(Path(shutil.copy(s.image, s.copy)), mode=0o444),
    "their file for all": lambda s: plant(Path(shutil.copy(s.image, s.copy)), mode=0o666),
    "a hard link to theirs": lambda s: os.link(plant(Path(shutil.copy(s.image, s.cache / "x")), mode=0o444), s.copy),
    "a link to theirs": lambda s: link(s.copy, plant(Path(shutil.copy(s.image, s.cache / "x")), mode=0o444)),
    "their link to ours": lambda s: plant(link(s.copy, plant(Path(shutil.copy(s.image, s.cache / "x")), JOB))),
    "their FIFO": lambda s: plant(fifo(s.copy)),
}  # fmt: skip


@pytest.mark.parametrize("case", INSIDE)
def test_a_copy_of_theirs_in_our_folder_is_replaced(strangers: Stage, case: str) -> None:
    """It is there from a time when the folder was not ours alone."""
    strangers.folder.mkdir()
    plant(strangers.folder, JOB, 0o700)
    INSIDE[case](strangers)
    beside = strangers.cache / "x"
    before = beside.stat() if beside.exists() else None
    said = [f"{AGAIN}it is not a file of this user alone", f"{COPYING}{strangers.copy}"]
    assert strangers.run() == Staged(0, str(strangers.copy), said)
    assert strangers.copy.lstat().st_uid == JOB and stat.S_ISREG(strangers.copy.lstat().st_mode)
    if before:
        after = beside.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "fifo", "link", "dangling link", "folder", "for all"])
def test_a_lock_of_theirs(strangers: Stage, kind: str) -> None:
    strangers.folder.mkdir()
    plant(strangers.folder, JOB, 0o700)
    target = strangers.cache / "x"
    if kind in ("file", "for all"):
        strangers.lock.touch()
        plant(strangers.lock, *((JOB, 0o666) if kind == "for all" else (STRANGER, 0o644)))
    elif kind == "fifo":
        plant(fifo(strangers.lock))
    elif kind == "folder":
        strangers.lock.mkdir()
    else:
        if kind == "link":
            target.touch()
            plant(target, JOB, 0o600)
        plant(link(strangers.lock, target))
    before = tree(strangers.cache)
    fallen_back(strangers, f"it is not a file of this user alone: {strangers.lock}")
    assert tree(strangers.cache) == before


def test_a_cache_of_theirs(strangers: Stage) -> None:
    """Who owns a sticky folder can replace what is in it."""
    for mode in (0o755, 0o1777):
        plant(strangers.cache, mode=mode)
        fallen_back(strangers, f"others may change {strangers.cache}")
    plant(strangers.cache, JOB, 0o700)
    assert strangers.run().image == str(strangers.copy)


def test_a_link_of_theirs_to_a_cache(strangers: Stage) -> None:
    theirs = plant(link(strangers.cache / "link", strangers.image.parent))
    fallen_back(
        replace(strangers, cache=theirs), f"cannot make {strangers.image.parent / strangers.folder.name}"
    )
    decoy(strangers, strangers.cache / "x")
    theirs = plant(link(strangers.cache / "other", strangers.cache / "x"))
    fallen_back(replace(strangers, cache=theirs), f"others may change {strangers.cache / 'x'}")


def test_roots_copy_is_used_by_all(strangers: Stage) -> None:
    admin = strangers.cache / "tuneplane-images"
    decoy(strangers, admin, 0, 0o755)
    before = tree(strangers.cache)
    assert strangers.run() == Staged(0, str(admin / strangers.copy.name), [])
    assert tree(strangers.cache) == before, "only read"


ADMIN: dict[str, tuple[Callable[[Stage, Path], object], str]] = {
    "a folder of theirs": (lambda s, a: decoy(s, a), "not used, since it is not a folder of root alone: {admin}"),
    "a folder of ours": (lambda s, a: decoy(s, a, JOB), "not used, since it is not a folder of root alone: {admin}"),
    "a folder for all": (lambda s, a: decoy(s, a, 0, 0o1777), "not used, since it is not a folder of root alone: {admin}"),
    "a link": (lambda s, a: link(a, decoy(s, s.cache / "x", 0)), "not used, since it is not a folder of root alone: {admin}"),
    "a file": (lambda s, a: plant(content(a)), "not used, since it is not a folder of root alone: {admin}"),
    "their file": (lambda s, a: plant(decoy(s, a, 0) / s.copy.name), ""),
    "our file": (lambda s, a: plant(decoy(s, a, 0) / s.copy.name, JOB), ""),
    "a file for a group": (lambda s, a: (decoy(s, a, 0) / s.copy.name).chmod(0o664), ""),
    "nothing": (lambda s, a: (decoy(s, a, 0) / s.copy.name).unlink(), ""),
    "a damaged file": (lambda s, a: content(decoy(s, a, 0) / s.copy.name, seed=9), "root's copy on this node is not used: the image has another content in the sampled blocks"),
    "a file only for root": (lambda s, a: (decoy(s, a, 0) / s.copy.name).chmod(0o600), "root's copy on this node is not used: the image cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", ADMIN)
def test_what_is_not_roots_alone_is_not_roots_copy(strangers: Stage, case: str) -> None:
    admin = strangers.cache / "tuneplane-images"
    change, why = ADMIN[case]
    change(strangers, admin)
    before = tree(admin)
    said = [f"tuneplane: {why.format(admin=admin)}"] if why else []
    assert strangers.run() == Staged(0, str(strangers.copy), [*said, f"{COPYING}{strangers.copy}"])
    assert tree(admin) == before


# --- the texts ---


def test_shellcheck(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(f'#!/bin/bash -p\nset -u\n{SAY}\n{CHECK_IMAGE_SH}{STAGE_SH}\ntp_stage "$@"\necho "$tp_image"\n')  # fmt: skip
    done = subprocess.run([program("shellcheck"), tmp_path / "s"], capture_output=True, text=True)
    assert done.stdout == ""


def test_the_texts_are_plain() -> None:
    text = CHECK_IMAGE_SH + STAGE_SH
    assert text.isascii() and max(map(len, text.splitlines())) <= 120
    comments = [line for line in text.splitlines() if line.startswith("# tp_")]
    assert [line.split()[1].rstrip(":") for line in comments] == list(NODE_FUNCTIONS)
