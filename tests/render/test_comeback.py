"""How a run's script comes back: its real bash and the real supervisor, between programs that answer as Slurm's do."""

from __future__ import annotations

import json
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from render.places import Place, Run

RECIPE = """\
schema: 1
name: custom/back
version: 1.0.0
title: {{en: Back}}
summary: {{en: Comes back}}
category: custom
requires: {{core: ">=0.1,<0.2"}}
framework: {{kind: custom, default: own, versions: {{own: {{}}}}}}
launch: {{kind: process, entry: {{experiment: train.sh}}, interpreter: [bash], words: true}}
config: {{style: argv}}
data: {{kind: any, train: none}}
checkpoints: {{format: any, pattern: "{pattern}", resume: automatic, complete: {complete}, warning: {warning}{pointer}}}
"""
PROGRAMS = {
    "srun": 'while [ "$1" != /bin/bash ]; do shift; done\nSLURM_PROCID=0 SLURM_STEP_NUM_NODES=1 exec "$@"\n',
    "scontrol": 'echo "$*" >>"$PROGRAMS/said"\n[ ! -e "$PROGRAMS/$1-$2" ] || exec cat "$PROGRAMS/$1-$2"\n'
    '[ ! -e "$PROGRAMS/$1-fails" ] || { cat "$PROGRAMS/$1-fails"; exit 1; }\n',
    "sbatch": 'echo "sbatch $*" >>"$PROGRAMS/said"\n[ ! -e "$PROGRAMS/sbatch-fails" ] || { cat "$PROGRAMS/sbatch-fails"; exit 1; }\necho 88\n',
}  # fmt: skip
SAVE = 'save() { mkdir -p "$TUNEPLANE_OUTPUT_DIR/c-$1"; touch "$TUNEPLANE_OUTPUT_DIR/c-$1/done"; }\n'
# goes on from the newest checkpoint, saves when it is told, and ends with 3
TRAINS = (
    SAVE
    + """\
from=${TUNEPLANE_RESUME_FROM##*-}
echo "${TUNEPLANE_RESUME_FROM:-nothing}" >>"$TUNEPLANE_OUTPUT_DIR/from"
touch "$TUNEPLANE_OUTPUT_DIR/up"
until [ -e "$TUNEPLANE_WARNING_FILE" ]; do sleep 0.05; done
save $((${from:-0} + 1))
exit 3
"""
)
STUCK = TRAINS.replace("save $", ": $")
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_JOB_PARTITION": "low",
    "SLURMD_NODENAME": "n1",
}


class Slurm:
    """A run whose script is started again and again as Slurm would."""

    def __init__(self, place: Place, root: Path) -> None:
        self.place, self.programs = place, root / "programs"
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            (self.programs / name).write_text(f"#!/bin/bash\n{text}")
            (self.programs / name).chmod(0o755)
        self.recipes = root / "recipes"

    def run(self, train: str, policy: str = "requeue", complete: str = "{file: done}", pattern: str = "c-{step}",
            warning: str = "{tell: file, stopped: 3}", pointer: str = "", **requeue: Any) -> Run:  # fmt: skip
        folder = self.recipes / "custom/back"
        (folder / "starter").mkdir(parents=True)
        (folder / "recipe.yaml").write_text(
            RECIPE.format(pattern=pattern, complete=complete, warning=warning, pointer=pointer)
        )
        (folder / "starter/train.sh").write_text("true\n")
        self.place.place(
            "slurm", "slurm-modules", setup=[], slurm={"max_script_size": 1 << 20}, recipes=[str(self.recipes)],
            path=[str(self.programs), "/usr/bin", "/bin"], default_profile="cpu:1",
            profiles={"cpu": {"cpus_per_node": 1}}, requeue={"policy": policy, **requeue},
        )  # fmt: skip
        made = self.place.tp("--site", "slurm", "new", "exp", "--method", "custom/back")
        assert made.code == 0, made
        (self.place.folder / "exp/train.sh").write_text(textwrap.dedent(train))
        return self.place.kept("exp", "slurm")

    def start(self, run: Run, **more: str) -> None:
        run.start(**SLURM | {"PROGRAMS": str(self.programs)} | more)

    def attempt(self, run: Run, **more: str) -> dict[str, Any]:
        """Start it, tell it that the time limit is near as soon as it trains, and give its record."""
        self.start(run, **more)
        up = run.folder / "output/up"
        while not up.exists() and run.process.poll() is None:  # type: ignore[union-attr]
            time.sleep(0.02)
        if run.process.poll() is None:  # type: ignore[union-attr]
            run.process.send_signal(signal.SIGUSR2)  # type: ignore[union-attr]
        run.end()
        up.unlink(missing_ok=True)
        return self.record(run)

    def record(self, run: Run) -> dict[str, Any]:
        attempts = sorted((run.folder / "attempts").iterdir(), key=lambda path: int(path.name))
        found: dict[str, Any] = json.loads((attempts[-1] / "exit.json").read_text())
        return found

    def said(self) -> list[str]:
        """What was asked of Slurm to change something."""
        file = self.programs / "said"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if not line.startswith(("show", "--oneliner"))]

    def answer(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)


