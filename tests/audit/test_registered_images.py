"""A run whose image is registered: the auditor's own record says what it is, whoever writes something else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit.audited import audited, found, rewrite, submitted, write
from cli.shop import ID, Shop
from cli.world import World
from image_files import sif

HERE = ("--site", "here")


class Case:
    """A run with a registered image at the site `here`."""

    def __init__(self, world: World) -> None:
        self.shop = Shop(world)
        self.world = world
        assert self.shop.tp("catalog", "refresh").code == 0
        world.made("exp", "toy/tuned", *HERE)
        self.image = self.shop.register()
        self.run = submitted(world, "exp", "here")
        self.script, self.record = self.run / "job.sbatch", self.run / "run.json"
        self.digest = hashlib.sha256(self.image.read_bytes()).hexdigest()
        self.size = self.image.stat().st_size

    def copy(self) -> Path:
        """The script without its run folder."""
        place = self.world.root / "copy.sh"
        write(place, self.script.read_bytes())
        return place

    def audit(self, word: Path | None = None, *options: str) -> dict[str, Any]:
        return audited(self.world, word or self.run, *(options or HERE))

    def rewrite(self, *changes: tuple[str, str] | Callable[[str], str], record: bool = False) -> None:
        """Change the script, and the record as well."""
        for file in (self.script, self.record) if record else (self.script,):
            rewrite(file, *changes)

    def line(self, mark: str, number: int = 0) -> str:
        """A line of the script that has the mark in it."""
        return [line for line in self.script.read_text().split("\n") if mark in line][number]


@pytest.fixture
def case(world: World, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Case(world)


def untouched(report: dict[str, Any]) -> None:
    assert (report["code"], report["verdict"], found(report), report["err"]) == (0, "untouched", [], "")


def test_what_nobody_touched(case: Case) -> None:
    assert f"record 1 of {ID}" in case.script.read_text()
    for word in (case.run, case.copy()):
        report = case.audit(word)
        untouched(report)
        assert report["claims"]["image"] == f"{case.image} sha256:{case.digest}"


@pytest.mark.parametrize("act", ["replaced", "beside", "retired", "undone"])
def test_what_was_registered_since_does_not_count(case: Case, act: str) -> None:
    """The run was right when it was made: its record is the one that it names."""
    if act in ("replaced", "beside"):
        name, more = ("new.sif", ["--replace"]) if act == "replaced" else ("arm.sif", [])
        case.shop.register(name, *more, data=sif(b"new", arch="x86_64" if more else "aarch64"))
    else:
        assert case.shop.tp("runtime", "retire" if act == "retired" else "undo", ID).code == 0
    for word in (case.run, case.copy()):
        untouched(case.audit(word))


def test_a_script_that_was_compiled_without_the_file(case: Case) -> None:
    """It is the script of the record all the same."""
    place = case.world.root / "elsewhere.sif"
    case.image.rename(place)
    said = case.world.tp(*HERE, "compile", "exp")
    write(case.world.root / "copy.sh", said.out.encode())
    report = case.audit(case.world.root / "copy.sh")
    untouched(report)
    gone = f"the image {case.image} is not to be seen here: its digest is a claim"
    assert gone in report["notes"]


EDITS = {
    "digest": (lambda case: case.digest, "0" * 64, ["image digest"], 1),
    "size": (lambda case: f"{case.size} bytes", "1 bytes", ["image digest"], 1),
    "samples": (lambda case: f"samples {case.digest}", f"samples {'0' * 64}", ["image digest"], 1),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_of_the_header(case: Case, what: str) -> None:
    text, other, where, count = EDITS[what]
    case.rewrite(lambda script: script.replace(text(case), other, count))
    report = case.audit()
    assert (report["code"], report["verdict"]) == (5, "another image")
    assert [(item[0], item[1].split(" ", 2)[2]) for item in found(report)] == [("image", *where)]
    assert found(report)[0][2] == (
        f"#               sha256:{case.digest}, {case.size} bytes, samples {case.digest}"
    )
    assert report["err"] == "error: the audit found another image: 1 difference\n"


@pytest.mark.parametrize("what", ["size", "samples", "path"])
def test_an_edit_of_what_is_checked(case: Case, what: str) -> None:
    """Both checks, the one before the launch and that on each node."""
    old, new = {
        "size": (f" {case.size} ", f" {case.size + 1} "),
        "samples": (f" {case.digest}", f" {'0' * 64}"),
        "path": (str(case.image), "/evil.sif"),
    }[what]

    def edit(script: str) -> str:
        head, mark, rest = script.partition("# ---- checks")
        assert old in rest
        return head + mark + rest.replace(old, new)

    case.rewrite(edit)
    report = case.audit()
    assert report["code"] == 5 and {item[0] for item in found(report)} == {"image"}
    assert len(found(report)) == 2 and all(new in str(item[3]) for item in found(report))


def test_an_edit_of_the_path_in_the_header(case: Case) -> None:
    case.rewrite((f"{case.image} (record", "/evil.sif (record"))
    report = case.audit()
    assert (report["code"], [item[:2] for item in found(report)]) == (5, [("image", "line 10 image")])


def test_an_edit_beside_others(case: Case) -> None:
    case.rewrite((f"{case.image} (record", "/evil.sif (record"), ("umask 027", "umask 000"))
    report = case.audit()
    assert report["code"] == 4 and [item[0] for item in found(report)] == ["image", "script"]
    assert report["err"] == "error: the audit found 2 differences\n"


def test_another_record_in_the_script_and_the_run(case: Case) -> None:
    """One that is registered, too: it says another image."""
    other = case.shop.register("other.sif", "--replace", data=sif(b"other"))
    case.rewrite(lambda text: text.replace(f"record 1 of {ID}", f"record 2 of {ID}"), record=True)
    report = case.audit()
    assert report["code"] == 4 or report["code"] == 5
    texts = [str(item[2]) for item in found(report)]
    assert any(str(other) in text for text in texts), report


# --- whole images put in place of others, in the script and in the record alike ---


def forged(case: Case, other: Path, source: str) -> dict[str, Any]:
    """What is found when script and record say throughout that the image is another registered one."""
    data = other.read_bytes()
    digest = hashlib.sha256(data).hexdigest()

    def edit(text: str) -> str:
        text = text.replace(f"record 1 of {ID}", source).replace(str(case.image), str(other))
        return text.replace(case.digest, digest).replace(str(case.size), str(len(data)))

    case.rewrite(edit, record=True)
    return case.audit()


def test_an_image_of_another_runtime_id(case: Case) -> None:
    """It is registered, and no image for this method."""
    other = case.shop.register("other.sif", runtime_id="other", data=sif(b"something else"))
    report = forged(case, other, "record 1 of other")
    assert report["code"] == 4 and report["verdict"] == "differs", report


def test_an_image_of_another_architecture(case: Case) -> None:
    other = case.shop.register("arm.sif", data=sif(b"something else", arch="aarch64"))
    report = forged(case, other, f"record 2 of {ID}")
    assert report["code"] in (4, 5) and report["verdict"] != "untouched", report
    assert any(str(case.image) in str(item[2]) for item in found(report))


def test_a_record_where_the_command_names_a_file(case: Case) -> None:
    """The command would give the user's image: what stands in the script is not what it prints."""
    own = case.shop.image("own.sif")
    run = submitted(case.world, "exp", "here", image=str(own))
    untouched(case.audit(run))
    data = own.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    for file in (run / "job.sbatch", run / "run.json"):
        rewrite(
            file,
            lambda text: text.replace("(--image)", f"(record 1 of {ID})").replace(
                '"source": "--image"', f'"source": "record 1 of {ID}"'
            ),
            lambda text: text.replace(digest, case.digest),
        )
    report = case.audit(run)
    assert report["code"] == 5 and {item[0] for item in found(report)} == {"image"}


