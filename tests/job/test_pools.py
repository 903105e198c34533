"""Server pools beside the launch: their addresses, their key, their readiness and their end."""

from __future__ import annotations

import json
import time

import pytest

from tuneplane.job.options import read_options
from tuneplane.job.settings import Refusal

# Answers 200 once `ready` exists, and only to whom knows the key; a file `break` ends it.
SERVE = """
import http.server, os, sys, threading, time
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "Bearer " + os.environ["TUNEPLANE_API_KEY"]
        ready = known and self.path == "/health" and os.path.exists("ready")
        self.send_response(200 if ready else 503)
        self.end_headers()
def watch():
    while not os.path.exists("break"):
        time.sleep(0.02)
    os._exit(4)
threading.Thread(target=watch, daemon=True).start()
open("serving-" + os.environ["TUNEPLANE_NODE_RANK"], "w").write("yes")
http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Answer).serve_forever()
"""
CLIENT = """
import os, urllib.request
key = os.environ["TUNEPLANE_API_KEY"]
for url in os.environ["TUNEPLANE_POOL_THE_JUDGE_URLS"].split():
    asked = urllib.request.Request(url + "/health", headers={"Authorization": "Bearer " + key})
    print("answer", urllib.request.urlopen(asked).status, flush=True)
open("key", "w").write(key)
"""


def pools(timeout=20.0, launch=1, servers=2):
    server = {"words": ["python3", "serve.py", "{host}", "{port}"], "ready": "/health", "timeout": timeout}
    return json.dumps(
        [
            {"name": "trainer", "nodes": launch, "cpus": 1, "gpus": 0, "processes": 1},
            {"name": "the-judge", "nodes": servers, "cpus": 1, "gpus": 0, "processes": 1, "server": server},
        ]
    )


@pytest.fixture(params=["run", "old_run"])
def served(request):
    """A run, and a function that starts its nodes: one or more for the launch, two servers."""
    run = request.getfixturevalue(request.param)
    (run.experiment / "serve.py").write_text(SERVE)
    (run.experiment / "client.py").write_text(CLIENT)

    def start(script, launch=1, timeout=20.0):
        options = ("--pools", pools(timeout, launch))
        nodes = launch + 2
        return [run.start("sh", "-c", script, rank=r, nodes=nodes, options=options) for r in range(nodes)]

    return run, start


def ends(run, processes):
    return [run.end(process) for process in processes]


def test_the_launch_begins_when_every_server_answers_and_ends_them(served):
    run, start = served
    processes = start("date >began; python3 client.py")
    for rank in (1, 2):
        run.wait_for(f"serving-{rank}")
    time.sleep(1)
    assert not (run.experiment / "began").exists()
    (run.experiment / "ready").touch()
    assert ends(run, processes) == [0, 0, 0]
    assert run.log(0).count("answer 200") == 2
    assert [run.node(rank)["message"] for rank in (1, 2)] == ["the server was ended after the launch"] * 2
    assert run.phases(1) == ["started", "preflight", "rendezvous", "serving", "ended"]
    nodes = json.loads((run.attempt / "nodes.json").read_text())["nodes"]
    assert [(node["pool"], node["ranks"]) for node in nodes] == [
        ("trainer", [0]),
        ("the-judge", []),
        ("the-judge", []),
    ]
    key = (run.experiment / "key").read_bytes()
    assert len(key) == 64 and not [path for path in run.attempt.iterdir() if key in path.read_bytes()]


def test_several_nodes_of_the_launch(served):
    run, start = served
    (run.experiment / "ready").touch()
    assert ends(run, start("exit 0", launch=2)) == [0, 0, 0, 0]


def test_the_launch_that_fails_ends_the_servers(served):
    run, start = served
    (run.experiment / "ready").touch()
    assert ends(run, start("exit 9")) == [9, 9, 9]
    assert (run.verdict()["node"], run.verdict()["reason"]) == (0, "exited")


def test_a_server_that_ends_early_ends_the_run(served):
    run, start = served
    (run.experiment / "ready").touch()
    processes = start("echo up >up; sleep 60")
    run.wait_for("up")
    (run.experiment / "break").touch()
    assert ends(run, processes) == [4, 4, 4]
    verdict = run.verdict()
    assert verdict["node"] in (1, 2) and (verdict["reason"], verdict["phase"]) == ("server", "serving")
    assert (
        verdict["message"]
        == "the server ended with exit code 4 before the launch was over (pool `the-judge`)"
    )


def test_a_server_that_never_answers_is_named(served):
    run, start = served
    assert ends(run, start("touch began", timeout=2)) == [125, 125, 125]
    assert not (run.experiment / "began").exists()
    verdict = run.verdict()
    assert (verdict["node"], verdict["host"], verdict["reason"]) == (1, "n1", "server")
    assert verdict["message"].startswith(
        "the server of node 1 (pool `the-judge`) did not answer 200 at http://"
    )
    assert verdict["message"].endswith("/health within 2 s: status 503")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "`--pools` cannot be read: "),
        ("[]", "the first pool must be one without a server"),
        (pools(launch=2), "the pools have 4 nodes in all, but the job is for 3"),
        ('[{"name": "a", "nodes": 3}]', "KeyError"),
        ('[{"name": "A", "nodes": 3, "cpus": 1, "gpus": 0, "processes": 1}]', "no name of its own"),
    ],
)
def test_wrong_pools(text, message):
    with pytest.raises(Refusal, match=message.replace("[", r"\[")):
        read_options(["--kind", "process", "--nodes", "3", "--pools", text, "--", "x"])