@pytest.fixture
def slurm(place: Place, tmp_path: Path) -> Slurm:
    return Slurm(place, tmp_path)


def brief(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[key] for key in ("attempt", "code", "decided_by", "cause", "next", "resumed_from", "step"))  # fmt: skip


def test_from_checkpoint_to_checkpoint(slurm: Slurm) -> None:
    run = slurm.run(TRAINS)
    first = slurm.attempt(run)
    assert brief(first) == (1, 3, "verdict", "time limit", "requeue", "", 1)
    assert first["warned"] >= first["started"] and first["verdict"]["code"] == 3
    assert brief(slurm.attempt(run)) == (2, 3, "verdict", "time limit", "requeue", "c-1", 2)
    assert brief(slurm.attempt(run)) == (3, 3, "verdict", "time limit", "requeue", "c-2", 3)
    assert slurm.said() == ["requeue 7"] * 3
    output = run.folder / "output"
    assert (output / "from").read_text().splitlines() == ["nothing", f"{output}/c-1", f"{output}/c-2"]


POINTED = (
    TRAINS.replace("c-$1", "ck/c-$1")
    .replace("touch \"$TUNEPLANE_OUTPUT_DIR/up\"", 'cat "$TUNEPLANE_OUTPUT_DIR/ck/latest" >>"$TUNEPLANE_OUTPUT_DIR/from" 2>/dev/null\n'
             'mkdir -p "$TUNEPLANE_OUTPUT_DIR/ck/c-9"; echo c-9 >"$TUNEPLANE_OUTPUT_DIR/ck/latest"\ntouch "$TUNEPLANE_OUTPUT_DIR/up"')
)  # fmt: skip
"""Says that it has a checkpoint before it has, and goes on from what is said."""


def test_a_file_that_points_to_a_checkpoint_names_the_newest_whole_one(slurm: Slurm) -> None:
    pointer = ', pointer: {file: latest, text: "c-{step}", beside: [other, none]}'
    run = slurm.run(POINTED, pattern="ck/c-{step}", complete="{file: done}", pointer=pointer)
    output = run.folder / "output"
    output.mkdir(exist_ok=True)
    (output / "other").mkdir()
    assert slurm.attempt(run)["step"] == 1
    slurm.attempt(run)
    assert (output / "from").read_text().splitlines() == ["nothing", f"{output}/ck/c-1", "c-1"]
    assert (output / "other/latest").read_text() == "c-1" and not (output / "none").exists()


def test_checkpoints_of_which_none_is_whole_are_moved_away(slurm: Slurm) -> None:
    pointer = ', pointer: {file: latest, text: "c-{step}"}'
    run = slurm.run(
        POINTED.replace("save $", ": $"), pattern="ck/c-{step}", complete="{file: done}", pointer=pointer
    )
    slurm.attempt(run)
    slurm.attempt(run)
    output = run.folder / "output"
    assert (output / "from").read_text().splitlines() == ["nothing", "nothing"]
    assert (output / "ck.before-2/latest").read_text() == "c-9\n"


def test_an_entry_that_is_done_is_not_started_again(slurm: Slurm) -> None:
    run = slurm.run(TRAINS.replace("exit 3", "exit 0"))
    assert brief(slurm.attempt(run)) == (1, 0, "verdict", "", "", "", 1) and slurm.said() == []


def test_an_entry_that_fails_after_the_warning(slurm: Slurm) -> None:
    run = slurm.run(TRAINS.replace("exit 3", "exit 1"))
    assert brief(slurm.attempt(run))[1:5] == (1, "verdict", "time limit", "requeue")


def test_an_entry_that_fails_without_one(slurm: Slurm) -> None:
    run = slurm.run("exit 3\n")
    assert brief(slurm.attempt(run)) == (1, 3, "verdict", "", "", "", None) and slurm.said() == []


