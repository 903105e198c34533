"""What was frozen is what runs: a change made in the queue ends the job in its check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cluster.harness import Cluster
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster


def edit(path: Path) -> None:
    path.chmod(0o644)
    path.write_text(path.read_text() + "\n# edited\n")


def replace_manifest(path: Path) -> None:
    """A consistent change of file and manifest: the script holds the manifest's digest."""
    path.chmod(0o640)
    path.write_text(path.read_text().replace("a", "b"))


CHANGES: dict[str, tuple[str, Callable[[Path], object], str, str]] = {
    "edited file": ("files/train.sh", edit, "frozen files: train.sh: FAILED", "frozen files are"),
    "edited odd file": ("files/o dd 'é\"/$(x)", edit, "frozen files: o dd 'é\"/$(x): FAILED", "frozen files are"),
    "edited helper": ("helper/supervise.py", edit, "helper: supervise.py: FAILED", "helper is"),
    "edited starter": ("helper/start", edit, "helper: start: FAILED", "helper is"),
    "removed file": ("files/config.yaml", Path.unlink, "frozen files: config.yaml: removed", "frozen files are"),
    "executable file": ("files/train.sh", lambda path: path.chmod(0o755), "frozen files: -rwxr-xr-x train.sh", "frozen files are"),
    "added file": ("files/more.py", Path.touch, "frozen files: more.py: added", "frozen files are"),
    "added module": ("helper/tuneplane/json.py", Path.touch, "helper: tuneplane/json.py: added", "helper is"),
    "manifest": ("files.sha256", replace_manifest, "frozen files: the manifest is not the one that was submitted", "frozen files are"),
    "manifest of the helper": ("helper.sha256", replace_manifest, "helper: the manifest is not the one", "helper is"),
}  # fmt: skip
FIRST = ("edited file", "edited helper")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.long) for name in CHANGES]
)
def test_a_change_in_the_queue(cluster: Cluster, name: str) -> None:
    where, change, log, sentence = CHANGES[name]
    alice = Researcher(cluster)
    alice.experiment("exp", 'touch "$TUNEPLANE_OUTPUT_DIR/ran"')
    alice.write("exp/o dd 'é\"/$(x)", "data")
    run = alice.submit("exp", "--hold")
    change(alice.folder(f"runs/{run}/{where}"))
    alice.slurm("scontrol", "release", alice.record(run, "job.json")["id"])
    facts = alice.ended(run)
    why = f"the {sentence} not what this script was compiled from"
    assert (facts["state"], facts["code"], facts["why"]) == ("failed", 4, why)
    assert log in alice.log(run)
    assert not alice.folder(f"runs/{run}/output/ran").exists()


def test_a_change_of_the_experiment_changes_nothing_queued(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("exp", "exit 6")
    run = alice.submit("exp", "--hold")
    alice.write("exp/train.sh", "exit 5")
    alice.slurm("scontrol", "release", alice.record(run, "job.json")["id"])
    assert alice.ended(run)["code"] == 6
