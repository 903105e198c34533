"""A Ray cluster for one job: how it is started, gathered, checked and ended; with a fake Ray and with the real one."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from pathlib import Path

import pytest

from tests.job.fakes import interpreter, ray
from tuneplane.job.kinds.ray_check import shortfall
from tuneplane.job.kinds.ray_folder import RayFolder, folder_path

DRIVER = 'echo $$ >up; while ! [ -e go ]; do sleep 0.02; done; exit "$(cat go)"'
TWO = '[{"name": "trainer", "nodes": 1, "cpus": 4, "gpus": 2, "processes": 1}, {"name": "teacher", "nodes": 2, "cpus": 3, "gpus": 1, "processes": 1}]'


@pytest.fixture(autouse=True)
def own_job(monkeypatch, tmp_path):
    """A job id of its own for each test: Ray's folder is named after it, outside of the test's own."""
    job = hashlib.sha256(str(tmp_path).encode()).hexdigest()
    monkeypatch.setattr("tests.job.conftest.JOB_ID", job)
    yield
    assert not list(Path("/tmp").glob(f"tp-{hashlib.sha256(f'{job}/0'.encode()).hexdigest()[:6]}-*"))


@pytest.fixture(params=["run", "old_run"])
def cluster(request, tmp_path):
    """A run, and how its nodes are started with the fake Ray."""
    run = request.getfixturevalue(request.param)
    base = (Path(run.path) / "python3").read_text().split('"')[1]
    python = interpreter(tmp_path / "venv", ray("2.60.0"), base)

    def start(*words, nodes=3, options=(), **more):
        options = ("--kind", "ray", "--cpus", "4", "--python", python, *options)
        return [run.start(*words, rank=r, nodes=nodes, options=options, **more) for r in range(nodes)]

    return run, start


def end_all(run, processes, seconds=15):
    return [run.end(process, seconds) for process in processes]


def arguments(run, rank):
    return json.loads(run.wait_for(f"ray-{rank}").read_text())


def test_all_is_said_and_nothing_left_to_chance(cluster):
    run, start = cluster
    processes = start("sh", "-c", DRIVER, SLURM_NTASKS="3", OMPI_COMM_WORLD_SIZE="3")
    run.wait_for("up")
    head = json.loads((run.attempt / "head.json").read_text())
    token = run.attempt / "ray_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and len(token.read_text()) == 64
    assert token.read_text() != head["token"]
    everything, folders = [], set()
    for rank in range(3):
        record = arguments(run, rank)
        words = dict(word.partition("=")[::2] for word in record["argv"][1:])
        assert record["argv"][0] == "start" and "--block" in words and words["--num-cpus"] == "4"
        assert words["--num-gpus"] == "0" and words["--node-ip-address"] == "127.0.0.1"
        assert ("--head" in words) == (rank == 0)
        address = f"127.0.0.1:{words['--port']}" if rank == 0 else words["--address"]
        environment = record["env"]
        assert environment.get("RAY_ADDRESS") == (None if rank == 0 else address)
        assert (environment["RAY_AUTH_MODE"], environment["RAY_AUTH_TOKEN_PATH"]) == ("token", str(token))
        assert not [name for name in environment if name.startswith(("SLURM_", "OMPI_"))]
        ports = [int(value) for name, value in words.items() if name.endswith("port")]
        ports += map(int, words["--worker-port-list"].split(","))
        ports += [int(environment[name]) for name in ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")]
        everything += ports
        folders.add(words["--temp-dir"])
        folder = Path(words["--temp-dir"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len(words["--temp-dir"].encode()) <= 43
    assert len(everything) == len(set(everything)) and min(everything) > 10000
    (run.experiment / "go").write_text("0")
    assert end_all(run, processes) == [0, 0, 0]
    assert not [folder for folder in folders if Path(folder).exists()]
    assert not (run.attempt / ".ray-check").exists()
    assert run.phases(0) == ["started", "preflight", "rendezvous", "ray", "running", "ended"]


def test_the_exit_code_is_the_drivers_and_ray_ends_with_it(cluster, running):
    run, start = cluster
    processes = start("sh", "-c", DRIVER)
    run.wait_for("up")
    (run.experiment / "go").write_text("7")
    began = time.monotonic()
    assert end_all(run, processes) == [7, 7, 7]
    assert time.monotonic() - began < 4
    verdict = run.verdict()
    assert (verdict["node"], verdict["reason"], verdict["phase"]) == (0, "exited", "running")
    assert verdict["message"] == "the command ended with exit code 7"


def test_a_node_whose_ray_gave_up_too_early_starts_it_again(cluster):
    run, start = cluster
    (run.experiment / "slow-1").touch()
    processes = start("sh", "-c", DRIVER)
    run.wait_for("up")
    (run.experiment / "go").write_text("0")
    assert end_all(run, processes) == [0, 0, 0]
    assert [run.log(rank).count("starting it again") for rank in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("rank", [0, 2])
def test_ray_that_ends_early_names_its_node(cluster, rank):
    run, start = cluster
    processes = start("sh", "-c", DRIVER)
    run.wait_for("up")
    (run.experiment / f"broken-{rank}").touch()
    assert end_all(run, processes) == [1, 1, 1]
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (rank, f"n{rank}", "ray")
    assert verdict["message"].endswith("ended with exit code 1 before the run was over")
    assert "a raylet died" in verdict["tail"]


def test_who_did_not_join_is_named_and_the_driver_never_starts(cluster):
    run, start = cluster
    for rank in (1, 2):
        (run.experiment / f"absent-{rank}").touch()
    processes = start("sh", "-c", DRIVER, options=("--rendezvous-timeout", "2"))
    assert end_all(run, processes) == [125, 125, 125]
    assert not (run.experiment / "up").exists()
    verdict = run.verdict()
    assert (verdict["reason"], verdict["phase"]) == ("ray", "ray")
    assert verdict["message"] == "nodes 1 (n1), 2 (n2) did not join the Ray cluster within 2 s"


def test_pools_of_one_cluster_have_their_own_sizes(cluster):
    run, start = cluster
    processes = start("true", options=("--pools", TWO))
    assert end_all(run, processes) == [0, 0, 0]
    sizes = [arguments(run, rank)["argv"] for rank in range(3)]
    assert ["--num-cpus=4" in words and "--num-gpus=2" in words for words in sizes] == [True, False, False]
    assert ["--num-cpus=3" in words and "--num-gpus=1" in words for words in sizes] == [False, True, True]
    nodes = json.loads((run.attempt / "nodes.json").read_text())["nodes"]
    assert [node["pool"] for node in nodes] == ["trainer", "teacher", "teacher"]


def test_one_is_told_to_stop(cluster):
    run, start = cluster
    processes = start("sh", "-c", DRIVER)
    run.wait_for("up")
    processes[1].terminate()
    assert end_all(run, processes) == [143, 143, 143]
    assert (run.verdict()["node"], run.verdict()["reason"]) == (1, "stopped")


def test_a_ray_without_authentication_is_refused_unless_it_is_allowed(run, tmp_path):
    options = ("--kind", "ray", "--python", interpreter(tmp_path / "venv", ray("2.51.9")))
    assert run.go("true", options=options) == 125
    assert run.verdict()["message"].startswith(
        "the image has Ray 2.51.9, whose clusters anyone on the network"
    )
    (run.attempt / "verdict").unlink()
    assert run.go("true", options=(*options, "--old-ray", "allowed")) == 0
    assert "Ray 2.51.9 has no authentication" in run.log()
    assert "RAY_AUTH_MODE" not in arguments(run, 0)["env"] and not (run.attempt / "ray_token").exists()


def test_an_image_without_ray(run):
    assert run.go("true", options=("--kind", "ray")) == 125
    assert run.verdict()["message"].startswith("the image has no Ray: neither ")


def test_the_folder_fits_a_socket_in_bytes():
    assert folder_path("job/0", 3, "/tmp/job") == "/tmp/job/ray-3"
    for scratch in ("/tmp/" + "é" * 18, "relative", ""):
        path = folder_path("job/0", 3, scratch)
        assert path.startswith("/tmp/tp-") and path.endswith("-3") and len(path.encode()) <= 43


def test_a_folder_that_is_there_is_never_used(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("link", "."):
        with pytest.raises(FileExistsError):
            RayFolder(str(tmp_path / name))


@pytest.mark.parametrize(
    ("cpus", "gpus", "extra", "message"),
    [
        (4, 2, 0, ""),
        (8, 2, 0, "the Ray cluster has 4 CPUs, but the job has 8"),
        (4, 3, 0, "the Ray cluster has 2 GPUs, but the job has 3"),
        (4, 2, 1, "the Ray cluster has 3 nodes, but the job has 2"),
    ],
)
def test_a_cluster_of_another_size_is_none(cpus, gpus, extra, message):
    nodes = [{"rank": r, "host": f"n{r}", "address": "10.0.0.1", "port": 9 + r} for r in range(2)]
    seen = [
        {"NodeManagerAddress": "10.0.0.1", "NodeManagerPort": 9 + r, "Resources": {"CPU": 2.0, "GPU": 1.0}}
        for r in range(2 + extra)
    ]
    assert shortfall(seen, {"nodes": nodes, "cpus": cpus, "gpus": gpus, "seconds": 5}) == message


REAL = """
import os, sys, time, ray
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1)
def where():
    time.sleep(0.5)
    return ray.get_runtime_context().get_node_id()
print("placed on", len(set(ray.get([where.remote() for _ in range(2)]))), "of", len(ray.nodes()), flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.torch
@pytest.mark.parametrize("code", [0, 3])
def test_the_real_one(run, torch_python, code):
    (run.experiment / "drive.py").write_text(REAL)
    options = ("--kind", "ray", "--cpus", "1", "--python", str(torch_python), "--heartbeat-bound", "30")
    options += ("--rendezvous-timeout", "90")
    processes = [
        run.start(str(torch_python), "drive.py", str(code), rank=rank, nodes=2, options=options)
        for rank in range(2)
    ]
    assert [run.end(process, 120) for process in processes] == [code, code]
    assert "placed on 2 of 2" in run.log()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(run.attempt) not in path.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
