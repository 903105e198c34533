"""The image-classification starter: real training on CPU, in one process and in two."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "recipes" / "pytorch" / "image-classification" / "starter" / "train.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# scikit-learn has 1797 digits, of which one in five is kept for validation.
TRAIN, VALIDATION = 1438, 359
BATCHES = TRAIN // 64

pytestmark = pytest.mark.torch


class Job:
    """One run folder, and how to start the script in it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder, self.output = python, folder, folder / "output"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        self.env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
        self.env |= {"TUNEPLANE_RUN_DIR": str(folder), "TUNEPLANE_OUTPUT_DIR": str(self.output)}
        folder.mkdir(exist_ok=True)

    def start(self, *args: str, processes: int = 1, **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *(TORCHRUN if processes == 2 else []), str(SCRIPT), *args]
        return subprocess.run(
            command, cwd=self.folder, env={**self.env, **env}, capture_output=True, text=True, timeout=120
        )

    def train(self, *args: str, processes: int = 1, **env: str) -> str:
        """Its stdout; it must end well."""
        done = self.start(*args, processes=processes, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def result(self) -> dict[str, Any]:
        return json.loads((self.output / "result.json").read_text())

    def metrics(self, attempt: int = 1) -> list[dict[str, Any]]:
        path = self.folder / "attempts" / str(attempt) / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def values(self, name: str, attempt: int = 1) -> dict[int, float]:
        lines = [line for line in self.metrics(attempt) if name in line.get("metrics", {})]
        return {line["step"]: line["metrics"][name] for line in lines}

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.output / "checkpoints").iterdir())

    def same_weights(self, one: Path, other: Path) -> bool:
        code = (
            "import sys, torch\n"
            "a, b = (torch.load(path)['model'] for path in sys.argv[1:])\n"
            "print(a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a))\n"
        )
        done = subprocess.run([self.python, "-c", code, one, other], capture_output=True, text=True)
        return {"True": True, "False": False}[done.stdout.strip()]


@pytest.fixture
def job(torch_python: Path, tmp_path: Path) -> Job:
    return Job(torch_python, tmp_path / "a run's \u7ed3\u679c")


@pytest.fixture(scope="module")
def whole(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, str]:
    """An uninterrupted run of three epochs in two processes, and its stdout."""
    job = Job(torch_python, tmp_path_factory.mktemp("whole"))
    return job, job.train("--epochs", "3", "--lr-scheduler", "cosine", processes=2)


def test_two_processes_learn_the_digits(whole: tuple[Job, str]) -> None:
    job, _ = whole
    result = job.result()
    assert result.pop("accuracy") > 0.9 and result.pop("loss") < 0.5
    assert result == {
        "samples_seen": 3 * BATCHES * 64,
        "steps": 3 * BATCHES,
        "world_size": 2,
        "hosts": [socket.gethostname()],
    }


def test_stdout_says_where_it_runs_and_counts_exactly(whole: tuple[Job, str]) -> None:
    lines = whole[1].splitlines()
    assert lines[:2] == ["world size: 2", f"hosts: {socket.gethostname()}"]
    assert re.fullmatch(r"device: cpu, torch \S+, backend gloo", lines[2])
    assert lines[3] == f"images: {TRAIN} training, {VALIDATION} validation"
    pattern = (
        r"epoch (\d+) step (\d+): (\d+) training images seen over all ranks,"
        r" validation loss [\d.]+ accuracy [\d.]+ on (\d+) images"
    )
    counts = [
        tuple(map(int, match.groups())) for match in map(re.compile(pattern).fullmatch, lines[4:]) if match
    ]
    assert counts == [(n, n * BATCHES, n * BATCHES * 64, VALIDATION) for n in (1, 2, 3)]
    assert len(lines) == 7


def test_metrics_are_reported_once_by_rank_0(whole: tuple[Job, str]) -> None:
    job, _ = whole
    hparams = job.metrics()[0]["hparams"]
    assert (hparams["epochs"], hparams["world_size"], hparams["device"]) == (3, 2, "cpu")
    assert list(job.values("validation/accuracy")) == [BATCHES, 2 * BATCHES, 3 * BATCHES]
    assert job.values("validation/accuracy")[3 * BATCHES] == job.result()["accuracy"]
    assert job.values("validation/loss")[3 * BATCHES] == job.result()["loss"]
    loss, lr = job.values("train/loss"), job.values("train/lr")
    assert list(loss) == list(lr) == [10, 20, 22, 30, 40, 44, 50, 60, 66]
    assert list(lr.values()) == sorted(lr.values(), reverse=True) and 0 < lr[66] < 1e-5 < lr[10] < 1e-3
    assert loss[66] < loss[10]


