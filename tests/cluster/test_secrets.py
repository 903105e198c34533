"""A secret is in the job's environment and nowhere else."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from cluster.harness import Cluster
from cluster.researcher import Researcher, environ

pytestmark = pytest.mark.cluster

CANARY = "c4n4ry-$(id) `id` 'quoted' \\ é %s"
FILE = "/shared/home/alice/.config/tuneplane/secrets.env"
TRAIN = """
cat "/proc/$$/environ" >"$TUNEPLANE_OUTPUT_DIR/environ"
printf %s "$HF_TOKEN" >"$TUNEPLANE_OUTPUT_DIR/seen"
python3 -c 'from tuneplane import report; report.init({"a": 1}); report.log({"train/loss": 0.5}, 1)'
until [ -e "$TUNEPLANE_OUTPUT_DIR/go" ]; do sleep 0.1; done
exit 3
"""


def files_with(folder: Path, needle: bytes) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and needle in path.read_bytes()
    )


class Watch(threading.Thread):
    """Reads the arguments of every process of this machine, and so of all hosts, over and over.

    found: command lines that held the needle; seen: the first words of all.
    """

    def __init__(self, needle: bytes) -> None:
        super().__init__(daemon=True)
        self.needle, self.found, self.seen = needle, set[bytes](), set[bytes]()
        self._over = threading.Event()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    self.seen.add(line.partition(b"\0")[0])
                    if self.needle in line:
                        self.found.add(line)


def questions(cluster: Cluster, job: str, needle: str) -> None:
    """Nothing that Slurm can be asked about the job holds the needle."""
    for words in (
        ["scontrol", "write", "batch_script", job, "-"],
        ["scontrol", "--details", "show", "job", job],
        ["scontrol", "show", "step", f"{job}.0"],
        ["squeue", f"--jobs={job}", "--Format=All"],
    ):
        for user in ("alice", "root"):
            said = cluster.run("login", words, user=user)
            assert needle not in said.stdout + said.stderr, words


def check(alice: Researcher, *options: str) -> None:
    cluster = alice.cluster
    needle = b"c4n4ry"
    alice.write(FILE, f"# mine\nOTHER=x\nHF_TOKEN={CANARY}\n", 0o600)
    alice.folder(FILE).parent.chmod(0o700)
    alice.experiment("exp", TRAIN, config={"secrets": ["HF_TOKEN"]})
    try:
        with Watch(needle) as watch:
            run = alice.submit("exp", "--profile", "one:2", *options)
            alice.running(run)
            job = alice.record(run, "job.json")["id"]
            questions(cluster, job, needle.decode())
            assert "#SBATCH --export=NIL" in alice.slurm("scontrol", "write", "batch_script", job, "-")
            alice.write(f"runs/{run}/output/go", "")
            assert alice.ended(run)["code"] == 3
        assert watch.found == set()
        assert watch.seen >= {b"srun", b"slurmctld"}
        assert alice.output(run, "seen").decode() == CANARY
        assert environ(alice.output(run, "environ"))[b"HF_TOKEN"].decode() == CANARY
        assert b"OTHER" not in environ(alice.output(run, "environ"))
        # everything that the run and the job left, on the shared folder and in Slurm's own
        assert files_with(alice.folder("runs"), needle) == [f"{run}/output/environ", f"{run}/output/seen"]
        assert files_with(cluster.state / "hosts", needle) == []
        for tp in (
            ("job", "logs", run), ("job", "status", run), ("job", "ls"), ("compile", "exp"), ("explain", "exp"),
            ("submit", "exp", "--dry-run", *options),
        ):  # fmt: skip
            told = alice.tp(*tp)
            assert needle.decode() not in told.out + told.err, tp
    finally:
        alice.folder(FILE).unlink()
    alice.assert_nothing_left()


def test_a_canary_on_the_host(cluster: Cluster) -> None:
    check(Researcher(cluster))


@pytest.mark.long
def test_a_canary_in_a_container(cluster: Cluster, python_image: str) -> None:
    check(Researcher(cluster, runtime="apptainer"), "--image", python_image)


@pytest.mark.long
def test_a_secrets_file_that_opened_up_while_the_run_was_queued(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.write(FILE, f"HF_TOKEN={CANARY}\n", 0o600)
    alice.experiment("exp", "exit 0", config={"secrets": ["HF_TOKEN"]})
    try:
        run = alice.submit("exp", "--hold")
        alice.folder(FILE).chmod(0o644)
        alice.slurm("scontrol", "release", alice.record(run, "job.json")["id"])
        facts = alice.ended(run)
        assert (facts["state"], facts["code"]) == ("failed", 3)
        assert re.fullmatch(
            r"a secret cannot be read, the job log says why on node 0 \(n\d\)", facts["why"]
        ), facts
        assert "c4n4ry" not in alice.log(run) and "expected owner" in alice.log(run)
        alice.assert_nothing_left()
    finally:
        alice.folder(FILE).unlink()
