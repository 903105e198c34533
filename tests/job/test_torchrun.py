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


def test_c10d_says_who_is_the_host_and_how_each_is_reached(recorded):
    run, fake = recorded
    options = ("--kind", "torchrun", "--processes-per-node", "2", "--rendezvous", "c10d")
    processes = [run.start("t.py", rank=rank, nodes=2, options=options, PYTHONPATH=fake) for rank in (0, 1)]
    assert [run.end(process) for process in processes] == [0, 0]
    for rank, host in ((0, "true"), (1, "false")):
        words = json.loads(run.wait_for(f"record-{rank}").read_text())["argv"]
        assert words[4:10] == [
            "--local-addr",
            "127.0.0.1",
            "--rdzv-backend",
            "c10d",
            "--rdzv-conf",
            f"is_host={host}",
        ]
        assert "--node-rank" not in words


def ranked(run, torch_python, program, nodes=2, *options):
    """Start two ranks on each node with the real torchrun."""
    (run.experiment / "train.py").write_text(program)
    options = ("--kind", "torchrun", "--processes-per-node", "2", "--python", str(torch_python), *options)
    options += ("--heartbeat-bound", "20")
    return [run.start("train.py", rank=rank, nodes=nodes, options=options) for rank in range(nodes)]


@pytest.mark.torch
def test_the_ranks_that_c10d_chose_are_written_down(run, torch_python):
    program = (
        "import os, time\n"
        "open('on-%s' % os.environ['RANK'], 'w').write(os.environ['TUNEPLANE_NODE_RANK'])\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
    )
    processes = ranked(run, torch_python, program, 2, "--rendezvous", "c10d")
    where = [int(run.wait_for(f"on-{rank}", 60).read_text()) for rank in range(4)]
    file = run.attempt / "nodes.json"
    run.until(lambda: all(node["ranks"] for node in json.loads(file.read_text())["nodes"]), 20)
    nodes = json.loads(file.read_text())["nodes"]
    assert [[rank for rank in range(4) if where[rank] == node["rank"]] for node in nodes] == [
        node["ranks"] for node in nodes
    ]
    (run.experiment / "go").touch()
    assert [run.end(process, 30) for process in processes] == [0, 0]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("end", "code", "name"), [("sys.exit(3)", 3, None), ("os.kill(os.getpid(), 9)", 137, "SIGKILL")]
)
def test_the_verdict_is_of_the_rank_that_failed_first(run, torch_python, end, code, name):
    program = f"import os, sys, time\nif os.environ['RANK'] == '3':\n    {end}\ntime.sleep(60)\n"
    processes = ranked(run, torch_python, program)
    assert [run.end(process, 60) for process in processes] == [code, code]
    verdict = run.verdict()
    assert (verdict["node"], verdict["rank"], verdict["code"], verdict["signal"]) == (1, 3, code, name)
    assert verdict["message"].startswith("the command of rank 3 ") and verdict["phase"] == "running"
    assert verdict["tail"]


@pytest.mark.torch
def test_a_warning_reaches_the_ranks_and_not_the_launcher(run, torch_python):
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\n"
        "open('up-%s' % os.environ['RANK'], 'w').write('up')\n"
        "while True: time.sleep(0.05)\n"
    )
    (process,) = ranked(run, torch_python, program, 1, "--warning", "signal:USR1")
    for rank in (0, 1):
        run.wait_for(f"up-{rank}", 60)
    (run.attempt / "warning").touch()
    assert run.end(process, 30) == 0
    assert "warned" in run.phases()


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
