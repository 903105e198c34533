"""Run folders: one submission each, claimed by `mkdir` and written before the scheduler hears of it."""

from __future__ import annotations

import dataclasses
import getpass
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane.errors import InputError, SiteError, nearest, shown
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.files import read_json, write_json, write_whole
from tuneplane.plan.model import Plan
from tuneplane.sites.folders import place
from tuneplane.sites.model import Site

RUN_FILE, JOB_FILE, SCRIPT_FILE, CANCEL_FILE = "run.json", "job.json", "job.sbatch", "cancel.json"
REQUEUE_FILE, NEXT_FILE = "requeue.json", "job.next"
SUBMISSION_FILE = "submission.json"
SCHEMA = 1
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


@dataclass(frozen=True)
class Run:
    """A run folder.

    record: `run.json`; job: `job.json`, None until the scheduler has accepted it; submission: `submission.json`,
    how handing it over went where that is not plain.
    """

    folder: Path
    record: dict[str, Any]
    job: dict[str, Any] | None = None
    submission: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = self.record["plan"]
        return plan

    def attempts(self) -> list[Path]:
        """Folders of the attempts, the first first."""
        try:
            names = os.listdir(self.folder / "attempts")
        except OSError:
            return []
        return [
            self.folder / "attempts" / name for name in sorted((n for n in names if n.isdigit()), key=int)
        ]


def before(job: dict[str, Any] | None) -> dict[str, list[dict[str, Any]]]:
    """`earlier` of the next `job.json`: the jobs that the run has been, the first first; nothing for its first job."""
    if not job:
        return {}
    last = {key: value for key, value in job.items() if key != "earlier"}
    return {"earlier": [*job.get("earlier", []), last]}


def runs_folder(site: Site) -> Path:
    """The site's folder of this user's runs."""
    return Path(place(site, site.folders.runs))


def create(
    site: Site,
    plan: Plan,
    script: str,
    files: Snapshot,
    helper: Snapshot,
    admitted: dict[str, Any] | None = None,
) -> Run:
    """Claim a run folder and write everything a job needs. Raises SiteError; then nothing is left behind.

    admitted: registry, serial and digest the submission was admitted against.
    """
    root = runs_folder(site)
    mode = 0o700 if site.private_runs else 0o750
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = _claim(root, plan.provenance.experiment, mode)
    except OSError as error:
        raise SiteError.of(f"cannot make a run folder in {shown(str(root), 300)}: {error.strerror}") from None
    try:
        record = _fill(folder, plan, script, files, helper, admitted)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SiteError.of(
            f"cannot write the run folder {shown(str(folder), 300)}: {error.strerror}"
        ) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Run(folder, record)


def _claim(root: Path, experiment: str, mode: int) -> Path:
    while True:
        folder = root / f"{experiment}-{''.join(secrets.choice(_LETTERS) for _ in range(8))}"
        try:
            folder.mkdir(mode)
        except FileExistsError:
            continue
        folder.chmod(mode)
        return folder


def _fill(
    folder: Path,
    plan: Plan,
    script: str,
    files: Snapshot,
    helper: Snapshot,
    admitted: dict[str, Any] | None,
) -> dict[str, Any]:
    for name, snapshot in (("files", files), ("helper", helper)):
        snapshot.write(folder / name)
        write_whole(folder / f"{name}.sha256", snapshot.manifest, 0o440)
    (folder / "attempts").mkdir(0o750)
    (folder / "output").mkdir(0o750)
    write_whole(folder / SCRIPT_FILE, script.encode(), 0o640)
    record = {
        "schema": SCHEMA,
        "id": folder.name,
        "created": int(time.time()),
        "by": getpass.getuser(),
        "host": os.uname().nodename,
        "admitted": admitted,
        "left_out": [list(item) for item in files.left_out],
        "plan": dataclasses.asdict(plan),
    }
    write_json(folder / RUN_FILE, record)
    return record


def read_run(folder: Path) -> Run | None:
    """The run in `folder`, or None when it is none or was never finished."""
    record = read_json(folder / RUN_FILE)
    if (
        not isinstance(record, dict)
        or record.get("schema") != SCHEMA
        or not isinstance(record.get("plan"), dict)
    ):
        return None
    return with_job(Run(folder, record))


def with_job(run: Run) -> Run:
    """The run with what its `job.json` and `submission.json` say now."""
    job, submission = read_json(run.folder / JOB_FILE), read_json(run.folder / SUBMISSION_FILE)
    return dataclasses.replace(
        run,
        job=job if isinstance(job, dict) else None,
        submission=submission if isinstance(submission, dict) else {},
    )


def nodes_of(plan: dict[str, Any]) -> int:
    """All nodes of a run, those of its servers too."""
    pools = plan.get("pools") or [{"topology": plan["topology"]}]
    return sum(int(pool["topology"]["nodes"]) for pool in pools)


def run_ids(site: Site) -> list[str]:
    """Names of all run folders of this user at the site."""
    try:
        return sorted(entry.name for entry in os.scandir(runs_folder(site)) if entry.is_dir())
    except OSError:
        return []


def all_runs(site: Site) -> Iterator[Run]:
    """Every run of this user at the site, in no order."""
    root = runs_folder(site)
    for name in run_ids(site):
        if run := read_run(root / name):
            yield run


def find_run(site: Site, word: str) -> Run:
    """The run called `word`: its id, the beginning of one, or its folder. Raises InputError."""
    if "/" in word:
        run = read_run(Path(word).absolute())
        if run is None:
            raise InputError.of(f"{shown(word)} is not a run folder", hint="tp job ls")
        return run
    names = run_ids(site)
    matches = [word] if word in names else [name for name in names if name.startswith(word)]
    if len(matches) > 1:
        raise InputError.of(f"{shown(word)} could be {len(matches)} runs", expected=", ".join(matches[:5]))
    run = read_run(runs_folder(site) / matches[0]) if matches else None
    if run is None:
        close = nearest(word, names)
        raise InputError.of(
            f"there is no run {shown(word)}" + (f", did you mean `{close}`?" if close else ""),
            hint="tp job ls",
        )
    return run
