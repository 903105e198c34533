"""How torchrun is started: with a package that records its arguments, and with the real one where there is one."""

from __future__ import annotations

import json
import os

import pytest

RECORDER = """
import json, os, sys
path = os.path.join(os.environ["TUNEPLANE_EXPERIMENT_DIR"], "record-%s" % os.environ["TUNEPLANE_NODE_RANK"])
with open(path + ".new", "w") as file:
    json.dump({"argv": sys.argv[1:], "name": __name__, "path": sys.path, "cwd": os.getcwd(), "env": dict(os.environ)}, file)
os.rename(path + ".new", path)
"""


@pytest.fixture(params=["run", "old_run"])
def recorded(request, tmp_path):
    run = request.getfixturevalue(request.param)
    module = tmp_path / "fake" / "torch" / "distributed" / "run.py"
    module.parent.mkdir(parents=True)
    module.write_text(RECORDER)
    (module.parent / "__init__.py").touch()
    (module.parent.parent / "__init__.py").touch()
    for name in ("runpy.py", "json.py", "torch/__init__.py"):
        path = run.experiment / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('shadowed')")
    return run, str(tmp_path / "fake")


def test_arguments(recorded):
    run, fake = recorded
    options = ("--kind", "torchrun", "--processes-per-node", "4")
    words = ["-m", "my.module", "--flag", "a b", "--", "$(touch pwned)", "é'\""]
    more = {"options": options, "nodes": 2, "PYTHONPATH": fake, "PET_NNODES": "9", "RANK": "5", "KEPT": "yes"}
    processes = [run.start(*words, rank=rank, **more) for rank in (0, 1)]
    assert [run.end(process) for process in processes] == [0, 0]
    records = [json.loads(run.wait_for(f"record-{rank}").read_text()) for rank in (0, 1)]
    endpoint = records[0]["argv"][9]
    address, _, port = endpoint.partition(":")
    head = json.loads((run.attempt / "head.json").read_text())
    assert address == "127.0.0.1" and head["first"] < int(port) <= head["last"]
    for rank, record in enumerate(records):
        assert record["argv"] == [
            "--nnodes", "2", "--nproc-per-node", "4", "--node-rank", str(rank),
            "--rdzv-backend", "static", "--rdzv-endpoint", endpoint, "--rdzv-id", "probe-1a2b-0", "--max-restarts", "0",
            *words,
        ]  # fmt: skip
        assert record["name"] == "__main__" and record["cwd"] == str(run.experiment)
        assert str(run.helper) in record["path"]
        environment = record["env"]
        assert environment["KEPT"] == "yes" and "RANK" not in environment and "PET_NNODES" not in environment
        assert head["first"] < int(environment["TUNEPLANE_HEAD_PORT"]) != int(port)


@pytest.mark.torch
def test_every_option_exists_in_torch(run, torch_python):
    program = run.experiment / "train.py"
    program.write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "t = torch.ones(1) * dist.get_rank(); dist.all_reduce(t)\n"
        # one write, so that two ranks cannot fall into each other's line
        "words = 'sum', int(t), dist.get_world_size(), os.environ['MASTER_ADDR'], sys.argv[1:]\n"
        "sys.stdout.write(' '.join(map(str, words)) + '\\n')\n"
        "dist.destroy_process_group()\n"
        "if os.environ['RANK'] == os.environ.get('FAIL'): sys.exit(3)\n"
    )
    options = (
        "--kind",
        "torchrun",
        "--processes-per-node",
        "2",
        "--python",
        str(torch_python),
        "--heartbeat-bound",
        "20",
    )
    processes = [run.start("train.py", "a b", rank=rank, nodes=2, options=options) for rank in (0, 1)]
    assert [run.end(process, 90) for process in processes] == [0, 0]
    for rank in (0, 1):
        assert run.log(rank).count("sum 6 4 127.0.0.1 ['a b']") == 2


@pytest.mark.torch
def test_a_killed_torchrun_leaves_no_worker(run, running, torch_python):
    (run.experiment / "train.py").write_text(
        "import os, time\nopen('w.new', 'w').write('%d %d' % (os.getpid(), os.getppid()))\n"
        "os.rename('w.new', 'w')\ntime.sleep(60)\n"
    )
    process = run.start("train.py", options=("--kind", "torchrun", "--python", str(torch_python)))
    worker, agent = map(int, run.wait_for("w", 60).read_text().split())
    os.kill(agent, 9)
    assert run.end(process) == 137
    assert not running(worker)
