"""`tp runtime`, and the image that the other commands choose: whole outputs."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from audit.audited import submitted
from cli.shop import ID, Shop
from cli.world import Expected, Said, World
from image_files import sif, sqsh

from tuneplane.errors import SchedulerError
from tuneplane.render import decode
from tuneplane.schedulers import Queued

expected = Expected("runtime")


class Speaking(Shop):
    """One whose words are compared."""

    def says(self, case: str, *words: str, **more: str) -> None:
        expected(self.tp(*words, **more), case, self.world)


@pytest.fixture
def shop(world: World, monkeypatch: pytest.MonkeyPatch) -> Speaking:
    monkeypatch.setattr("tuneplane.registry.person.me", lambda: "admin")
    monkeypatch.setattr("tuneplane.registry.person.host", lambda: "login")
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Speaking(world)


NO_REGISTRY = {
    "register": ["register", ID, "toy.sif"],
    "show": ["show", ID],
    "verify": ["verify"],
    "retire": ["retire", ID],
    "undo": ["undo", ID],
    "ls": ["ls"],
}


@pytest.mark.parametrize("case", NO_REGISTRY)
def test_without_a_registry(shop: Speaking, case: str) -> None:
    shop.site(folders={"runs": str(shop.world.runs)})
    before = shop.world.tree()
    shop.says(f"no registry: {case}", "runtime", *NO_REGISTRY[case])
    assert shop.world.tree() == before


@pytest.mark.parametrize("case", ["show", "verify", "retire", "undo", "ls"])
def test_a_registry_that_is_not_there(shop: Speaking, case: str) -> None:
    before = shop.world.tree()
    shop.says(f"missing: {case}", "runtime", *NO_REGISTRY[case])
    assert shop.world.tree() == before


# --- register ---


def test_register(shop: Speaking) -> None:
    file = shop.image("toy 世界.sif")
    shop.says("register", "runtime", "register", ID, str(file))
    [call] = shop.apptainer.calls()
    assert call[:11] == [
        "--quiet",
        "exec",
        "--cleanenv",
        "--no-eval",
        "--pid",
        "--no-mount",
        "home,cwd",
        "--pwd",
        "/",
        str(file),
        "python3",
    ]
    shop.says("register again", "runtime", "register", ID, str(file))
    other = shop.image("other.sif")
    shop.says("register in its place", "runtime", "register", ID, str(other), "--replace")
    shop.says("register as JSON", "runtime", "register", ID, str(file), "--replace", "--json")
    assert shop.records() == ["00000001.json", "00000002.json", "00000003.json"]


def test_register_beside_it(shop: Speaking) -> None:
    shop.register()
    squash = shop.image("toy.sqsh", sqsh())
    shop.says("register a squashfs", "runtime", "register", ID, str(squash), "--arch", "x86_64")
    arm = shop.image("arm.sif", sif(arch="aarch64", compression="lzo"))
    shop.says("register for another architecture", "runtime", "register", ID, str(arm))
    assert set(json.loads((shop.registry / f"artifacts/{ID}/00000003.json").read_text())["current"]) == {
        "sif-x86_64",
        "sqsh-x86_64",
        "sif-aarch64",
    }


def test_register_without_looking(shop: Speaking) -> None:
    shop.says("register without looking", "runtime", "register", ID, str(shop.image("toy.sif")), "--no-probe")
    assert shop.apptainer.calls() == []


def test_register_with_another_python(shop: Speaking) -> None:
    shop.register("toy.sif", "--python", "/venv/bin/python")
    assert shop.apptainer.calls()[0][10] == "/venv/bin/python"
    # a definition that ships says where it is
    shop.register("torch.sif", runtime_id="pytorch-2.14.0")
    assert shop.apptainer.calls()[1][10] == "/opt/venv/bin/python"


def test_register_what_a_method_cannot_use(shop: Speaking) -> None:
    shop.holds("3.12.4", torch="2.13.0+cpu")
    shop.says("register with another torch", "runtime", "register", ID, str(shop.image("toy.sif")))
    shop.holds("3.12.4")
    shop.says(
        "register without torch, as JSON",
        "runtime",
        "register",
        ID,
        str(shop.image("b.sif")),
        "--replace",
        "--json",
    )
    (shop.apptainer.place / "holds").write_text("")
    shop.says("register without a Python", "runtime", "register", ID, str(shop.image("c.sif")), "--replace")


def test_register_where_others_could_replace_it(shop: Speaking) -> None:
    file = shop.image("toy.sif")
    shop.images.chmod(0o757)
    shop.says("register in an open folder", "runtime", "register", ID, str(file))


def odd(shop: Speaking, name: str) -> Path:
    """Something that cannot be registered, by its name."""
    place = shop.images / name
    if name == "pipe":
        os.mkfifo(place)
    elif name == "folder":
        place.mkdir()
    elif name == "archive.tar":
        place.write_bytes(bytes(257) + b"ustar\0")
    elif name == "text":
        place.write_text("Bootstrap: docker\n")
    elif name == "empty":
        place.write_bytes(b"")
    elif name == "half.sif":
        place.write_bytes(sif(b"x" * 5000)[:-100])
    elif name == "odd.sqsh":
        place.write_bytes(sqsh())
    elif name == "toy.sif":
        place.write_bytes(sif())
    return place


WRONG: dict[str, tuple[str, list[str]]] = {
    "a FIFO": ("pipe", []),
    "a folder": ("folder", []),
    "nothing": ("none", []),
    "an archive": ("archive.tar", []),
    "a text": ("text", []),
    "an empty file": ("empty", []),
    "half of one": ("half.sif", []),
    "another architecture": ("toy.sif", ["--arch", "aarch64"]),
    "an unknown architecture": ("odd.sqsh", []),
    "an architecture that is none": ("toy.sif", ["--arch", "m68k"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_registered(shop: Speaking, case: str) -> None:
    name, more = WRONG[case]
    file = odd(shop, name)
    before = shop.world.tree()
    shop.says(f"not registered: {case}", "runtime", "register", ID, str(file), *more)
    assert shop.world.tree() == before


@pytest.mark.parametrize("name", ["../toy", "toy 2", "", "-toy"])
def test_what_is_no_runtime_id(shop: Speaking, name: str) -> None:
    file = odd(shop, "toy.sif")
    said = shop.tp("runtime", "register", "--", name, str(file))
    expected(said, f"no runtime id: {name or 'empty'}", shop.world)
    assert not shop.registry.exists()
    for command in ("show", "retire", "undo"):
        shop.register() if not shop.records() else None
        said = shop.tp("runtime", command, "--", name)
        assert said.code == 5 and said.out == "" and len(shop.records()) == 1, said


def denied(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_file_that_may_not_be_read(shop: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made."""
    file = shop.image("toy.sif")
    monkeypatch.setattr("tuneplane.runtimes.formats.opened", denied)
    shop.says("not registered: not to be read", "runtime", "register", ID, str(file))


