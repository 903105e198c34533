"""Making images: what is run, what is left behind, and under which name."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from builders import site as make_site
from image_files import sif, sqsh
from pretend_apptainer import Pretender, play
from render.tools import program

from tuneplane.builds import running, workshop
from tuneplane.builds.building import carry_out
from tuneplane.builds.faults import explained, last_lines
from tuneplane.builds.orders import Where, argument_names, from_definition, from_source, placed
from tuneplane.builds.running import run_as_job
from tuneplane.errors import ImageError, SchedulerError, SiteError, TuneplaneError, UsageError
from tuneplane.plan.image_build import ImageBuild, Step
from tuneplane.plan.model import Directive
from tuneplane.render.image_build import render
from tuneplane.runtimes.formats import facts_of
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site

ODD = 'it\'s "odd" $(touch pwned) `x` 世界'
DEFINITION = """Bootstrap: docker
From: {{ base }}
%arguments
    base=docker.io/x
    index = https://pypi.org/simple
%post
    echo {{ index }} {{word}}
%labels
    later x=1
"""


class Place:
    """A site whose images are made by a pretender, in an oddly named folder."""

    def __init__(self, tmp_path: Path, kind: str = "apptainer", image: bytes | None = None) -> None:
        self.root = tmp_path / ODD
        self.apptainer = Pretender(self.root / "programs", image)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir()
        self.images = self.root / "images"
        self.file = self.root / "x.def"
        self.file.write_text(DEFINITION)
        self.told: list[str] = []
        folders = {"runs": "/runs", "images": str(self.images), "scratch": str(self.scratch)}
        made = make_site(
            runtime={"kind": kind, "apptainer": str(self.apptainer.path)},
            folders=folders,
            path=[str(self.bin), "/usr/bin", "/bin"],
            environment={"MINE": "of the site"},
        )
        self.named = NamedSite("moon", Path("/sites/moon.yaml"), "d" * 64, made)

    @property
    def site(self) -> Site:
        return self.named.site

    def made(self, where: Where | None = None, **how: Any) -> Any:
        where = where or Where()
        order, _ = placed(self.named, from_definition(self.named, "toy", str(self.file), **how), where)
        return carry_out(self.named, order, where, self.told.append)

    def imported(self, word: Path | str) -> Any:
        order, _ = placed(self.named, from_source(self.named, "toy", str(word)), Where())
        return carry_out(self.named, order, Where(), self.told.append)

    def left(self) -> list[str]:
        return sorted(path.name for path in self.images.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_build(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words, its environment, and the image under the name of its content, whatever the umask."""
    monkeypatch.setenv("APPTAINER_BIND", "/etc")
    monkeypatch.setenv("SINGULARITY_TMPDIR", "/nowhere")
    monkeypatch.setenv("PIP_INDEX_URL", "http://mine")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    before = os.umask(0o077)
    try:
        made = place.made(arguments=["base=a b", "index=/mnt"], binds=["/x:/mnt"], compression="zstd")
    finally:
        os.umask(before)
    found = place.apptainer.environ()
    scratch = Path(found["APPTAINER_TMPDIR"])
    assert place.apptainer.calls() == [
        [
            "build", "--mksquashfs-args", "-comp zstd -Xcompression-level 3",
            "--bind", f"{scratch}/tmp:/tmp", "--bind", f"{scratch}/tmp:/var/tmp", "--bind", "/x:/mnt",
            "--build-arg", "base=a b", "--build-arg", "index=/mnt", "image.part", "build.def",
        ]
    ]  # fmt: skip
    assert place.apptainer.scratch() == ["tmp"]
    assert scratch.parent == place.scratch and found["APPTAINER_CACHEDIR"] == f"{scratch}/cache"
    assert (found["MINE"], found["https_proxy"]) == ("of the site", "http://proxy:3128")
    assert not {"APPTAINER_BIND", "SINGULARITY_TMPDIR", "PIP_INDEX_URL"} & set(found)
    assert list(place.scratch.iterdir()) == []

    digest = hashlib.sha256((place.apptainer.place / "image").read_bytes()).hexdigest()
    assert made.file == place.images / f"toy-x86_64-{digest[:12]}.sif" and made.arch == "x86_64"
    assert place.left() == [made.file.name]
    modes = [path.stat().st_mode & 0o777 for path in (made.file, place.images)]
    assert modes == [0o444, 0o755]
    assert made.built == {
        "definition": f"sha256:{hashlib.sha256(DEFINITION.encode()).hexdigest()}",
        "argument base": "a b",
        "argument index": "/mnt",
    }
    assert len(place.told) == 1 and place.told[0].startswith("building here, log: ")