def test_two_attempts_without_progress_end_it(slurm: Slurm) -> None:
    run = slurm.run(STUCK)
    assert brief(slurm.attempt(run))[2:5] == ("verdict", "time limit", "requeue")
    second = slurm.attempt(run)
    assert brief(second) == (2, 3, "no progress", "time limit", "", "", None)
    assert second["why_next"] == "two attempts without progress" and slurm.said() == ["requeue 7"]
    # Slurm may start it again all the same, after a lost node
    third = slurm.attempt(run)
    assert brief(third)[:4] == (3, 1, "no progress", "") and not (run.folder / "attempts/3/node.sh").exists()
    # asked for by somebody, it starts anew, as another job
    (run.folder / "job.next").write_text("9\n")
    again = slurm.attempt(run, SLURM_JOB_ID="9")
    assert brief(again)[:5] == (4, 3, "verdict", "time limit", "requeue") and slurm.said()[-1] == "requeue 9"
    assert (run.folder / "job.id").read_text() == "9\n" and not (run.folder / "job.next").exists()


def test_a_cap_on_attempts(slurm: Slurm) -> None:
    run = slurm.run(TRAINS, attempts=2)
    assert slurm.attempt(run)["next"] == "requeue"
    last = slurm.attempt(run)
    assert (last["decided_by"], last["why_next"]) == ("attempts", "the cap of 2 attempts is reached")
    assert slurm.attempt(run)["decided_by"] == "attempts" and slurm.said() == ["requeue 7"]


JOB = "JobId=7 JobState=COMPLETING Reason={reason} Restarts={restarts} EndTime=2030-01-01T00:00:00{more}\n"
ENDS = [
    (JOB.format(reason="None", restarts=1, more=""), "preemption", "slurm"),
    (JOB.format(reason="None", restarts=0, more=" PreemptTime=2026-01-01T00:00:00"), "preemption", "requeue"),
    (JOB.format(reason="TimeLimit", restarts=0, more=""), "time limit", "requeue"),
    (JOB.format(reason="None", restarts=0, more=" PreemptTime=None"), "cancelled", ""),
    ("", "cancelled", ""),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "cause", "then"), ENDS)
def test_what_a_term_of_slurm_means(slurm: Slurm, shown: str, cause: str, then: str) -> None:
    """The job as Slurm 22.05 to 26.05 shows it in these cases; a warning may have come before."""
    slurm.answer("--oneliner-show", shown)
    run = slurm.run(TRAINS.replace("exit 3", "sleep 60"), warning="{}")
    slurm.start(run)
    run.wait_for("up")
    run.process.send_signal(signal.SIGUSR2)  # type: ignore[union-attr]
    run.wait_for("c-1/done")
    run.process.terminate()  # type: ignore[union-attr]
    run.end()
    assert brief(slurm.record(run))[1:5] == (143, "verdict", cause, then)
    assert slurm.said() == (["requeue 7"] if then == "requeue" else [])


def test_a_cause_that_the_site_leaves_out(slurm: Slurm) -> None:
    record = slurm.attempt(slurm.run(TRAINS, on=["preemption"]))
    assert (record["cause"], record["next"]) == ("time limit", "") and slurm.said() == []
    assert record["why_next"] == "the site does not start runs again after this"


def test_a_run_that_was_cancelled_stays_so(slurm: Slurm) -> None:
    run = slurm.run(TRAINS)
    (run.folder / "cancel.json").write_text("{}")
    assert brief(slurm.attempt(run))[3:5] == ("cancelled", "") and slurm.said() == []


def test_slurm_does_not_take_it_back(slurm: Slurm) -> None:
    slurm.answer("requeue-fails", 'Job "7" has\n\trequeue\\disabled\n')
    record = slurm.attempt(slurm.run(TRAINS))
    assert (record["cause"], record["next"]) == ("time limit", "")
    assert record["why_next"] == "scontrol requeue: Job  7  has  requeue disabled"


@pytest.mark.parametrize("works", [True, False])
def test_a_successor(slurm: Slurm, works: bool) -> None:
    run = slurm.run(TRAINS, policy="successor")
    if not works:
        slurm.answer("sbatch-fails", "sbatch: error: Access denied\n")
    record = slurm.attempt(run)
    said = [f"sbatch --parsable --chdir={run.folder} --dependency=afterany:7 job.sbatch"]
    assert slurm.said() == said and brief(record)[2:4] == ("verdict", "time limit")
    assert record["next"] == ("successor:88" if works else "")
    assert record["why_next"] == ("" if works else "sbatch: sbatch: error: Access denied")
    assert (run.folder / "job.id").read_text() == ("88\n" if works else "7\n")
    if works:
        assert brief(slurm.attempt(run, SLURM_JOB_ID="88"))[0::5] == (2, "c-1")