def test_an_image_that_cannot_be_started_here(shop: Speaking) -> None:
    file = shop.image("toy.sif")
    shop.apptainer.mute()
    shop.says("not registered: it does not start", "runtime", "register", ID, str(file))
    shop.apptainer.path.unlink()
    shop.says("not registered: no starter", "runtime", "register", ID, str(file))
    squash = str(shop.image("toy.sqsh", sqsh()))
    shop.says("not registered: no starter of either", "runtime", "register", ID, squash, "--arch", "x86_64")
    assert shop.records() == []
    said = shop.tp("runtime", "register", ID, str(file), "--no-probe")
    assert (said.code, said.err) == (0, "")


def test_a_registry_that_cannot_be_written(shop: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    file = shop.image("toy.sif")

    def read_only(**_: object) -> str:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("tuneplane.registry.folders.tempfile.mkdtemp", read_only)
        shop.says("not registered: a registry that is read-only", "runtime", "register", ID, str(file))
    assert shop.apptainer.calls() == []


def test_who_is_no_publisher(shop: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    file = shop.register()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    for command, more in (("register", [str(file), "--replace"]), ("retire", []), ("undo", [])):
        said = shop.tp("runtime", command, ID, *more)
        said = replace(said, err=re.sub(r"uid \d+", "uid <n>", said.err))
        expected(said, f"no publisher: {command}", shop.world)
    assert len(shop.records()) == 1


@pytest.mark.parametrize("part", ["", "artifacts", f"artifacts/{ID}", f"artifacts/{ID}/00000001.json"])
def test_what_others_could_have_changed(shop: Speaking, part: str) -> None:
    """Nothing of it is believed, and nothing put beside it."""
    file = shop.register()
    place = shop.registry / part
    place.chmod(place.stat().st_mode | 0o002)
    words = {
        "show": [ID],
        "verify": [],
        "retire": [ID],
        "undo": [ID],
        "register": [ID, str(file), "--replace"],
    }
    for command, more in words.items():
        said = shop.tp("runtime", command, *more)
        assert (said.code, said.out) == (4, ""), (command, said)
        assert f"error: `{place}` is writable by everybody\n" in said.err, (command, said)
    shop.says(f"open to all: {part or 'the registry'}", "runtime", "show", ID)
    assert len(shop.records()) == 1


# --- a bar on a terminal ---


def at_a_terminal(shop: Speaking, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout, and what stood on the terminal that stderr was."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(
            [sys.executable, "-m", "tuneplane", "--site", "here", *words],
            cwd=shop.world.folder,
            env=shop.world.environment | {"TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        out = done.communicate(timeout=60)[0].decode()
        said = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:
                break
            if not more:
                break
            said += more
        return done.returncode, out, said.decode()
    finally:
        os.close(ours)


def test_a_bar_is_for_a_terminal_alone(shop: Speaking) -> None:
    file = shop.image("toy.sif", sif(os.urandom(9 << 20)))
    code, out, screen = at_a_terminal(shop, "runtime", "register", ID, str(file))
    assert (code, out.split("\n")[0]) == (0, f"registered {ID} sif-x86_64")
    assert "reading" in screen and "100%" in screen
    code, out, screen = at_a_terminal(shop, "runtime", "verify", "--full")
    assert (code, out) == (0, f"{ID} sif-x86_64 is as it was registered\n") and "100%" in screen
    assert at_a_terminal(shop, "runtime", "verify") == (0, out, "")
    said = shop.tp("runtime", "register", ID, str(file), "--replace")
    assert (said.code, said.err) == (0, "")


# --- ls and show ---


def test_ls(shop: Speaking) -> None:
    shop.register()
    shop.register("one.sif", "--no-probe", runtime_id="toy-1.0.0").unlink()
    shop.register("own.sif", "--no-probe", runtime_id="own", data=sif(arch="aarch64"))
    assert shop.tp("catalog", "refresh").code == 0
    before = shop.world.tree()
    shop.says("ls", "runtime", "ls")
    rows = json.loads(shop.tp("runtime", "ls", "--json").out)
    assert [row for row in rows if row["runtime_id"].startswith("toy")] == [
        {
            "runtime_id": "toy-1.0.0",
            "image": "sif-x86_64, its file is gone",
            "usable": False,
            "slots": ["sif-x86_64"],
            "path": f"{shop.images}/one.sif",
            "python": "",
            "methods": ["toy/tuned 1.0.0"],
        },
        {
            "runtime_id": ID,
            "image": "sif-x86_64",
            "usable": True,
            "slots": ["sif-x86_64"],
            "path": f"{shop.images}/toy.sif",
            "python": "3.12.1",
            "methods": ["toy/tuned 2.0.0"],
        },
    ]
    assert shop.world.tree() == before


def test_show(shop: Speaking) -> None:
    shop.holds("3.12.4", torch="2.14.0", ray="2.50.0", click="8.2", **{"flash-attn": "2.8.1"})
    shop.register("toy.sif", data=sif(labels={"maintainer": "wei\n世界"}))
    shop.register("toy.sqsh", "--arch", "x86_64", "--no-probe", data=sqsh(compression="gzip"))
    (shop.apptainer.place / "holds").write_text("")
    shop.register("arm.sif", data=sif(b"arm", arch="aarch64"))
    before = shop.world.tree()
    shop.says("show", "runtime", "show", ID)
    shop.says("show as JSON", "runtime", "show", ID, "--json")
    assert shop.world.tree() == before
    shop.says("show what is not registered", "runtime", "show", "toy-3")


# --- verify ---


def test_verify(shop: Speaking) -> None:
    shop.register()
    shop.register("toy.sqsh", "--arch", "x86_64", data=sqsh())
    shop.register("b.sif", runtime_id="b-1")
    for case, words in {"verify": [], "verify one": [ID], "verify all of it": ["--full", "b-1"]}.items():
        shop.says(case, "runtime", "verify", *words)
    shop.says("verify what is not registered", "runtime", "verify", "b-1", "none")
    (shop.images / "toy.sif").touch()
    assert shop.tp("runtime", "verify").code == 0


def flip(file: Path) -> None:
    data = file.read_bytes()
    with file.open("r+b") as image:
        image.seek(len(data) - 1)
        image.write(bytes([data[-1] ^ 1]))


def swap(file: Path) -> None:
    """Another image under its name."""
    new = file.with_name("new")
    new.write_bytes(sif(b"other!"))
    os.rename(new, file)


def grow(file: Path) -> None:
    with file.open("ab") as image:
        image.write(b"more")


def in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "replaced": swap,
    "deleted": Path.unlink,
    "grown": grow,
    "a folder": in_its_place,
}


def test_verify_what_has_changed(shop: Speaking) -> None:
    """All of it is told, what is right as well."""
    for name, change in CHANGES.items():
        file = shop.register(f"{name}.sif", runtime_id=name.replace(" ", "-"), data=sif(b"x" * 6))
        change(file)
    shop.register("right.sif", runtime_id="right")
    shop.says("verify with changes", "runtime", "verify")
    shop.says("verify with changes, as JSON", "runtime", "verify", "--json")


def test_verify_what_may_not_be_read(shop: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends neither the command nor what is said of the others."""
    shop.register("a.sif", runtime_id="a")
    shop.register("b.sif", runtime_id="b")
    monkeypatch.setattr("tuneplane.runtimes.measure.opened", denied)
    assert shop.tp("runtime", "verify").code == 0
    shop.says("verify what may not be read", "runtime", "verify", "--full")


# --- retire and undo ---


def test_retire(shop: Speaking) -> None:
    shop.register()
    shop.register("toy.sqsh", "--arch", "x86_64", data=sqsh())
    shop.says("retire one of several", "runtime", "retire", ID)
    shop.says("retire what is not there", "runtime", "retire", ID, "--slot", "sif-aarch64")
    shop.says("retire", "runtime", "retire", ID, "--slot", "sif-x86_64")
    shop.says("retire the only one", "runtime", "retire", ID)
    shop.says("retire when none is left", "runtime", "retire", ID)
    shop.says("retire what was never registered", "runtime", "retire", "toy-3")
    assert (shop.images / "toy.sif").exists() and len(shop.records()) == 4


class Queue:
    def __init__(self, *jobs: Queued) -> None:
        self.jobs = jobs

    def everyone(self, _: object) -> list[Queued]:
        if not self.jobs:
            raise SchedulerError.of("squeue does not answer")
        return list(self.jobs)


def test_retire_what_is_queued(shop: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait with it are named: their scripts would be refused once its file is gone."""
    file = shop.register()
    digest = json.loads((shop.registry / f"artifacts/{ID}/00000001.json").read_text())["current"]["sif-x86_64"]["sha256"]  # fmt: skip
    jobs = []
    for number, sha256 in enumerate((digest, digest, "0" * 64), 11):
        folder = shop.world.root / f"run-{number}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"plan": {"image": {"sha256": sha256}}}))
        jobs.append(Queued(str(number), "wei", str(folder)))
    (shop.world.root / "run-12/run.json").write_text("{")
    monkeypatch.setattr("tuneplane.runtimes.queued.scheduler", lambda _: Queue(*jobs))
    shop.says("retire what is queued", "runtime", "retire", ID)
    shop.register(file.name)
    monkeypatch.setattr("tuneplane.runtimes.queued.scheduler", lambda _: Queue())
    shop.says("retire when the scheduler is silent", "runtime", "retire", ID)
    assert len(shop.records()) == 4


def test_undo(shop: Speaking) -> None:
    shop.register("a.sif")
    shop.register("b.sqsh", "--arch", "x86_64", data=sqsh())
    shop.register("c.sif", "--replace")
    shop.tp("runtime", "retire", ID, "--slot", "sif-x86_64")
    for turn in ("retire", "replace", "the second", "the first", "nothing"):
        shop.says(f"undo {turn}", "runtime", "undo", ID)
    shop.says("undo what was never registered", "runtime", "undo", "toy-3")
    assert len(shop.records()) == 8 and not (shop.registry / "artifacts/toy-3").exists()


# --- which image a run starts ---


@pytest.fixture
def chosen(shop: Speaking) -> Speaking:
    """A site that publishes, with an experiment; its site file names an image, too."""
    shop.image("site.sif")
    shop.site(runtime={"images": {ID: str(shop.images / "site.sif")}})
    assert shop.tp("catalog", "refresh").code == 0
    shop.world.made("exp", "toy/tuned", "--site", "here")
    return shop


def image_of(said: Said) -> str:
    """What the script's header says of the image."""
    return next(line[16:] for line in said.out.split("\n") if line.startswith("#   image"))


def test_who_names_the_image_first(chosen: Speaking) -> None:
    images = chosen.images
    own, option = chosen.image("own.sif"), chosen.image("option.sif")
    assert image_of(chosen.tp("compile", "exp")) == f"{images}/site.sif (site image of {ID})"
    chosen.register()
    assert image_of(chosen.tp("compile", "exp")) == f"{images}/toy.sif (record 1 of {ID})"
    by = {"TUNEPLANE_IMAGE_TOY": str(own)}
    assert image_of(chosen.tp("compile", "exp", **by)) == f"{own} (TUNEPLANE_IMAGE_TOY)"
    assert image_of(chosen.tp("compile", "exp", "--image", str(option), **by)) == f"{option} (--image)"
    other = {"TUNEPLANE_IMAGE_TOYS": str(own), "TUNEPLANE_IMAGE_TOY": ""}
    assert image_of(chosen.tp("compile", "exp", **other)) == f"{images}/toy.sif (record 1 of {ID})"
    chosen.tp("runtime", "retire", ID)
    assert image_of(chosen.tp("compile", "exp")) == f"{images}/site.sif (site image of {ID})"


def command_of(script: str) -> list[str]:
    """The words that the header says print the script again."""
    lines = script.split("\n")
    at = lines.index("# To audit: this command prints the very same bytes.")
    return decode.words(lines[at + 1].removeprefix("#   "))


def test_the_users_variable_is_recorded(chosen: Speaking) -> None:
    """The command in the header names it, and prints the very same bytes wherever it is typed."""
    own = chosen.image('it\'s "mine" $HOME 世界.sif')
    link = chosen.world.folder / "mine.sif"
    link.symlink_to(own)
    said = chosen.tp("compile", "exp", TUNEPLANE_IMAGE_TOY="mine.sif")
    assert (said.code, said.err) == (0, "")
    words = command_of(said.out)
    assert words[:4] == ["env", f"TUNEPLANE_IMAGE_TOY={link}", "tp", "--site"]
    name, _, value = words[1].partition("=")
    again = chosen.world.real(*words[3:], **{name: value})
    assert (again.code, again.out) == (0, said.out)
    # an option is more than a variable that is set when it is typed again
    with_option = chosen.tp("compile", "exp", "--image", str(own), TUNEPLANE_IMAGE_TOY="mine.sif")
    words = command_of(with_option.out)
    assert words[0] == "tp" and "TUNEPLANE_IMAGE" not in with_option.out
    assert chosen.world.tp(*words[1:], TUNEPLANE_IMAGE_TOY="/other").out == with_option.out


def test_the_users_variable_in_the_runs_record(chosen: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    own = chosen.image("mine.sif")
    monkeypatch.setitem(chosen.world.environment, "TUNEPLANE_IMAGE_TOY", str(own))
    run = submitted(chosen.world, "exp", "here")
    plan = json.loads((run / "run.json").read_text())["plan"]
    assert plan["image"]["source"] == "TUNEPLANE_IMAGE_TOY" and plan["image"]["path"] == str(own)
    assert plan["provenance"]["command"][:3] == ["env", f"TUNEPLANE_IMAGE_TOY={own}", "tp"]


@pytest.mark.parametrize("case", ["none.sif", "text", "pipe"])
def test_a_variable_that_names_no_image(chosen: Speaking, case: str) -> None:
    name = str(odd(chosen, case))
    chosen.says(f"a variable that names {case}", "validate", "exp", TUNEPLANE_IMAGE_TOY=name)


def everywhere(shop: Speaking, case: str, *words: str, site: str = "here") -> str:
    """What validate says; submit says the same; compile warns of each fault, and its script is returned."""
    said = shop.tp("validate", "exp", *words, site=site)
    expected(said, f"{case}: validate", shop.world)
    assert shop.tp("submit", "exp", *words, site=site) == said and not list(shop.world.runs.glob("*"))
    made = shop.tp("compile", "exp", *words, site=site)
    expected(replace(made, out=""), f"{case}: compile", shop.world)
    return made.out


def ends(shop: Speaking, script: str, run: Path) -> tuple[int, str]:
    """How a script ends in a run folder, and the last line of its log."""
    (run / "job.sbatch").chmod(0o644)
    (run / "job.sbatch").write_text(script)
    done = subprocess.run(
        ["/bin/bash", "-p", "job.sbatch"],
        cwd=run,
        env={"PATH": "/usr/bin:/bin", "HOME": str(shop.world.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    number = max(int(folder.name) for folder in (run / "attempts").iterdir())
    log = (run / "attempts" / str(number) / "job.log").read_text()
    return done.returncode, log.strip().split("\n")[-1]


REFUSAL = "tuneplane: the image is not the one that this script was compiled for"


@pytest.mark.parametrize("case", CHANGES)
def test_a_registered_image_that_has_changed(chosen: Speaking, case: str) -> None:
    """Whatever it was: the script stays what it was, and is refused where it starts."""
    file = chosen.register(data=sif(b"x" * 6))
    before = chosen.tp("compile", "exp")
    assert (before.code, before.err) == (0, "")
    run = submitted(chosen.world, "exp", "here")
    CHANGES[case](file)
    run.rename(chosen.world.root / "run")
    assert everywhere(chosen, case) == before.out
    assert ends(chosen, before.out, chosen.world.root / "run") == (5, REFUSAL)
    assert chosen.apptainer.calls()[1:] == []


def test_a_file_that_looks_otherwise_and_is_the_same(chosen: Speaking) -> None:
    file = chosen.register()
    script = chosen.tp("compile", "exp").out
    file.touch()
    said = chosen.tp("compile", "exp")
    assert (said.code, said.out, said.err) == (0, script, "")
    assert chosen.tp("validate", "exp").code == 0


def test_a_script_follows_from_the_record(chosen: Speaking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its file is there, or may be read, or is of a host that this one is not."""
    file = chosen.register()
    script = chosen.tp("compile", "exp").out
    assert f"record 1 of {ID}" in script
    with monkeypatch.context() as patch:
        patch.setattr("tuneplane.runtimes.measure.opened", denied)
        assert chosen.tp("compile", "exp") == Said(0, script, "")
        file.touch()
        said = chosen.tp("compile", "exp")
        assert (said.code, said.out) == (0, script) and "Permission denied" in said.err
        chosen.says("a registered image that may not be read", "validate", "exp")
    os.rename(chosen.images, chosen.world.root / "elsewhere")
    said = chosen.tp("compile", "exp")
    assert (said.code, said.out) == (0, script) and "is gone: tp runtime verify" in said.err


def test_only_for_another_format_or_architecture(chosen: Speaking) -> None:
    """What there is instead is said."""
    chosen.site()
    chosen.tp("catalog", "refresh")
    chosen.register("arm.sif", data=sif(arch="aarch64"))
    script = everywhere(chosen, "only for another architecture")
    assert "digest unknown" in script
    chosen.register()
    chosen.site("squash", "enroot")
    chosen.tp("catalog", "refresh", site="squash")
    everywhere(chosen, "only for another format", site="squash")


def test_none_at_all(chosen: Speaking) -> None:
    chosen.site()
    chosen.tp("catalog", "refresh")
    everywhere(chosen, "not registered")


def test_an_image_of_another_architecture(chosen: Speaking) -> None:
    arm = chosen.image("arm.sif", sif(arch="aarch64"))
    everywhere(chosen, "for another architecture", "--image", str(arm))


def test_an_image_that_the_site_does_not_start(chosen: Speaking) -> None:
    """No script could be made for it."""
    chosen.site("squash", "enroot")
    chosen.tp("catalog", "refresh", site="squash")
    file = str(chosen.image("toy.sif"))
    for command in ("validate", "compile", "submit"):
        chosen.says("a SIF for Enroot", command, "exp", "--image", file, site="squash")
    folders = {"runs": str(chosen.world.runs)}
    chosen.world.site("plugin", "slurm-pyxis", recipes=[str(chosen.recipes)], folders=folders)
    chosen.says("a SIF for pyxis", "compile", "exp", "--image", file, site="plugin")


def test_what_the_method_needs_and_the_image_has_not(chosen: Speaking) -> None:
    chosen.holds("3.12.4", torch="2.13.0+cpu")
    chosen.register()
    script = everywhere(chosen, "another torch")
    assert "--requires" not in script
    # of what follows from the record the script itself says that it cannot run
    assert (
        "tp_missing='toy/tuned needs torch==2.14.0, and the image of toy-2.0.0 holds torch 2.13.0+cpu"
        in script
    )
    chosen.holds("3.12.4", torch="2.14.0+cu130")
    chosen.register("right.sif", "--replace")
    assert chosen.tp("validate", "exp").code == 0
    assert "--requires" not in chosen.tp("compile", "exp").out


def test_what_the_job_looks_at_itself(chosen: Speaking) -> None:
    """Where nobody has looked into the image."""
    chosen.register("toy.sif", "--no-probe")
    for more in ([], ["--image", str(chosen.image("own.sif"))]):
        said = chosen.tp("compile", "exp", *more)
        assert (said.code, said.err) == (0, "") and "        --requires torch==2.14.0 \\\n" in said.out


def test_a_registry_that_cannot_be_read_is_no_reason_for_another_image(chosen: Speaking) -> None:
    """The site file's image would be there; that the registered one counts is not left to chance."""
    chosen.register()
    place = chosen.registry / f"artifacts/{ID}/00000001.json"
    place.chmod(0o666)
    for command in ("validate", "compile", "submit"):
        said = chosen.tp(command, "exp")
        assert (said.code, said.out) == (4, "") and "is writable by everybody" in said.err
    assert chosen.tp("validate", "exp", "--image", str(chosen.images / "toy.sif")).code == 0
