"""How accelerate is started: with a package that records its arguments, and with the real one where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.job.fakes import ACCELERATE, interpreter


@pytest.fixture(params=["run", "old_run"])
def recorded(request, tmp_path):
    """A run, and a function that starts all its nodes and gives what accelerate got on each."""
    run = request.getfixturevalue(request.param)
    base = (Path(run.path) / "python3").read_text().split('"')[1]
    python = interpreter(tmp_path / "venv", ACCELERATE, base)

    def start(*words, nodes=2, processes="2", launcher=(), gpus="0", **more):
        options = ("--kind", "accelerate", "--python", python, "--processes-per-node", processes)
        options += ("--launcher-words", json.dumps(launcher), "--gpus", gpus)
        started = [run.start(*words, rank=r, nodes=nodes, options=options, **more) for r in range(nodes)]
        assert [run.end(process) for process in started] == [0] * nodes
        return [json.loads(run.wait_for(f"accelerate-{rank}").read_text()) for rank in range(nodes)]

    return run, start


def test_every_size_and_address_is_said(recorded):
    run, start = recorded
    words = ["train.py", "--flag", "a b", "--", "$(touch pwned)"]
    records = start(*words, PMI_SIZE="9", OMPI_COMM_WORLD_SIZE="9", KEPT="yes")
    head = json.loads((run.attempt / "head.json").read_text())
    for rank, record in enumerate(records):
        port = record["argv"][record["argv"].index("--main_process_port") + 1]
        assert head["first"] < int(port) <= head["last"]
        assert record["argv"] == [
            "--num_machines", "2", "--machine_rank", str(rank), "--num_processes", "4",
            "--main_process_ip", "127.0.0.1", "--main_process_port", port,
            "--rdzv_backend", "static", "--max_restarts", "0",
            "--mixed_precision", "no", "--dynamo_backend", "no", "--same_network", "--multi_gpu", *words,
        ]  # fmt: skip
        environment = record["env"]
        assert environment["KEPT"] == "yes" and environment["ACCELERATE_USE_CPU"] == "true"
        assert "PMI_SIZE" not in environment and "OMPI_COMM_WORLD_SIZE" not in environment
        assert environment["GLOO_SOCKET_IFNAME"] == "lo" and record["cwd"] == str(run.experiment)
    nodes = json.loads((run.attempt / "nodes.json").read_text())["nodes"]
    assert [node["ranks"] for node in nodes] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("launcher", "processes", "has", "lacks"),
    [
        (["--use_fsdp", "--fsdp_version=2"], "2", ["--use_fsdp", "--fsdp_version=2"], ["--multi_gpu"]),
        (["--use_deepspeed"], "2", ["--deepspeed_multinode_launcher", "standard"], ["--multi_gpu"]),
        (["--mixed_precision=bf16"], "2", ["--mixed_precision=bf16", "--multi_gpu"], ["--mixed_precision"]),
        ([], "1", ["--num_processes", "1"], ["--multi_gpu"]),
    ],
)
def test_words_for_accelerate_itself(recorded, launcher, processes, has, lacks):
    _, start = recorded
    words = start("-m", "my.module", nodes=1, processes=processes, launcher=launcher, gpus="8")[0]["argv"]
    assert set(has) <= set(words) and not set(lacks) & set(words)
    assert words[-2:] == ["--module", "my.module"]


def test_gpus_are_used_where_there_are_some(recorded):
    _, start = recorded
    assert "ACCELERATE_USE_CPU" not in start("train.py", nodes=1, gpus="8")[0]["env"]


TRAIN = """
import os, sys, torch
from accelerate import Accelerator
a = Accelerator()
all_ranks = a.gather(torch.tensor([a.process_index])).tolist()
sys.stdout.write(f"ranks {all_ranks} {a.mixed_precision} {sys.argv[1:]}\\n")
sys.stdout.flush()
a.end_training()
if str(a.process_index) == os.environ.get("FAIL"):
    os._exit(3)
"""


@pytest.mark.torch
@pytest.mark.parametrize(("fail", "code", "rank"), [("none", 0, None), ("3", 3, 3)])
def test_the_real_one(run, torch_python, fail, code, rank):
    (run.experiment / "train.py").write_text(TRAIN)
    options = ("--kind", "accelerate", "--processes-per-node", "2", "--python", str(torch_python))
    options += ("--heartbeat-bound", "30")
    processes = [run.start("train.py", "a b", rank=r, nodes=2, options=options, FAIL=fail) for r in range(2)]
    assert [run.end(process, 90) for process in processes] == [code, code]
    assert (run.log(0) + run.log(1)).count("ranks [0, 1, 2, 3] no ['a b']") == 4
    assert (run.verdict()["code"], run.verdict()["rank"]) == (code, rank)
