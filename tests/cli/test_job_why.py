"""`tp job why` and `tp job requeue` at the `local` site."""

from __future__ import annotations

import json
import time

from cli.world import World

TWICE = """\
[ -e "$TUNEPLANE_OUTPUT_DIR/second" ] && exit 0
touch "$TUNEPLANE_OUTPUT_DIR/second"
echo 'ValueError: said, not raised'
python3 -c 'raise ValueError("the first time")'
"""


def ended(world: World, run: str, state: str) -> None:
    deadline = time.monotonic() + 30
    while (found := json.loads(world.tp("job", "status", run, "--json").out))["state"] != state:
        assert found["state"] in ("running", "queued") and time.monotonic() < deadline, found
        time.sleep(0.1)


def submitted(world: World, script: str) -> str:
    (world.made() / "train.sh").write_text(script)
    said = world.tp("submit", "exp")
    assert said.code == 0, said
    return said.out.strip()


def test_a_run_that_failed_and_is_started_again(world: World) -> None:
    run = submitted(world, TWICE)
    ended(world, run, "failed")
    said = world.tp("--site", "local", "job", "why", run)
    assert (said.code, said.err) == (0, "")
    first, evidence, action = said.out.splitlines()
    assert first.startswith(f"{run}: the program ended with ValueError on node 0 (")
    assert evidence == "  attempts/1/node-0.log: ValueError: the first time"
    assert action == f"  try      read the lines above it: `tp --site local job logs {run}`"
    found = json.loads(world.tp("job", "why", run, "--json").out)
    assert (found["kind"], found["state"], found["attempt"]) == ("exception", "failed", 1)
    assert found["evidence"] == {"line": "ValueError: the first time", "file": "attempts/1/node-0.log"}
    said = world.tp("job", "requeue", run)
    assert (said.code, said.out) == (0, f"{run}\n") and said.err.endswith(" now, attempt 2\n")
    ended(world, run, "completed")
    facts = json.loads(world.tp("job", "status", run, "--json").out)
    assert [(row["attempt"], row["code"]) for row in facts["attempts"]] == [(1, 1), (2, 0)]
    assert len(facts["earlier_jobs"]) == 1 and facts["earlier_jobs"][0]["id"] != facts["job"]
    table = world.tp("job", "status", run).out
    assert "attempts    1: exit code 1; 2: completed\n" in table
    assert "the first time" in world.tp("job", "logs", run, "--attempt", "1").out
    assert "the first time" not in world.tp("job", "logs", run).out
    said = world.tp("job", "requeue", run)
    assert (said.code, said.out) == (3, "") and "has completed" in said.err
    assert world.tp("job", "why", run).out == f"{run}: it completed\n"


def test_a_run_that_runs(world: World) -> None:
    run = submitted(world, "exec sleep 300\n")
    deadline = time.monotonic() + 30
    while not (world.runs / run / "attempts/1/node-0.log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    said = world.tp("job", "requeue", run)
    assert said.code == 3 and "this site has no queue to put it back to" in said.err
    assert world.tp("job", "why", run).out.startswith(f"{run}: it runs")
    assert world.tp("job", "cancel", run).code == 0
    ended(world, run, "cancelled")
    assert f"{run}: it was cancelled by you while it ran\n" in world.tp("job", "why", run).out
