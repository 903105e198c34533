"""Runs as a process of its own: starts submitit's local executor, which keeps the job script to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

from tuneplane.files import read_json, write_json
from tuneplane.runs.folder import SCRIPT_FILE, read_run
from tuneplane.schedulers.processes import identity

PROCESS_FILE = "process.json"
_KEEPERS = frozenset({"PYTHONPATH"})
STOP_SECONDS = 30
"""How long a job that was told to end may take, as Slurm's KillWait has it."""


def run_script(folder: str) -> int:
    """Run the script of the run folder to its end, within its time limit; returns its exit status."""
    path = Path(folder)
    run = read_run(path)
    if run is None:
        raise RuntimeError(f"{folder} is not a run folder")
    environment = {name: value for name, value in os.environ.items() if name not in _KEEPERS}
    script = subprocess.Popen(
        ["/bin/bash", "-p", SCRIPT_FILE],
        cwd=path,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    write_json(path / PROCESS_FILE, identity(script.pid))
    timed_out = False
    try:
        code = script.wait(timeout=run.plan["seconds"])
    except subprocess.TimeoutExpired:
        timed_out = True
        script.terminate()
        try:
            code = script.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            script.kill()
            code = script.wait()
    _sweep(script.pid)
    _record(path, code, timed_out)
    return code


def _sweep(session: int) -> None:
    """End what the script left behind in its session."""
    for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 1)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                os.killpg(session, number if deadline - time.monotonic() > patience - 0.05 else 0)
            except OSError:
                return
            time.sleep(0.05)


def _record(folder: Path, code: int, timed_out: bool) -> None:
    """The attempt's exit record where the script could not leave one, or knew nothing of the time limit."""
    run = read_run(folder)
    attempts = run.attempts() if run else []
    if not attempts:
        return
    file = attempts[-1] / "exit.json"
    record = read_json(file)
    if record is None:
        status = 128 - code if code < 0 else code
        name = signal.Signals(-code).name if code < 0 else ""
        record = {
            "attempt": int(attempts[-1].name),
            "code": status,
            "decided_by": "killed" if name else "script",
            "signal": name,
            "ended": int(time.time()),
        }
    elif not timed_out:
        return
    if timed_out:
        record["decided_by"] = "time limit"
    write_json(file, record)


def _keep(folder: str) -> int:
    """Hand the run to submitit and print who keeps it."""
    import submitit

    answer = _let_go()
    logs = Path(folder, "keeper")
    executor = submitit.LocalExecutor(folder=logs)
    run = read_run(Path(folder))
    assert run is not None
    gpus = run.plan["topology"]["gpus_per_node"]
    # the time limit is kept by run_script, which lets the job leave its record; submitit's is a backstop
    executor.update_parameters(
        timeout_min=run.plan["seconds"] / 60 + 10, gpus_per_node=gpus, stderr_to_stdout=True
    )
    job = executor.submit(run_script, folder)
    answer.write(json.dumps(identity(int(job.job_id))))
    answer.close()
    return 0


def _let_go() -> TextIO:
    """Standard output for this process alone, as is standard error: the keeper would hold them open to the job's
    end, and whoever submits reads them to their end."""
    answer, sys.stderr = (os.fdopen(os.dup(number), "w") for number in (1, 2))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    return answer


if __name__ == "__main__":
    from tuneplane.schedulers.local_job import _keep as keep

    sys.exit(keep(sys.argv[1]))