def test_the_users_variable(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    own = case.shop.image("own.sif")
    with monkeypatch.context() as patch:
        patch.setitem(case.world.environment, "TUNEPLANE_IMAGE_TOY", str(own))
        run = submitted(case.world, "exp", "here")
    assert "env TUNEPLANE_IMAGE_TOY=" in (run / "job.sbatch").read_text()
    write(case.world.root / "copy.sh", (run / "job.sbatch").read_bytes())
    for word in (run, case.world.root / "copy.sh"):
        untouched(case.audit(word))
    # the auditor's own variable is nobody's business here
    untouched(audited(case.world, run, *HERE, TUNEPLANE_IMAGE_TOY="/other.sif"))


@pytest.mark.parametrize("command", [["env"], ["env", "x"], ["env", "PATH=/x", "tp"], [], ["tp"]])
def test_a_record_with_a_command_that_is_none(case: Case, command: list[str]) -> None:
    """The script speaks for itself then."""
    data = json.loads(case.record.read_text())
    data["plan"]["provenance"]["command"] = command
    write(case.record, json.dumps(data).encode())
    report = case.audit()
    assert (report["code"], report["verdict"]) == (0, "untouched")
    assert "run.json cannot be read: what the script says of itself is taken as claimed" in report["notes"]


# --- records that the auditor does not have ---


def test_a_record_that_the_auditors_registry_does_not_have(case: Case) -> None:
    other = case.world.root / "other"
    assert case.shop.tp("--registry", str(other), "catalog", "refresh").code == 0
    options = (*HERE, "--registry", str(other))
    for word in (case.run, case.copy()):
        report = case.audit(word, *options)
        assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
        assert report["reasons"] == [f"the image record 1 of {ID} is not published"]
        assert f"error: cannot be re-compiled: the image record 1 of {ID} is not published\n" in report["err"]


@pytest.mark.parametrize("source", [f"record 9 of {ID}", "record 1 of ../serials", "record 1 of none"])
def test_a_record_that_there_is_not(case: Case, source: str) -> None:
    case.rewrite(lambda text: text.replace(f"record 1 of {ID}", source), record=True)
    report = case.audit()
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"] == [f"the image {source.replace(' of ', ' of ')} is not published"]


def test_a_registry_of_images_that_cannot_be_trusted(case: Case) -> None:
    place = case.shop.registry / f"artifacts/{ID}/00000001.json"
    place.chmod(0o666)
    said = case.world.tp(*HERE, "audit", str(case.run))
    assert (said.code, said.out) == (4, "") and f"`{place}` is writable by everybody" in said.err


def test_an_auditor_without_a_registry(case: Case) -> None:
    case.shop.site(folders={"runs": str(case.world.runs)})
    report = case.audit()
    assert report["code"] == 4 and f"the image record 1 of {ID} is not published" in report["reasons"]


# --- the file ---


def other_bytes(file: Path) -> None:
    write(file, sif(b"other"))


def same_size(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    write(file, bytes(data))


@pytest.mark.parametrize("act", [other_bytes, same_size])
def test_another_image_at_its_path(case: Case, act: Callable[[Path], None]) -> None:
    act(case.image)
    now = hashlib.sha256(case.image.read_bytes()).hexdigest()
    for word in (case.run, case.copy()):
        report = case.audit(word)
        assert (report["code"], report["verdict"]) == (5, "another image")
        assert found(report) == [("image", str(case.image), f"sha256:{case.digest}", f"sha256:{now}")]


def test_something_else_in_its_place(case: Case) -> None:
    """A FIFO has no writer: whoever waits for one never ends."""
    case.image.unlink()
    report = case.audit()
    untouched(report)
    assert report["notes"] == [f"the image {case.image} is not to be seen here: its digest is a claim"]
    os.mkfifo(case.image)
    report = case.audit()
    assert found(report) == [
        ("image", str(case.image), f"sha256:{case.digest}", f"`{case.image}` is not a file")
    ]
    assert (report["code"], report["verdict"]) == (5, "another image")
