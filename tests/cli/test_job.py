"""`tp submit` at the `local` site and `tp job`: runs that end in every way, started once and looked at by all tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.world import Expected, Said, World

expected = Expected("job")
HOST = os.uname().nodename
RUN_ID = re.compile(r"(.+)-[a-km-z2-9]{8}")

SCRIPTS = {
    "completes": 'printf "word %s\\n" "$@"\nprintf "%s\\n" "$@" >"$TUNEPLANE_OUTPUT_DIR/words"\n',
    "fails with 7": 'echo "about to fail"\nexit 7\n',
    "kills itself": "echo $$\nkill -s KILL $$\n",
    "too slow": "echo started\nexec sleep 300\n",
    "is cancelled": "echo started\nexec sleep 300\n",
    "says more": 'echo first\nuntil [ -e "$TUNEPLANE_OUTPUT_DIR/go" ]; do sleep 0.05; done\necho second\nprintf third\n',
}
WORDS = ("a b", "", "it's", '"q"', "$(touch pwned)", "`x`", "-x", "--", "世界", "line\nbreak", "back\\slash")


class Runs:
    """One world with a run of each script of SCRIPTS."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ids: dict[str, str] = {}
        self.said: dict[str, Said] = {}

    def submit(self, name: str, *words: str) -> str:
        folder = self.world.made(name)
        (folder / "train.sh").write_text("#!/bin/bash\n" + SCRIPTS[name])
        said = self.world.tp("submit", name, *words)
        assert said.code == 0, said
        self.said[name] = said
        self.ids[name] = said.out.removesuffix("\n")
        return self.ids[name]

    def facts(self, name: str) -> dict[str, Any]:
        said = self.world.tp("job", "status", self.ids[name], "--json")
        assert (said.code, said.err) == (0, ""), said
        facts: dict[str, Any] = json.loads(said.out)
        return facts

    def until(self, name: str, *states: str) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while (facts := self.facts(name))["state"] not in states:
            assert time.monotonic() < deadline, facts
            time.sleep(0.05)
        return facts

    def attempt(self, name: str) -> Path:
        return self.world.runs / self.ids[name] / "attempts/1"

    def until_log(self, name: str, text: str) -> None:
        deadline = time.monotonic() + 30
        log = self.attempt(name) / "node-0.log"
        while not (log.exists() and text in log.read_text()):
            assert time.monotonic() < deadline, f"{log} never said {text!r}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Runs]:
    world = World(tmp_path_factory.mktemp("runs"), cache)
    made = Runs(world)
    made.submit("too slow", "--time", "1s")
    made.submit("is cancelled")
    made.submit("says more")
    made.submit("kills itself")
    made.submit("fails with 7")
    made.submit("completes", "--", *WORDS)
    yield made
    for name in made.ids:
        world.tp("job", "cancel", made.ids[name])
    assert not list(world.root.rglob("pwned"))


