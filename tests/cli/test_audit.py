"""`tp audit`, its whole output: for a run, for a copied script, for each kind of thing that is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit.audited import rewrite, submitted
from cli.world import REPOSITORY, Expected, Said, World, lines
from image_files import sif

from tuneplane import __version__

expected = Expected("audit")
CONFIG = """
    model: base
    data: {train: pairs}
    params: {beta: 0.2, layers: [1, 2], note: "it's"}
    env: {MINE: "a b"}
    secrets: [HF_TOKEN]
    resources: {profile: h200:8, time: 2h}
"""


class Audit:
    """A world with a run at a Slurm site whose registry publishes its recipe."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.image = world.root / "toy.sif"
        self.image.write_bytes(sif())
        self.bin = world.root / "bin"
        self.bin.mkdir()
        self.play("squeue", "exit 0")
        self.play("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        self.site(3)
        published = world.tp("--site", "pub", "catalog", "refresh")
        assert published.code == 0, published
        folder = world.made("exp", "toy/tuned", "--site", "pub")
        (folder / "config.yaml").write_text(lines(CONFIG))
        for name in ("base", "pairs"):
            (folder / name).write_text("data")
        self.run = submitted(world, "exp", "pub", image=str(self.image))

    def site(self, hours: int) -> None:
        self.world.site(
            "pub",
            "slurm-apptainer",
            recipes=[str(REPOSITORY / "tests/cli/recipes")],
            folders={"runs": str(self.world.runs), "registry": str(self.world.root / "registry")},
            default_time=f"{hours}h",
            path=[str(self.bin), "/usr/bin", "/bin"],
        )

    def play(self, command: str, script: str) -> None:
        """A command of Slurm, as a few lines of sh."""
        (self.bin / command).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / command).chmod(0o755)

    @property
    def script(self) -> Path:
        return self.run / "job.sbatch"

    def __call__(self, word: str = "", *options: str) -> Said:
        before = self.world.tree()
        said = self.world.tp("--site", "pub", "audit", word or self.run.name, *options)
        assert self.world.tree() == before
        return said

    def compared(self, name: str, word: str = "", *options: str) -> Said:
        said = self(word, *options)
        expected(said, name, self.world, self.run.name)
        return said


@pytest.fixture
def audit(world: World) -> Audit:
    return Audit(world)


def test_a_run_that_nobody_touched(audit: Audit) -> None:
    said = audit.compared("untouched")
    assert audit(str(audit.run)) == audit(str(audit.script)) == said
    audit.compared("untouched as JSON", "", "--json")


def test_everything_that_can_be_named(audit: Audit) -> None:
    rewrite(
        audit.script,
        ("--time=0-02:00:00", "--time=7-00:00:00"),
        ("#SBATCH --no-requeue\n", "#SBATCH --no-requeue\n#SBATCH --reservation=mine\n"),
        ("#SBATCH --exclusive\n", ""),
        ("set -u\numask 027\n", "umask 000\nset -u\n"),
        ("MINE='a b'", "MINE='a c'"),
        ("--loss.beta=0.2", "--loss.beta=0.9"),
        ('"beta": 0.2', '"beta": 0.9'),
        ('\ntp_finish "$tp_status" step\n', '\ntp_finish "$tp_status" step\nrm -rf /\x1b[0m\n'),
    )
    for name in ("files/main.sh", "helper/start"):
        rewrite(audit.run / name, lambda text: f"{text}evil\n")
    audit.image.write_bytes(b"another one")
    audit.compared("everything")
    said = audit.compared("everything as JSON", "", "--json")
    data = json.loads(said.out)
    assert list(data) == [
        "verdict",
        "script",
        "reasons",
        "differences",
        "published",
        "not_published",
        "claims",
        "notes",
    ]
    assert len(data["differences"]) == 12


def test_another_image(audit: Audit) -> None:
    audit.image.write_bytes(b"another one")
    audit.compared("another image")


def test_an_unpublished_site_file(audit: Audit) -> None:
    audit.site(9)
    audit.run = submitted(audit.world, "exp", "pub", image=str(audit.image))
    audit.compared("an unpublished site file")


def test_another_version(audit: Audit) -> None:
    rewrite(audit.script, (f"tuneplane {__version__}.", "tuneplane 0.0.7."))
    rewrite(audit.run / "run.json", (f'"tool_version": "{__version__}"', '"tool_version": "0.0.7"'))
    audit.compared("another version")


def test_the_copy_that_slurm_has(audit: Audit) -> None:
    """It is what runs; the run folder's own has been edited since."""
    (audit.bin / "kept").write_bytes(audit.script.read_bytes())
    (audit.bin / "rows").write_text(f"12\x1f12\x1fRUNNING\x1fNone\x1fN/A\x1f(null)\x1f{audit.run}\n")
    audit.play("squeue", f"cat {audit.bin}/rows")
    audit.play("scontrol", f"cat {audit.bin}/kept")
    audit.compared("Slurm's copy")
    rewrite(audit.script, ("--time=0-02:00:00", "--time=7-00:00:00"), ("umask 027\n", ""))
    audit.compared("Slurm's copy, and another in the run folder")
    audit.script.unlink()
    audit.compared("Slurm's copy, and none in the run folder")
    # what Slurm has is what is compared
    rewrite(audit.bin / "kept", ("MINE='a b'", "MINE='a c'"))
    audit.compared("another copy in Slurm")


def test_a_copied_script(audit: Audit) -> None:
    (audit.world.folder / "copied.sh").write_bytes(audit.script.read_bytes())
    audit.compared("a copied script", "copied.sh")
    rewrite(audit.world.folder / "exp/main.sh", lambda text: f"{text}\n")
    audit.compared("a copied script of files that have changed", "copied.sh")


def test_the_frozen_configuration(audit: Audit) -> None:
    rewrite(audit.run / "files/config.yaml", ("beta: 0.2", "beta: 0.9"))
    audit.compared("another frozen configuration")


def test_what_is_no_script_of_ours(audit: Audit) -> None:
    (audit.world.folder / "other.sh").write_text("#!/bin/sh\nexit 0\n")
    audit.compared("no script of tuneplane", "other.sh")


WORDS = {
    "no such run": "exp-zzzzzzzz",
    "a near run": "exq-aaaaaaaa",
    "no such folder": "./nothing",
    "a folder that is no run": "./exp",
    "a device": "/dev/null",
}


@pytest.mark.parametrize("case", WORDS)
def test_what_cannot_be_audited(audit: Audit, case: str) -> None:
    said = audit(WORDS[case])
    known = {"run": audit.run.name} if audit.run.name in said.err else None
    expected(said, case, audit.world, known=known)
