"""A script copied elsewhere, and what cannot be compiled again."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from audit.audited import audited, found, rewrite, write
from audit.conftest import Toy
from image_files import sif

from tuneplane import __version__


@pytest.fixture
def copy(toy: Toy) -> Path:
    """The script without its run, which is gone."""
    place = toy.world.folder / "copied.sh"
    shutil.copy(toy.script, place)
    shutil.rmtree(toy.run)
    return place


def test_while_the_experiment_is_as_it_was(toy: Toy, copy: Path) -> None:
    report = audited(toy.world, "copied.sh")
    assert (report["code"], report["verdict"], report["script"]) == (0, "untouched", str(copy))
    assert f"the frozen files are taken from {toy.experiment}, which has the same digest" in report["notes"]
    rewrite(copy, ("umask 027", "umask 000"))
    assert audited(toy.world, copy)["code"] == 4


def test_when_the_experiment_has_changed(toy: Toy, copy: Path) -> None:
    (toy.experiment / "main.sh").write_text("another\n")
    report = audited(toy.world, copy)
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"] == [f"its frozen files are not here, and {toy.experiment} has other files now"]


def test_when_the_experiment_is_gone(toy: Toy, copy: Path) -> None:
    shutil.rmtree(toy.experiment)
    report = audited(toy.world, copy)
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"][0].startswith("its frozen files are not here: there is no experiment")
    toy.image.write_bytes(b"another")
    # the image can still be looked at
    assert [item[0] for item in found(audited(toy.world, copy))] == ["image"]


def test_the_script_in_its_run_folder_is_the_run(toy: Toy) -> None:
    (toy.experiment / "main.sh").write_text("another\n")
    assert audited(toy.world, toy.script)["verdict"] == "untouched"
    (toy.run / "files/main.sh").chmod(0o644)
    (toy.run / "files/main.sh").write_text("evil\n")
    assert [item[0] for item in found(audited(toy.world, toy.script))] == ["frozen file"]


@pytest.mark.parametrize("text", ["", "#!/bin/bash\necho hello\n", "\xff\0"])
def test_what_is_no_script_of_ours(toy: Toy, text: str) -> None:
    place = toy.world.folder / "other.sh"
    place.write_text(text)
    report = audited(toy.world, "other.sh")
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"] == ["it has no header of a script of tuneplane"]


DAMAGE = {
    "no digest": ("#   lock        sha256:", "#   lock        md5:"),
    "no method": ("#   method      toy/tuned", "#   method      toy tuned x"),
    "no command": ("# To audit: this command", "# To audit this command"),
    "another command": ("#   tp --site cluster compile", "#   tp --site cluster submit"),
    "a command that is no line of words": (" --set kl_beta=0.3", ' --set "$(id)"'),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_header_that_cannot_be_read(toy: Toy, copy: Path, case: str) -> None:
    rewrite(copy, DAMAGE[case])
    assert audited(toy.world, copy)["reasons"] == ["it has no header of a script of tuneplane"]


def test_names_that_a_forger_chose(toy: Toy) -> None:
    """They reach the terminal as text, whatever bytes they are."""
    toy.record.unlink()
    evil = b"clu\x1b[2J\xff"
    script = toy.script.read_bytes().replace(b"#   site        cluster", b"#   site        " + evil)
    write(toy.script, script)
    said = toy.world.tp("audit", str(toy.run))
    assert said.code == 4 and "\x1b" not in said.out + said.err
    assert "the site file of clu\\x1b[2J\\udcff, sha256:" in said.err
    assert audited(toy.world, toy.run)["not_published"][-1].startswith("the site file of clu\x1b[2J\\xff, ")


def test_another_version(toy: Toy, copy: Path) -> None:
    rewrite(copy, (f"tuneplane {__version__}.", "tuneplane 0.0.7."))
    report = audited(toy.world, copy)
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    assert report["reasons"] == [f"it was rendered by tuneplane 0.0.7, this is {__version__}"]
    assert "forged" not in report["err"]


def of_another_version(toy: Toy) -> None:
    rewrite(toy.script, (f"tuneplane {__version__}.", "tuneplane 0.0.7."))
    rewrite(toy.record, (f'"tool_version": "{__version__}"', '"tool_version": "0.0.7"'))


def test_a_run_of_another_version(toy: Toy) -> None:
    """Its files, helper and image are still held against the script's digests."""
    of_another_version(toy)
    report = audited(toy.world, toy.run)
    assert (report["code"], report["verdict"], found(report)) == (4, "cannot be re-compiled", [])
    for file in ("files/main.sh", "helper/start"):
        (toy.run / file).chmod(0o644)
        (toy.run / file).write_text("evil\n")
    toy.image.write_bytes(b"another")
    assert [item[0] for item in found(audited(toy.world, toy.run))] == ["helper file", "frozen file", "image"]


def test_an_image_digest_of_another_version(toy: Toy) -> None:
    of_another_version(toy)
    rewrite(toy.script, lambda text: text.replace(hashlib.sha256(sif()).hexdigest(), "0" * 64, 1))
    report = audited(toy.world, toy.run)
    assert [item[:2] for item in found(report)] == [("image", "image digest of the script")]


def test_a_configuration_that_tp_refuses(toy: Toy) -> None:
    """Bound by every digest, and yet nothing that tp would have compiled."""
    from tuneplane.audit.frozen import read_back

    config = toy.run / "files/config.yaml"
    config.chmod(0o644)
    config.write_text(config.read_text().replace("beta: 0.2", "beta: 7"))
    now = read_back(toy.run / "files", 1 << 20)
    (toy.run / "files.sha256").chmod(0o644)
    (toy.run / "files.sha256").write_bytes(now.manifest)
    import json

    digest = json.loads(toy.record.read_text())["plan"]["provenance"]["files_digest"]
    for file in (toy.script, toy.record):
        rewrite(file, lambda text: text.replace(digest, now.digest))
    report = audited(toy.world, toy.run)
    assert report["code"] == 4 and report["verdict"] == "cannot be re-compiled"
    assert report["reasons"][0].startswith("from these inputs tp makes no script: ")