def test_a_site_that_takes_sqsh_gets_what_lies_in_the_sif(tmp_path: Path) -> None:
    place = Place(tmp_path, "pyxis", sif(b"y" * 300_000, labels={"of": "the sif"}))
    made = place.made()
    offset, size = facts_of(place.apptainer.place / "image").filesystem
    data = (place.apptainer.place / "image").read_bytes()[offset : offset + size]
    assert made.file.read_bytes() == data and made.file.suffix == ".sqsh"
    # an architecture that only the SIF tells, and what it says of itself
    assert (made.arch, made.built["of"], made.built["bootstrap"]) == ("x86_64", "the sif", "localimage")
    assert place.left() == [made.file.name]


def test_the_same_content_is_kept_once_and_nothing_is_replaced(place: Place) -> None:
    first = place.made()
    looked = first.file.stat()
    assert place.made() == first and place.left() == [first.file.name]
    assert first.file.stat().st_ino == looked.st_ino
    first.file.chmod(0o644)
    first.file.write_bytes(b"something else")
    with pytest.raises(ImageError, match="is there already and holds something else"):
        place.made()
    assert first.file.read_bytes() == b"something else"
    # the work is not lost
    assert len(place.left()) == 2 and "the image was made: tp runtime import toy" in place.told[-1]


def test_where_no_links_can_be_made_the_image_is_renamed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    made = place.made()
    assert place.left() == [made.file.name] and made.file.stat().st_mode & 0o777 == 0o444


def test_two_builds_at_once(place: Place) -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(place.made())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and place.left() == [found[0].file.name]
    assert len(place.apptainer.builds()) == 4 and list(place.scratch.iterdir()) == []


def test_a_build_that_fails_keeps_its_log(place: Place) -> None:
    place.apptainer.fails("INFO:    Starting build...\nFATAL:   no space left on device\n")
    with pytest.raises(ImageError) as caught:
        place.made()
    (work,) = place.left()
    problem = caught.value.problems[0]
    assert problem.what == "the image of toy was not made: there is no room left"
    assert problem.where == f"{place.images}/{work}/build.log"
    assert "log: FATAL:   no space left on device" in place.told
    assert sorted(path.name for path in (place.images / work).iterdir()) == [
        "build.def", "build.log", "job.sbatch", "outcome",
    ]  # fmt: skip
    assert list(place.scratch.iterdir()) == []


def test_an_interrupted_build_ends_with_all_it_started(place: Place, tmp_path: Path) -> None:
    place.apptainer.sleeps()
    timer = threading.Thread(target=lambda: interrupt_when(lambda: place.apptainer.slept))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        place.made()
    timer.join()
    (work,) = place.left()
    assert workshop.outcome(place.images / work) == 143
    assert list(place.scratch.iterdir()) == []
    assert subprocess.run(["pgrep", "-f", str(place.images / work)], capture_output=True).stdout == b""