def show(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def status(runs: Runs, name: str) -> None:
    """The status as JSON is judged here, the status as a table compared with it and the transcript."""
    facts = runs.facts(name)
    run = runs.ids[name]
    assert 0 <= time.time() - facts["created"] < 300 and re.fullmatch(r"[1-9]\d*", facts["job"])
    assert facts["created"] <= facts["started"] <= facts["ended"]
    assert facts["folder"] == str(runs.world.runs / run)
    said = runs.world.tp("job", "status", run)
    times = {show(facts[key]): "time" for key in ("created", "started", "ended")}
    known = {facts["job"]: "pid", **times} | ({f"({HOST})": "host"} if HOST in said.out else {})
    expected(said, f"status: {name}", runs.world, run, known=known)


def test_submit_prints_the_id_alone(runs: Runs) -> None:
    for name, said in runs.said.items():
        match = RUN_ID.fullmatch(runs.ids[name])
        assert match is not None and match[1] == name
        expected(said, f"submit: {name}", runs.world, runs.ids[name])
    assert len(set(runs.ids.values())) == len(SCRIPTS)


def test_the_run_folder_is_the_script_that_compile_prints(runs: Runs) -> None:
    folder = runs.world.runs / runs.ids["completes"]
    said = runs.world.tp("compile", "completes", "--", *WORDS)
    assert (said.code, said.err) == (0, "")
    assert (folder / "job.sbatch").read_bytes() == said.out.encode()
    assert folder.stat().st_mode & 0o777 == 0o750


def test_completed(runs: Runs) -> None:
    runs.until("completes", "completed")
    status(runs, "completes")
    words = (runs.world.runs / runs.ids["completes"] / "output/words").read_text()
    assert words == "".join(f"{word}\n" for word in WORDS)


@pytest.mark.parametrize("name", ["fails with 7", "kills itself", "too slow"])
def test_ended_badly(runs: Runs, name: str) -> None:
    runs.until(name, "failed", "timed-out")
    status(runs, name)
    said = runs.world.tp("job", "wait", runs.ids[name])
    expected(said, f"wait: {name}", runs.world, runs.ids[name], known=host(said))


def host(said: Said) -> dict[str, str]:
    return {f"({HOST})": "host"} if f"({HOST})" in said.out + said.err else {}


def test_cancelled(runs: Runs) -> None:
    name, run = "is cancelled", runs.ids["is cancelled"]
    runs.until_log(name, "started")
    assert runs.facts(name)["state"] == "running"
    expected(runs.world.tp("job", "cancel", run), "cancel", runs.world, run)
    runs.until(name, "cancelled")
    status(runs, name)
    said = runs.world.tp("job", "wait", run)
    expected(said, "wait: is cancelled", runs.world, run, known=host(said))
    expected(runs.world.tp("job", "cancel", run), "cancel again", runs.world, run)


def test_cancel_what_has_ended(runs: Runs) -> None:
    runs.until("completes", "completed")
    run = runs.ids["completes"]
    expected(runs.world.tp("job", "cancel", run), "cancel completed", runs.world, run)
    assert runs.facts("completes")["state"] == "completed"


def test_wait_for_a_completed_run(runs: Runs) -> None:
    run = runs.ids["completes"]
    expected(runs.world.tp("job", "wait", run), "wait: completes", runs.world, run)


def test_logs(runs: Runs) -> None:
    runs.until("completes", "completed")
    run = runs.ids["completes"]
    whole = runs.world.tp("job", "logs", run)
    expected(whole, "logs", runs.world, run, known={f"({HOST})": "host"})
    lines = whole.out.splitlines(keepends=True)
    for count in (0, 1, 3, 1000):
        said = runs.world.tp("job", "logs", run, "-n", str(count))
        assert (said.code, said.out, said.err) == (0, "".join(lines[-count:] if count else []), "")
    assert runs.world.tp("job", "logs", run, "--lines", "1000", "--node", "0", "--attempt", "1") == whole
    assert runs.world.tp("job", "logs", run, "-f") == whole


@pytest.mark.parametrize("words", [("--node", "1"), ("--attempt", "2"), ("--attempt", "0")])
def test_logs_that_are_not(runs: Runs, words: tuple[str, ...]) -> None:
    run = runs.ids["completes"]
    expected(runs.world.tp("job", "logs", run, *words), f"logs {' '.join(words)}", runs.world, run)


def test_logs_are_followed_to_the_runs_end(runs: Runs) -> None:
    """Whole lines as they come, the last one also without its end."""
    name, world = "says more", runs.world
    runs.until_log(name, "first")
    following = subprocess.Popen(
        [sys.executable, "-m", "tuneplane", "job", "logs", runs.ids[name], "-f", "-n", "1"],
        cwd=world.folder,
        env=world.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == b"first\n"
        assert following.poll() is None
        (world.runs / runs.ids[name] / "output/go").touch()
        out, err = following.communicate(timeout=30)
    finally:
        following.kill()
    said = Said(following.returncode, out.decode(), err.decode())
    expected(said, "logs followed", world, runs.ids[name])
    assert runs.facts(name)["state"] == "completed"


def test_ls(runs: Runs) -> None:
    for name in SCRIPTS:
        runs.until(name, "completed", "failed", "timed-out", "cancelled")
    rows = json.loads(runs.world.tp("job", "ls", "--json").out)
    assert rows == sorted(
        ({key: runs.facts(name)[key] for key in rows[0]} for name in SCRIPTS),
        key=lambda facts: (-facts["created"], facts["run"]),
    )
    said = runs.world.tp("job", "ls")
    table = [line.split("  ") for line in said.out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in table]
    assert (said.code, said.err) == (0, "")
    assert cells == [
        ["RUN", "STATE", "EXIT", "METHOD", "PROFILE", "CREATED"],
        *(
            [
                row["run"],
                row["state"],
                "-" if row["code"] is None else str(row["code"]),
                "custom/custom",
                "cpu:1",
                show(row["created"]),
            ]
            for row in rows
        ),
    ]


def test_a_run_by_the_beginning_of_its_id_and_by_its_folder(runs: Runs) -> None:
    run = runs.ids["completes"]
    runs.until("completes", "completed")
    whole = runs.world.tp("job", "status", run)
    for word in ("completes", run[:-1], run[:4], str(runs.world.runs / run), f"{runs.world.runs}/{run}/"):
        assert runs.world.tp("job", "status", word) == whole, word


def test_an_ambiguous_beginning(runs: Runs) -> None:
    matches = sorted(run for run in runs.ids.values() if run.startswith(("is", "kills")))
    both = [run for run in runs.ids.values() if run.startswith("s") or run.startswith("t")]
    assert len(matches) == len(both) == 2
    said = runs.world.tp("job", "status", "")
    named = ", ".join(sorted(runs.ids.values())[:5])
    assert (said.code, said.out) == (3, "")
    assert said.err == f'error: `""` could be {len(SCRIPTS)} runs\n  expected {named}\n'


@pytest.mark.parametrize("command", ["status", "logs", "wait", "cancel"])
def test_an_unknown_run(runs: Runs, command: str) -> None:
    run = runs.ids["completes"]
    near = runs.world.tp("job", command, f"{run[:-1]}0")
    assert (near.code, near.out) == (3, "")
    assert near.err == (
        f"error: there is no run `{run[:-1]}0`, did you mean `{run}`?\n  try      tp job ls\n"
    )
    expected(runs.world.tp("job", command, "nothing"), "unknown run", runs.world)
    expected(runs.world.tp("job", command, "./completes"), "a folder that is no run", runs.world)


def test_no_runs_at_all(world: World) -> None:
    expected(world.tp("job", "ls"), "ls of nothing", world)
    expected(world.tp("job", "ls", "--json"), "ls of nothing as JSON", world)
    expected(world.tp("job", "status", "x"), "status of nothing", world)


def test_submit_as_json(runs: Runs) -> None:
    said = runs.world.tp("submit", "fails with 7", "--json")
    data = json.loads(said.out)
    assert (said.code, said.err) == (0, "")
    assert RUN_ID.fullmatch(data["run"]) and re.fullmatch(r"[1-9]\d*", data["job"])
    assert data == {
        "run": data["run"],
        "folder": str(runs.world.runs / data["run"]),
        "job": data["job"],
    }
    runs.ids["as JSON"] = data["run"]
    assert runs.until("as JSON", "failed")["code"] == 7
    del runs.ids["as JSON"]
    subprocess.run(["rm", "-r", "--", data["folder"]], check=True)


def test_submit_and_wait_as_a_process(world: World) -> None:
    """The README's way; whatever the folder is called. A run that ends badly exits with 8."""
    folder = world.made("it's $(x) 实验")
    (folder / "train.sh").write_text('echo "in $PWD"\nexit $1\n')
    for code in ("0", "7"):
        said = world.real("submit", "it's $(x) 实验", "--wait", "--", code)
        run = said.out.removesuffix("\n")
        assert RUN_ID.fullmatch(run)
        # which states are seen before the last depends on how fast it ends
        seen = re.sub(rf"^{re.escape(run)}: (queued|running)\n", "", said.err, flags=re.MULTILINE)
        final = Said(said.code, said.out, seen)
        expected(final, f"submit --wait: exit {code}", world, run, known=host(final))


DRY = {
    "dry run": ["--dry-run"],
    "dry run as JSON": ["--dry-run", "--json", "--", "a b"],
    "dry run of what is refused": ["--dry-run", "--profile", "nope"],
    "held where there is no queue": ["--hold"],
    "after nothing": ["--after", "nothing"],
}


@pytest.mark.parametrize("name", DRY)
def test_what_submits_nothing_writes_nothing(world: World, name: str) -> None:
    folder = world.made()
    for path in folder.iterdir():
        if path.name not in ("config.yaml", "recipe.lock.json"):
            path.unlink()
    for path in ("train.sh", "id_rsa", "lib.py"):
        (folder / path).write_text("")
    before = world.tree()
    said = world.tp("submit", "exp", *DRY[name])
    assert world.tree() == before
    if "--json" in DRY[name]:
        data = json.loads(said.out)
        assert data.pop("script") == world.tp("compile", "exp", "--", "a b").out
        said = Said(said.code, json.dumps(data, indent=2) + "\n", said.err)
    expected(said, f"submit: {name}", world)


def test_a_scheduler_that_fails_says_so_and_the_run_says_that_no_job_was_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.made()
    monkeypatch.setattr("tuneplane.schedulers.local.sys.executable", "/bin/false")
    said = world.tp("submit", "exp")
    (run,) = os.listdir(world.runs)
    expected(said, "submit: the keeper does not start", world, run)
    state = json.loads(world.tp("job", "status", run, "--json").out)
    assert (state["state"], state["job"], state["attempt"]) == ("new", None, 0)
    said = world.tp("job", "logs", run)
    expected(said, "logs of a run that never started", world, run)


def test_a_runs_folder_that_cannot_be_made(world: World) -> None:
    world.made()
    world.runs.parent.mkdir(parents=True)
    world.runs.write_text("in the way\n")
    before = world.tree()
    expected(world.tp("submit", "exp"), "submit: no runs folder", world)
    assert world.tree() == before


def test_a_write_that_fails_leaves_no_run_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    world.made()
    monkeypatch.setattr("tuneplane.runs.folder.write_json", full)
    said = world.tp("submit", "exp")
    assert os.listdir(world.runs) == []
    shown = re.sub(r"exp-[a-km-z2-9]{8}`", "exp-<id>`", said.err)
    expected(Said(said.code, said.out, shown), "submit: no space", world)
