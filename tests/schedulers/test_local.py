"""The `local` scheduler: a keeper that lives, has finished, was killed; and how it keeps a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import site, whats

from tuneplane.errors import SchedulerError, SiteError
from tuneplane.runs.folder import CANCEL_FILE, Run, read_run
from tuneplane.runs.status import Job, judge
from tuneplane.schedulers import Wishes, local, local_job, scheduler
from tuneplane.schedulers.local_job import PROCESS_FILE, run_script
from tuneplane.schedulers.processes import alive, identity

HERE = site(
    scheduler="local", runtime={"kind": "host"}, profiles={"cpu": {"cpus_per_node": 1}}, default_profile="cpu"
)


def run(folder: Path, script: str = "", keeper: Any = None, seconds: float = 60) -> Run:
    """A run folder with one attempt begun, as the script itself makes it."""
    (folder / "attempts/1").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(
        json.dumps({"schema": 1, "plan": {"seconds": seconds, "topology": {"gpus_per_node": 0}}})
    )
    (folder / "job.sbatch").write_text(script)
    if keeper is not None:
        (folder / "job.json").write_text(json.dumps({"scheduler": "local", "id": "1", "keeper": keeper}))
    found = read_run(folder)
    assert found is not None
    return found


def state(found: Run) -> str:
    return judge(found, local.jobs([found], HERE)[found.id]).state


def until(true: Callable[[], Any], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def keeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


# --- what is said of a job ---


def test_a_job_lives_as_long_as_its_keeper(tmp_path: Path, keeper: subprocess.Popen[bytes]) -> None:
    found = run(tmp_path, keeper=identity(keeper.pid))
    assert local.jobs([found], HERE) == {found.id: Job("running")} and state(found) == "running"
    keeper.kill()
    keeper.wait()
    assert local.jobs([found], HERE) == {found.id: Job("ended")}
    status = judge(found, Job("ended"))
    assert (status.state, status.why) == (
        "failed",
        "the job ended without a record of its end: it was killed",
    )


def test_a_finished_job_is_what_its_record_says(tmp_path: Path, keeper: subprocess.Popen[bytes]) -> None:
    found = run(tmp_path, keeper=identity(keeper.pid))
    keeper.kill()
    keeper.wait()
    (tmp_path / "attempts/1/exit.json").write_text('{"code": 0, "decided_by": "verdict"}')
    assert state(found) == "completed"


@pytest.mark.parametrize(
    ("keeper_of", "job"),
    [({"host": "elsewhere"}, "unknown"), ({"boot": "before"}, "ended"), ({"ticks": 1}, "ended"), ({"pid": 2**30}, "ended")],
)  # fmt: skip
def test_keepers_that_are_not_here(tmp_path: Path, keeper_of: dict[str, Any], job: str) -> None:
    found = run(tmp_path, keeper={**identity(os.getpid()), **keeper_of})
    assert local.jobs([found], HERE)[found.id] == Job(job)  # type: ignore[arg-type]


def test_runs_that_no_keeper_has(tmp_path: Path) -> None:
    never = run(tmp_path / "never")
    (tmp_path / "slurm").mkdir()
    other = Run(tmp_path / "slurm", {"plan": {}}, {"scheduler": "slurm", "id": "42"})
    assert local.jobs([never, other], HERE) == {"never": Job("ended"), "slurm": Job("unknown")}
    assert (state(never), state(other)) == ("new", "unknown")


# --- keeping a script ---


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "attempts/1/exit.json").read_text())
    return found


def test_the_script_runs_in_its_folder_in_a_session_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/keeper")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "evil"))
    (tmp_path / "evil").write_text("touch evil-ran")
    script = 'pwd > out; ps -o sid= -p $$ >> out; echo $$ >> out; cat >> out; echo "${PYTHONPATH-unset} $-" >> out\necho \'{"code": 0}\' > attempts/1/exit.json\n'
    found = run(tmp_path, script)
    assert run_script(str(tmp_path)) == 0
    folder, session, pid, rest = (tmp_path / "out").read_text().splitlines()
    assert (folder, session.strip()) == (str(tmp_path), pid) and rest.startswith("unset ") and "p" in rest
    assert not (tmp_path / "evil-ran").exists()
    assert record(tmp_path) == {"code": 0} and judge(found, Job("ended")).state == "completed"


@pytest.mark.parametrize(
    ("script", "code", "state", "why"),
    [("exit 0", 0, "completed", ""), ("exit 7", 7, "failed", "the job script ended with 7 and left no record"),
     ("kill -KILL $$", 137, "failed", "the job script was killed by SIGKILL"), ("kill -TERM $$", 143, "failed", "the job script was killed by SIGTERM"),
     ("echo '{\"code\": 5, \"decided_by\": \"check\"}' > attempts/1/exit.json; exit 1", 5, "failed", "a check failed before the launch"),
     ("printf '{\"code\": 0' > attempts/1/exit.json; exit 9", 9, "failed", "the job script ended with 9 and left no record")],
)  # fmt: skip
def test_the_end_of_a_script_is_recorded_where_it_left_no_record(
    tmp_path: Path, script: str, code: int, state: str, why: str
) -> None:
    found = run(tmp_path, script)
    run_script(str(tmp_path))
    status = judge(found, Job("ended"))
    assert (status.state, status.code, status.why) == (state, code, why)


def test_a_script_that_never_began_an_attempt_leaves_none(tmp_path: Path) -> None:
    found = run(tmp_path, "exit 3")
    (tmp_path / "attempts/1").rmdir()
    assert run_script(str(tmp_path)) == 3
    assert not list((tmp_path / "attempts").iterdir()) and judge(found, Job("ended")).state == "new"


def test_the_time_limit_ends_a_script(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        "trap 'echo \\{\\\"code\\\":143\\} > attempts/1/exit.json; exit 143' TERM; sleep 60 & wait",
        seconds=1,
    )
    assert run_script(str(tmp_path)) == 143
    assert record(tmp_path) == {"code": 143, "decided_by": "time limit"}
    assert judge(found, Job("ended")).state == "timed-out"


def test_a_script_that_will_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_job, "STOP_SECONDS", 0.5)
    found = run(tmp_path, "trap '' TERM; while :; do sleep 0.1; done", seconds=0.4)
    assert run_script(str(tmp_path)) == -signal.SIGKILL
    assert (record(tmp_path)["code"], judge(found, Job("ended")).state) == (137, "timed-out")


def test_what_a_script_leaves_behind_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_job, "STOP_SECONDS", 0.5)
    run(
        tmp_path,
        "sleep 61 & echo $! > soft\n(trap '' TERM; echo $BASHPID > hard; while :; do sleep 0.1; done) &\nwhile [ ! -s hard ]; do sleep 0.05; done",
    )
    run_script(str(tmp_path))
    for name in ("soft", "hard"):
        pid = int((tmp_path / name).read_text())
        until(lambda pid=pid: alive({**identity(pid)}) is False)


# --- cancel ---


def test_cancel_asks_the_script_to_end(tmp_path: Path, keeper: subprocess.Popen[bytes]) -> None:
    found = run(tmp_path)
    (tmp_path / PROCESS_FILE).write_text(json.dumps(identity(keeper.pid)))
    local.cancel(found, HERE)
    assert keeper.wait(timeout=10) == -signal.SIGTERM
    assert json.loads((tmp_path / CANCEL_FILE).read_text())["by"] == os.getuid()
    local.cancel(found, HERE)


def test_cancel_never_touches_a_process_that_only_has_the_number(
    tmp_path: Path, keeper: subprocess.Popen[bytes]
) -> None:
    found = run(tmp_path)
    for change in ({"ticks": 1}, {"boot": "before"}, {"host": "elsewhere"}):
        (tmp_path / PROCESS_FILE).write_text(json.dumps({**identity(keeper.pid), **change}))
        local.cancel(found, HERE)
    for damaged in ("", "[]", "{"):
        (tmp_path / PROCESS_FILE).write_text(damaged)
        local.cancel(found, HERE)
    assert keeper.poll() is None


# --- submit ---


def test_a_submitted_run_outlives_its_submitter_and_is_judged_by_its_end(tmp_path: Path) -> None:
    found = run(tmp_path, "until [ -e go ]; do sleep 0.05; done; exit 7")
    script = f"import sys; sys.path[:0] = {sys.path!r}\nfrom schedulers import test_local as t; from pathlib import Path\nt.local.submit(t.read_run(Path({str(tmp_path)!r})), t.HERE, t.Wishes())"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    submitted = read_run(tmp_path)
    assert submitted is not None and submitted.job is not None and state(submitted) == "running"
    (tmp_path / "go").touch()
    until(lambda: local.jobs([submitted], HERE)[found.id] == Job("ended"))
    assert judge(submitted, Job("ended")).code == 7


def test_a_keeper_that_does_not_start_is_the_schedulers_fault(tmp_path: Path) -> None:
    found = run(tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(SchedulerError, match=r"^the job's keeper did not start: "):
        local.submit(found, HERE, Wishes())
    assert not (tmp_path / "job.json").exists()


@pytest.mark.parametrize(
    ("wishes", "option"),
    [(lambda run: Wishes(hold=True), "--hold"), (lambda run: Wishes(after=run), "--after")],
)
def test_there_is_no_queue_here(tmp_path: Path, wishes: Callable[[Run], Wishes], option: str) -> None:
    with pytest.raises(SiteError) as caught:
        local.check(HERE, "", wishes(run(tmp_path)))
    assert whats(caught) == [f"this site has no queue for `{option}`"]
    assert local.check(HERE, "", Wishes()) == []


def test_the_sites_scheduler() -> None:
    assert scheduler(HERE) is local
    assert scheduler(site()).__name__ == "tuneplane.schedulers.slurm"  # type: ignore[attr-defined]
