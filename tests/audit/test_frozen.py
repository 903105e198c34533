"""Frozen files, helper and image: what a script binds by digest, held against it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from audit.audited import audited, found, rewrite, submitted, write
from audit.conftest import Toy
from image_files import sif

from tuneplane.audit.frozen import read_back, sums
from tuneplane.experiment.snapshot import FrozenFile, Snapshot


def sha(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_a_file_that_was_edited_added_and_removed(toy: Toy) -> None:
    entry = toy.run / "files/main.sh"
    before = entry.read_bytes()
    write(entry, b"evil\n")
    write(toy.run / "files/sub.py", b"new\n")
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "differs")
    assert found(report) == [
        ("frozen file", "files/main.sh", sha(before), sha(b"evil\n")),
        ("frozen file", "files/sub.py", None, sha(b"new\n")),
    ]
    (toy.run / "files/sub.py").unlink()
    entry.unlink()
    report = audited(toy.world, toy.run)
    assert found(report) == [("frozen file", "files/main.sh", sha(before), None)]


@pytest.mark.parametrize("name", ["config.yaml", "recipe.lock.json"])
def test_what_the_script_follows_from(toy: Toy, name: str) -> None:
    """Nothing is compiled from another configuration or lock: what it differed in would be misleading."""
    file = toy.run / "files" / name
    before = file.read_bytes()
    write(file, before + b"\n")
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert found(report) == [("frozen file", f"files/{name}", sha(before), sha(before + b"\n"))]
    assert report["reasons"] == [f"the frozen {name} is not the one that it was compiled from"]
    assert report["err"] == f"error: cannot be re-compiled: {report['reasons'][0]}\n"


def test_an_executable_bit(toy: Toy) -> None:
    (toy.run / "files/main.sh").chmod(0o644)
    report = audited(toy.world, toy.run)
    [(kind, where, expected, now)] = found(report)
    assert (kind, where, now) == ("frozen file", "files", "others")
    assert expected == "executable bits, links and special files as they were frozen"


def test_a_manifest_made_to_match(toy: Toy) -> None:
    """The files of the run folder agree with each other, and not with the script."""
    write(toy.run / "files/main.sh", b"evil\n")
    now = read_back(toy.run / "files", 1 << 20)
    write(toy.run / "files.sha256", now.manifest)
    report = audited(toy.world, toy.run)
    assert report["verdict"] == "cannot be re-compiled" and report["code"] == 4
    [(kind, where, _, there)] = found(report)
    assert (kind, where, there) == ("frozen file", "files/", f"sha256:{now.digest}")
    assert report["reasons"] == ["the frozen files are not those that it names"]
    # nor when the record is made to match as well: the script says otherwise
    rewrite(
        toy.record, (json.loads(toy.record.read_text())["plan"]["provenance"]["files_digest"], now.digest)
    )
    report = audited(toy.world, toy.run)
    assert {item[0] for item in found(report)} == {"header", "script"} and report["code"] == 4


def test_a_manifest_alone(toy: Toy) -> None:
    write(toy.run / "files.sha256", b"")
    report = audited(toy.world, toy.run)
    [(kind, where, _, now)] = found(report)
    assert (kind, where, now) == ("frozen file", "files.sha256", sha(b""))


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (lambda files: os.mkfifo(files / "pipe"), "files/pipe is neither a file nor a link"),
    "no folder": (
        lambda files: files.rename(files.parent / "gone"),
        "files/ cannot be read: No such file or directory",
    ),
    "a link for the folder": (
        lambda files: (files.rename(files.parent / "gone"), files.symlink_to("gone")),
        "files is a symbolic link",
    ),
    "too much": (
        lambda files: os.truncate(files / "main.sh", 1 << 27),
        "files/ holds more than 67108864 bytes",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_a_folder_that_cannot_be_read(toy: Toy, case: str) -> None:
    change, reason = ODD[case]
    (toy.run / "files/main.sh").chmod(0o644)
    change(toy.run / "files")
    report = audited(toy.world, toy.run)
    assert (report["code"], report["reasons"]) == (4, [reason])


def test_a_lock_of_another_recipe(toy: Toy) -> None:
    """Frozen and bound by digest, as if it had been submitted so: no handshake would have let it through."""
    lock = toy.experiment / "recipe.lock.json"
    rewrite(lock, ('"version": "1.2.0"', '"version": "1.1.0"'))
    from tuneplane.experiment.freeze import freeze

    now = freeze(toy.experiment, name="exp", exclude=[Path("models/base")])
    digest = json.loads(toy.record.read_text())["plan"]["provenance"]["files_digest"]
    write(toy.run / "files/recipe.lock.json", lock.read_bytes())
    write(toy.run / "files.sha256", now.manifest)
    for file in (toy.script, toy.record):
        rewrite(file, lambda text: text.replace(digest, now.digest))
    report = audited(toy.world, toy.run)
    assert found(report) == [("lock", "files/recipe.lock.json recipe.version", "1.2.0", "1.1.0")]
    assert report["code"] == 4


def test_names_are_read_as_sha256sum_writes_them() -> None:
    names = ["-", "a\\b", "a b", "  two", "x/y", "ü"]
    files = Snapshot.of({name: name.encode() for name in names})
    assert sums(files.manifest) == {name: hashlib.sha256(name.encode()).hexdigest() for name in names}


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    made = Snapshot(
        tuple(
            sorted(
                [
                    FrozenFile("a/b", b"x", executable=True),
                    FrozenFile("a/link", target="b"),
                    FrozenFile("folder", target="a"),
                    FrozenFile("é", b""),
                ],
                key=lambda file: file.path.encode(),
            )
        )
    )
    made.write(tmp_path / "files")
    assert read_back(tmp_path / "files", 1 << 20) == made


# -- helper -------------------------------------------------------------------------------------------------


def test_a_helper_file(toy: Toy) -> None:
    start = toy.run / "helper/start"
    before = start.read_bytes()
    write(start, b"evil\n")
    write(toy.run / "helper/tuneplane/job/more.py", b"")
    (toy.run / "helper/supervise.py").unlink()
    report = audited(toy.world, toy.run)
    assert [item[:2] for item in found(report)] == [
        ("helper file", "helper/start"),
        ("helper file", "helper/supervise.py"),
        ("helper file", "helper/tuneplane/job/more.py"),
    ]
    assert found(report)[0][2:] == (sha(before), sha(b"evil\n"))
    assert (report["code"], report["verdict"]) == (4, "differs")


def test_a_helper_bound_by_the_script(toy: Toy) -> None:
    """Script, record and manifest agree on another helper: this tp has its own."""
    write(toy.run / "helper/start", b"evil\n")
    now = read_back(toy.run / "helper", 1 << 20)
    write(toy.run / "helper.sha256", now.manifest)
    digest = json.loads(toy.record.read_text())["plan"]["provenance"]["helper_digest"]
    for file in (toy.script, toy.record):
        rewrite(file, lambda text: text.replace(digest, now.digest))
    report = audited(toy.world, toy.run)
    assert [(kind, where.split(" ", 2)[-1]) for kind, where, _, _ in found(report)] == [
        ("helper file", "helper/start"),
        ("header", "helper"),
        ("script", "(checks)"),
    ]
    assert report["code"] == 4


def test_no_helper(toy: Toy) -> None:
    (toy.run / "helper").rename(toy.run / "gone")
    [(kind, where, _, now)] = found(audited(toy.world, toy.run))
    assert (kind, where, now) == (
        "helper file",
        "helper/",
        "helper/ cannot be read: No such file or directory",
    )


# -- image --------------------------------------------------------------------------------------------------


def test_another_image_at_the_path(toy: Toy) -> None:
    toy.image.write_bytes(b"another one")
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (5, "another image")
    expected = sha(sif())
    assert found(report) == [("image", str(toy.image), expected, sha(b"another one"))]
    assert report["err"] == "error: the audit found another image: 1 difference\n"


def test_another_digest_in_the_header(toy: Toy) -> None:
    digest = hashlib.sha256(sif()).hexdigest()
    rewrite(toy.script, lambda text: text.replace(digest, "0" * 64, 1))
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (5, "another image")
    [(kind, where, expected, now)] = found(report)
    assert kind == "image" and where.endswith("image digest")
    assert digest in expected and "0" * 64 in now


def test_another_image_in_the_script(toy: Toy) -> None:
    """Digest, size and what is started: all of it is the image's."""
    rewrite(
        toy.script,
        lambda text: text.replace(f" {len(sif())} ", f" {len(sif()) + 1} "),
        lambda text: text.replace(str(toy.image), "/evil.sif"),
    )
    report = audited(toy.world, toy.run)
    kinds = [item[0] for item in found(report)]
    assert kinds == ["image", "image", "header", "image", "image", "image"] and report["code"] == 4


def test_an_image_and_something_else(toy: Toy) -> None:
    toy.image.write_bytes(b"another one")
    rewrite(toy.script, ("umask 027", "umask 000"))
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (4, "differs")
    assert {item[0] for item in found(report)} == {"image", "script"}


def test_an_image_that_is_not_to_be_seen_here(toy: Toy) -> None:
    toy.image.unlink()
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"]) == (0, "untouched")
    assert f"the image {toy.image} is not to be seen here: its digest is a claim" in report["notes"]


def test_an_image_that_was_not_there(toy: Toy) -> None:
    run = submitted(toy.world, str(toy.experiment), "cluster", image=f"{toy.world.root}/none.sif")
    report = audited(toy.world, run)
    assert (report["code"], report["verdict"]) == (0, "untouched")
    assert f"the image {toy.world.root}/none.sif was not there, so it has no digest" in report["notes"]


def test_a_folder_for_an_image(toy: Toy) -> None:
    toy.image.unlink()
    toy.image.mkdir()
    report = audited(toy.world, toy.run)
    assert report["code"] == 5
    assert found(report)[0][3] == f"`{toy.image}` is not a file"