def test_only_the_newest_checkpoints_are_kept(whole: tuple[Job, str]) -> None:
    assert whole[0].checkpoints() == ["step-00000044.pt", "step-00000066.pt"]


def test_an_interrupted_run_ends_in_the_same_weights(whole: tuple[Job, str], job: Job) -> None:
    flags = ("--epochs", "3", "--lr-scheduler", "cosine")
    job.train(*flags, "--max-steps", "30", processes=2)
    assert job.checkpoints() == ["step-00000022.pt", "step-00000030.pt"]
    newest = (job.output / "checkpoints" / "step-00000030.pt").read_bytes()
    (job.output / "checkpoints" / "step-00000031.pt").write_bytes(newest[: len(newest) // 2])
    (job.output / "checkpoints" / ".step-00000032.pt.tmp").write_bytes(newest[:100])

    out = job.train(*flags, processes=2, TUNEPLANE_ATTEMPT="2").splitlines()
    assert re.search(r"skipped the checkpoint .*/step-00000031.pt: it does not load \(\w+\)", out[4])
    assert re.search(r"resumed from .*/step-00000030.pt at epoch 1 step 30", out[5])
    assert list(job.values("train/loss", attempt=2)) == [40, 44, 50, 60, 66]
    assert job.checkpoints() == ["step-00000044.pt", "step-00000066.pt"]
    assert job.result() == whole[0].result()
    last = Path("checkpoints", "step-00000066.pt")
    assert job.same_weights(whole[0].output / last, job.output / last)


def test_resume_from_a_given_checkpoint_with_another_number_of_processes(
    whole: tuple[Job, str], job: Job
) -> None:
    given = str(whole[0].output / "checkpoints" / "step-00000044.pt")
    out = job.train("--epochs", "3", "--max-steps", "45", TUNEPLANE_RESUME_FROM=given)
    assert f"resumed from {given} at epoch 2 step 44" in out
    assert job.result()["samples_seen"] == 45 * 64 and job.result()["world_size"] == 1


def test_a_finished_run_started_again_only_validates(whole: tuple[Job, str], job: Job) -> None:
    given = str(whole[0].output / "checkpoints" / "step-00000066.pt")
    job.train("--epochs", "3", TUNEPLANE_RESUME_FROM=given)
    assert job.result()["steps"] == 3 * BATCHES
    assert job.result()["accuracy"] == whole[0].result()["accuracy"]
    assert not (job.output / "checkpoints").exists()


def test_a_given_checkpoint_that_does_not_load_ends_the_run(job: Job) -> None:
    given = job.folder / "given.pt"
    given.write_bytes(b"half a checkpoint")
    done = job.start(TUNEPLANE_RESUME_FROM=str(given))
    assert done.returncode == 1 and f"train.py: cannot resume from {given}: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def images(torch_python: Path, tmp_path: Path) -> Path:
    """Twenty red and twenty blue images of several sizes and kinds, and a file that is none."""
    code = (
        "import sys, random; from pathlib import Path; from PIL import Image\n"
        "draw = random.Random(1)\n"
        "for name, colour in ('blue', (20, 30, 200)), ('red', (200, 30, 20)):\n"
        "    folder = Path(sys.argv[1], name); folder.mkdir(parents=True)\n"
        "    for i in range(20):\n"
        "        size, kind = (draw.randint(20, 90), draw.randint(20, 90)), ('png', 'jpg')[i % 2]\n"
        "        shade = tuple(c + draw.randint(-15, 15) for c in colour)\n"
        "        Image.new('RGB', size, shade).save(folder / f'{i}.{kind}')\n"
        "    (folder / 'notes.txt').write_text('no image')\n"
    )
    subprocess.run([torch_python, "-c", code, tmp_path / "images"], check=True)
    return tmp_path / "images"


FOLDER = ("--input-pipeline", "image-folder", "--batch-size", "8")


def test_image_folder_splits_off_validation_images(job: Job, images: Path) -> None:
    out = job.train(*FOLDER, "--epochs", "3", "--num-workers", "1", TUNEPLANE_TRAIN_DATA=str(images))
    assert "images: 32 training, 8 validation" in out
    assert job.result()["accuracy"] == 1 and job.result()["samples_seen"] == 96


def test_image_folder_with_validation_images_of_their_own(job: Job, images: Path) -> None:
    env = {"TUNEPLANE_TRAIN_DATA": str(images), "TUNEPLANE_VALIDATION_DATA": str(images)}
    out = job.train(*FOLDER, "--epochs", "1", "--num-classes", "3", **env)
    assert "images: 40 training, 40 validation" in out and "on 40 images" in out


def test_an_unreadable_image_is_named(job: Job, images: Path) -> None:
    (images / "red" / "4.png").write_bytes(b"no image")
    done = job.start(*FOLDER, "--epochs", "1", TUNEPLANE_TRAIN_DATA=str(images))
    assert done.returncode == 1 and f"cannot read the image {images}/red/4.png" in done.stderr


def test_one_step_of_sgd_with_clipped_gradients(job: Job) -> None:
    flags = ("--optimizer", "sgd", "--momentum", "0", "--weight-decay", "0", "--max-grad-norm", "0.5")
    job.train(*flags, "--max-steps", "1", "--log-interval", "1")
    assert job.result()["steps"] == 1 and job.result()["samples_seen"] == 64
    assert job.checkpoints() == ["step-00000001.pt"]
    assert 0 < job.values("train/loss")[1] < 10 and job.values("train/lr") == {1: 0.001}


def test_amp_and_a_learning_rate_that_falls_by_ten_after_each_third(job: Job) -> None:
    flags = ("--epochs", "1", "--batch-size", "479", "--log-interval", "1", "--seed", "7")
    job.train(*flags, "--amp", "true", "--lr-scheduler", "step", "--checkpoint-keep", "1")
    assert job.values("train/lr") == {1: 0.001, 2: pytest.approx(1e-4), 3: pytest.approx(1e-5)}
    assert job.result()["samples_seen"] == 3 * 479 and job.checkpoints() == ["step-00000003.pt"]


REFUSED = {
    "--bogus 1": "unrecognized arguments: --bogus 1",
    "--epoch 1": "unrecognized arguments: --epoch 1",
    "--optimizer lion": "argument --optimizer: invalid choice: 'lion'",
    "--amp yes": "argument --amp: invalid choice: 'yes'",
    "--learning-rate nan": "argument --learning-rate: nan is not above 0",
    "--learning-rate 0": "argument --learning-rate: 0 is not above 0",
    "--weight-decay -1": "argument --weight-decay: -1 is not from 0",
    "--max-steps 0": "argument --max-steps: 0 is not from 1",
    "--epochs 1.5": "argument --epochs: invalid int value: '1.5'",
    "--batch-size 63": "--batch-size 63 does not divide by 2 processes",
}


def test_bad_flags_exit_2(job: Job) -> None:
    done = job.start("--bogus", "1")
    assert done.returncode == 2 and REFUSED["--bogus 1"] in done.stderr
    code = (  # the same for each of them, with one import of torch for all
        "import contextlib, io, json, sys, train\n"
        "for flags in json.load(sys.stdin):\n"
        "    sys.argv[1:] = flags.split()\n"
        "    with contextlib.redirect_stderr(io.StringIO()) as err:\n"
        "        try: train.parse_args()\n"
        "        except SystemExit as end: code = end.code\n"
        "    print(code, err.getvalue().splitlines()[-1])\n"
    )
    env = {**job.env, "WORLD_SIZE": "2", "PYTHONPATH": f"{ROOT}{os.pathsep}{SCRIPT.parent}"}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    command, flags = [job.python, "-c", code], json.dumps(list(REFUSED))
    said = subprocess.run(command, input=flags, env=env, capture_output=True, text=True, check=True)
    for line, message in zip(said.stdout.splitlines(), REFUSED.values(), strict=True):
        assert line.startswith("2 ") and message in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch-size", "1439"], "--batch-size 1439, but there are 1438 training images"),
        (["--num-classes", "9"], "--num-classes 9, but the data has 10 classes"),
        (["--arch", "no_such_net"], "--arch no_such_net "),
        ([*FOLDER], "needs a folder in TUNEPLANE_TRAIN_DATA"),
    ],
)
def test_what_the_data_or_the_image_cannot_give(job: Job, flags: list[str], message: str) -> None:
    done = job.start(*flags)
    assert done.returncode == 1 and done.stderr.startswith("train.py: ") and message in done.stderr
    assert not job.output.exists()