def test_a_lost_node(slurm: Slurm) -> None:
    verdict = (
        '125\\n{"code": 125, "node": 1, "host": "n2", "signal": null, "reason": "lost", "message": "lost"}\\n'
    )
    run = slurm.run(f"printf '{verdict}' >\"${{TUNEPLANE_WARNING_FILE%/*}}/verdict\"\n")
    slurm.start(run)
    assert run.end() == 125 and brief(slurm.record(run))[1:5] == (125, "verdict", "lost", "requeue")


def test_a_record_before_the_step_has_ended(slurm: Slurm) -> None:
    run = slurm.run("trap '' TERM; touch \"$TUNEPLANE_OUTPUT_DIR/up\"; while :; do sleep 1; done\n")
    slurm.start(run)
    run.wait_for("up")
    began = time.monotonic()
    run.process.terminate()  # type: ignore[union-attr]
    record = run.folder / "attempts/1/exit.json"
    while not record.exists():
        assert time.monotonic() - began < 2
        time.sleep(0.02)
    assert brief(slurm.record(run))[1:5] == (143, "signal", "", "") and run.process.poll() is None  # type: ignore[union-attr]
    run.end()
    assert brief(slurm.record(run))[1:5] == (143, "verdict", "cancelled", "")


def test_each_task_of_an_array_is_like_a_run(slurm: Slurm) -> None:
    run = slurm.run(TRAINS.replace("$TUNEPLANE_OUTPUT_DIR/up", "$TUNEPLANE_RUN_DIR/../../output/up"))
    (run.folder / "output").mkdir(exist_ok=True)
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "SLURM_JOB_ID": "12"}
    with pytest.raises(IndexError):  # there is no attempt of the run itself
        slurm.attempt(run, **array)
    task = run.folder / "tasks/2"
    record = json.loads((task / "attempts/1/exit.json").read_text())
    assert brief(record) == (1, 3, "verdict", "time limit", "requeue", "", 1)
    assert slurm.said() == ["requeue 7_2"] and (task / "output/c-1/done").exists()
    assert not (run.folder / "job.id").exists() and not list((run.folder / "attempts").iterdir())


NEWEST = [
    ("{file: done}", "c-{step}", ["c-1/done", "c-3/", "c-x/done", "c-02/done", "c--9/done"], "c-02", 2),
    ("{tracker: newest}", "s/c-{step}", ["s/c-1/", "s/c-4/", "s/c-9/", "s/newest=4"], "s/c-4", 4),
    ("{tracker: newest}", "c-{step}", ["c-1/"], "", None),
    ("null", "c-{step}.pt", ["c-9.pt", "c-10.pt", "c-11.pt.part", ".c-12.pt"], "c-10.pt", 10),
    ("null", "c-{step}/m", ["c-1/m/", "c-2/n/", "c-08/m/"], "c-08/m", 8),
]  # fmt: skip


@pytest.mark.parametrize(("complete", "pattern", "files", "newest", "step"), NEWEST)
def test_the_newest_complete_checkpoint(
    slurm: Slurm, complete: str, pattern: str, files: list[str], newest: str, step: int | None
) -> None:
    run = slurm.run("exit 0\n", complete=complete, pattern=pattern)
    for name in files:
        path, _, text = name.partition("=")
        place = run.folder / "output" / path
        (place if name.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            place.write_text(text)
    slurm.start(run)
    assert run.end() == 0
    assert brief(slurm.record(run))[5:] == (newest, step)


def test_a_warning_by_a_signal(slurm: Slurm) -> None:
    train = (
        SAVE
        + """\
    trap 'save 5; exit 3' USR1
    touch "$TUNEPLANE_OUTPUT_DIR/up"
    while :; do sleep 0.1; done
    """
    )
    run = slurm.run(textwrap.dedent(train), warning="{tell: signal, signal: USR1, stopped: 3}")
    assert brief(slurm.attempt(run)) == (1, 3, "verdict", "time limit", "requeue", "", 5)
    assert "warned" in run.file("phases.jsonl")


def test_who_does_not_listen_is_ended_before_the_limit(slurm: Slurm) -> None:
    """A quarter of the warning's lead before it."""
    run = slurm.run(SAVE + 'touch "$TUNEPLANE_OUTPUT_DIR/up"\nsave 1\nsleep 60\n', warning="{}")
    began = time.monotonic()
    end = str(int(time.time()) + 300 // 4 + 4)
    assert brief(slurm.attempt(run, SLURM_JOB_END_TIME=end)) == (
        1,
        143,
        "verdict",
        "time limit",
        "requeue",
        "",
        1,
    )
    assert 2 < time.monotonic() - began < 12