def interrupt_when(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2])
def test_a_killed_build_leaves_no_image_under_a_final_name(place: Place, seconds: float) -> None:
    """Whenever it is killed: what has a final name is whole."""
    code = (
        "import os, sys, time, tuneplane.builds.workshop as w; from pathlib import Path;"
        "real = os.link; os.link = lambda *a: (print('linking', flush=True), time.sleep(0.1), real(*a));"
        "print('start', flush=True); w.keep(Path(sys.argv[1]), Path(sys.argv[2]), 'toy', 'sif')"
    )
    place.images.mkdir()
    work = workshop.claim(place.images, "toy", {})
    (work / "image").write_bytes(b"z" * 3_000_000)
    words = [sys.executable, "-c", code, str(work / "image"), str(place.images)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None and process.stdout.readline() == b"start\n"
    time.sleep(seconds)
    process.kill()
    process.wait()
    process.stdout.close()
    for path in place.images.glob("toy-*"):
        assert path.stat().st_size == 3_000_000 and path.stat().st_mode & 0o777 == 0o444
    final = workshop.keep(work / "image", place.images, "toy", "sif")
    assert final.read_bytes() == b"z" * 3_000_000


# -- what is imported ---------------------------------------------------------------------------------------


def test_an_image_of_the_right_format_is_copied(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "- a:b"
    source.write_bytes(sif(b"q" * 100))
    made = place.imported(source)
    assert made.file.read_bytes() == source.read_bytes() and place.apptainer.calls() == []
    assert made.built == {"imported": f"SIF image {source}"}


@pytest.mark.parametrize("kind", ["pyxis", "enroot"])
def test_a_sif_is_cut_and_a_sqsh_copied(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, kind)
    source = tmp_path / "x"
    source.write_bytes(sif(b"q" * 100))
    assert place.imported(source).file.read_bytes() == sqsh(b"q" * 100)
    source.write_bytes(sqsh(b"r"))
    assert place.imported(source).file.read_bytes() == sqsh(b"r")
    assert place.apptainer.calls() == []


def test_other_forms_go_through_apptainer(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "a:b"
    source.write_bytes(sqsh(b"x"))
    place.imported(source)
    place.imported("docker://ghcr.io/a/b:1")
    assert [call[-1] for call in place.apptainer.builds()] == [str(source), "docker://ghcr.io/a/b:1"]


def test_archives_of_images_are_named_without_colons(place: Place, tmp_path: Path) -> None:
    from builds.test_sources import DOCKER, OCI, tar

    for names, form, name in ((DOCKER, "docker-archive", "source"), (OCI, "oci", "root")):
        place.imported(tar(tmp_path / "a:b", names))
        place.imported(tar(tmp_path / "c:d", names, "w:gz"))
        for call in place.apptainer.builds()[-2:]:
            kind, _, path = call[-1].partition(":")
            assert kind == form and Path(path).parent.parent == place.scratch and Path(path).name == name
        assert place.apptainer.scratch() == [name]


def test_a_root_filesystem_is_unpacked_without_devices(place: Place, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("etc", "usr", "dev", "opt/dev"):
        (root / name).mkdir(parents=True)
    for name in ("etc/shadow", "usr/x", "dev/null", "opt/dev/kept"):
        (root / name).touch()
    (root / "etc/shadow").chmod(0)
    subprocess.run(["tar", "-C", root, "-cf", tmp_path / "a.tar", "."], check=True)
    listing = place.apptainer.place / "listing"
    text = place.apptainer.path.read_text()
    look = f'( cd "${{@: -1}}" && find . -type f -printf "%P %m\\n" ) >"{listing.name}"\n'
    place.apptainer.path.write_text(
        text.replace("case $1 in", f"{look.replace(listing.name, '$place/listing')}case $1 in")
    )
    place.imported(tmp_path / "a.tar")
    assert sorted(listing.read_text().splitlines()) == ["etc/shadow 600", "opt/dev/kept 644", "usr/x 644"]
    assert place.apptainer.builds()[0][-1].endswith("/root")


# -- what is refused before anything is written ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"arguments": ["bas=x"]}, UsageError, "no argument `bas`, did you mean `base`"),
        ({"arguments": ["base"]}, UsageError, "is no KEY=VALUE"),
        ({"arguments": ["base=/a'; rm -rf /"]}, UsageError, "the value of `base` holds a single quote"),
        (
            {"arguments": ["base=/a\n%post\n rm -rf /"]},
            UsageError,
            "the value of `base` holds a single quote",
        ),
        ({"arguments": ["index=https://me:word@host/simple"]}, UsageError, "`index` holds a password"),
        ({"binds": ["/a"]}, UsageError, "is no bind"),
        ({"binds": ["/a:/b,/c:/d"]}, UsageError, "is no bind"),
        ({"where": Where(True, "h200:16")}, UsageError, "`h200:16` is 2 nodes"),
        ({"where": Where(True, "h100")}, SiteError, "there is no profile `h100`"),
        ({"where": Where(True, "", "90")}, TuneplaneError, "90 could be"),
        ({"where": Where(True, resources=(("acount", "x"),))}, UsageError, "did you mean `account`"),
        (
            {"where": Where(True, resources=(("account", "x"),))},
            SiteError,
            "does not let users set `account`",
        ),
    ],
)
def test_a_wrong_wish(place: Place, how: dict[str, Any], error: type[TuneplaneError], match: str) -> None:
    with pytest.raises(error, match=match):
        place.made(**how)
    assert not place.images.exists()


def test_without_apptainer_a_build_is_refused_and_a_copy_is_not(place: Place, tmp_path: Path) -> None:
    place.apptainer.path.unlink()
    with pytest.raises(SiteError, match="there is no Apptainer at"):
        place.made()
    source = tmp_path / "x.sif"
    source.write_bytes(sif())
    assert place.imported(source).file.read_bytes() == source.read_bytes()


def test_names_of_arguments() -> None:
    assert argument_names(DEFINITION) == ["base", "index", "word"]
    assert argument_names("Bootstrap: docker\n") == []


def test_every_bundled_definition_has_a_base_and_an_index_to_choose() -> None:
    from tuneplane.runtimes.definitions import build_file, definition_names

    for runtime_id in definition_names():
        assert "base" in argument_names(build_file(runtime_id).read_text()), runtime_id


# -- the script -----------------------------------------------------------------------------------------------


def example(step: Step, **fields: Any) -> ImageBuild:
    facts = (("runtime", "toy\n$(x)"), ("from", "é"))
    lines = (Directive("job-name", 'a "b"', "site"), Directive("no-requeue", None, "platform"))
    return ImageBuild(
        **{
            "runtime_id": "toy", "step": step, "source": f"/x/{ODD}", "apptainer": "/opt/appt ainer", "facts": facts,
            "scheduler": "slurm", "directives": lines, "arguments": ("a=b c\n",) if step == "definition" else (),
        }
        | fields
    )  # fmt: skip


STEPS: tuple[Step, ...] = ("definition", "address", "plain", "docker", "oci", "root", "copy")


@pytest.mark.tools
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fields", [{}, {"scheduler": "local", "unpacker": "gzip"}], ids=["job", "here"])
def test_every_script_is_sound(tmp_path: Path, step: Step, fields: dict[str, Any]) -> None:
    setup = {"setup": ["module load apptainer"], "folders": {"runs": "/r", "scratch": "/local/{user}"}}
    script = tmp_path / "script"
    script.write_text(render(example(step, **fields), make_site(**setup)))
    done = subprocess.run([program("shellcheck"), "--shell=bash", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_script_is_the_same_each_time_and_says_what_it_is_for(place: Place) -> None:
    def made() -> str:
        order = from_definition(place.named, "toy", str(place.file), ["index=/mnt"])
        return render(placed(place.named, order, Where(True, "", "30m"))[0].plan, place.site)

    text = made()
    assert text == made()
    head = text.partition("\n#SBATCH")[0]
    for line in (
        f"definition  {place.file}",
        f"            sha256:{hashlib.sha256(DEFINITION.encode()).hexdigest()}",
        "argument    index=/mnt",
        "site        moon, slurm, apptainer",
    ):
        assert f"#   {line}\n" in head + "\n"
    for line in ("job-name=build-toy", "nodes=1", "export=NIL", "propagate=NONE", "time=0-00:30:00"):
        assert f"#SBATCH --{line}\n" in text
    # a build needs no GPU
    assert "gres" not in text and "cpus-per-task=32" in text and "'-processors 32'" in text


# -- as a job -------------------------------------------------------------------------------------------------


class Queue:
    """A Slurm that is played by a few lines of bash."""

    def __init__(self, place: Place, sbatch: str = "echo 7", state: str = "RUNNING") -> None:
        self.place = place
        place.images.mkdir()
        self.work = workshop.claim(place.images, "toy", {})
        (self.work / "job.sbatch").write_text("#!/bin/bash\n")
        play(place.bin, "sbatch", sbatch)
        self.show(state)
        play(
            place.bin,
            "scancel",
            f'echo "$@" >{sh(place.bin / "said")}',
        )
        play(place.bin, "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")

    def show(self, state: str, reason: str = "None") -> None:
        line = (
            f"printf '7\\037\\037{state}\\037{reason}\\037N/A\\037(null)\\037%s\\n' {sh(self.work)}"
            if state
            else ":"
        )
        play(self.place.bin, "squeue", line)

    def run(self) -> int:
        return run_as_job(self.work, self.place.site, self.place.told.append)


def sh(path: Path) -> str:
    from shlex import quote

    return quote(str(path))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(running, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(import_module("tuneplane.schedulers.slurm.submit"), "PAUSE_SECONDS", 0.0)


def test_the_outcome_of_a_job_is_waited_for(place: Place, quick: None) -> None:
    queue = Queue(place, state="PENDING")
    queue.show("PENDING", "Priority")

    def tell(text: str) -> None:
        place.told.append(text)
        if "queued" in text:
            (queue.work / "outcome").write_text("0\n")

    assert run_as_job(queue.work, place.site, tell) == 0
    assert place.told == [
        f"job 7 builds it, log: {queue.work}/build.log",
        "job 7 is queued, waiting: Priority",
    ]


@pytest.mark.parametrize(
    ("state", "why"), [("TIMEOUT", "Slurm says TIMEOUT"), ("", "Slurm knows it no more")]
)
def test_a_job_that_is_gone_is_noticed(place: Place, quick: None, state: str, why: str) -> None:
    queue = Queue(place, state=state or "RUNNING")
    threading.Timer(0.3, lambda: queue.show(state)).start()
    with pytest.raises(SchedulerError, match=f"job 7 ended before the build did: {why}"):
        queue.run()


def test_a_job_that_slurm_refuses(place: Place, quick: None) -> None:
    queue = Queue(place, "echo 'sbatch: error: Invalid account' >&2; exit 1", state="")
    with pytest.raises(SchedulerError, match="Slurm did not take the job: Invalid account"):
        queue.run()


def test_a_submission_in_doubt_is_not_repeated(place: Place, quick: None) -> None:
    queue = Queue(place, "echo 'sbatch: error: Socket timed out' >&2; exit 1", state="")
    with pytest.raises(SchedulerError, match="it is not known whether Slurm took the job"):
        queue.run()


def test_an_interruption_cancels_the_job(place: Place, quick: None) -> None:
    queue = Queue(place)
    threading.Thread(target=lambda: interrupt_when(lambda: len(place.told) > 0)).start()
    with pytest.raises(KeyboardInterrupt):
        queue.run()
    assert (place.bin / "said").read_text() == "7\n" and place.told[-1] == "job 7 is cancelled"


# -- leftovers ------------------------------------------------------------------------------------------------


def left_behind(images: Path, name: str, days: float, *files: str) -> Path:
    folder = images / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).write_text("{}")
    for path in (*folder.iterdir(), folder):
        then = time.time() - days * 86400
        os.utime(path, (then, then))
    return folder


def test_old_work_folders_go_and_nothing_else(tmp_path: Path) -> None:
    gone = left_behind(tmp_path, ".toy.aaaaaaaa", 1.1, "build.log", "outcome")
    kept = [
        left_behind(tmp_path, ".toy.bbbbbbbb", 0.9, "build.log"),
        left_behind(tmp_path, ".toy.cccccccc", 9, "job.json"),
        left_behind(tmp_path, ".toys.dddddddd", 9),
        left_behind(tmp_path, ".toy.x", 9),
        left_behind(tmp_path, "toy-x86_64-0", 9),
    ]
    whole = left_behind(tmp_path, ".toy.eeeeeeee", 9, "image", "outcome")
    forgotten = left_behind(tmp_path, ".toy.kkkkkkkk", 31, "image", "outcome")
    alive = left_behind(tmp_path, ".toy.ffffffff", 9, "build.log")
    os.utime(alive / "build.log")
    (tmp_path / ".toy.gggggggg").symlink_to(gone)
    ended = left_behind(tmp_path, ".toy.hhhhhhhh", 9, "job.json")
    notes = workshop.sweep(tmp_path, "toy", lambda folder: folder != ended)
    assert not gone.exists() and not ended.exists() and not forgotten.exists()
    assert all(folder.exists() for folder in (*kept, whole, alive))
    assert notes == [f"an earlier build was never registered: tp runtime import toy {whole}/image"]


def test_a_work_folder_that_cannot_be_filled_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workshop, "write_whole", full)
    with pytest.raises(SiteError, match="No space left on device"):
        workshop.claim(tmp_path, "toy", {"a": b""})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_images_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="this site has no folder for images"):
        workshop.images_folder(make_site())
    (tmp_path / "file").touch()
    with pytest.raises(SiteError, match=r"cannot write to .*: Not a directory") as caught:
        workshop.images_folder(make_site(folders={"runs": "/r", "images": f"{tmp_path}/file/images"}))
    assert caught.value.problems[0].where == "folders.images"


# -- what Apptainer 1.4.5 says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (
            "FATAL:   While performing build: conveyor failed to get: Get \"https://index.docker.io/v2/\": dial tcp: lookup index.docker.io: no such host",
            "the network cannot be reached from there",
        ),
        (
            "newuidmap: write to uid_map failed: Operation not permitted\nERROR  : 'newuidmap' execution failed.",
            "Apptainer cannot act as root for this user",
        ),
        (
            "set_attributes: failed to change uid and gids on /image/rootfs/etc/shadow, because Invalid argument",
            "Apptainer cannot act as root for this user",
        ),
        ("write /tmp/t/build-temp-1/archive-2: no space left on device", "there is no room left"),
        ("ERROR: No matching distribution found for torch==9", "the package index has no `torch==9`"),
        (
            "FATAL:   While performing build: while running engine: while running %post section: exit status 3",
            "the %post of the definition failed",
        ),
        ("FATAL:   While performing build: odd\ntuneplane: the image could not be made\n", "While performing build: odd"),
        ("tuneplane: on n1, today\ntuneplane: it cannot be read here: /x\n", "it cannot be read here: /x"),
        ("", "it says nothing of why"),
    ],
)  # fmt: skip
def test_what_it_says_is_put_into_a_sentence(log: str, what: str) -> None:
    assert explained(log)[0] == what


def test_the_last_lines_are_those_a_reader_wants() -> None:
    noise = '2026/11/30 19:33:58  warn rootless{etc/x} ignoring (usually) harmless EPERM on setxattr "x"\n'
    log = "one\n" + noise * 9 + "[====|   ]  3%\n\n+ set -e\n" + "two\nthree\nfour\nfive\nsix\n"
    assert last_lines(log) == ["two", "three", "four", "five", "six"]
