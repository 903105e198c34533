"""What is audited: the script as Slurm has it, as a run folder has it, or a copy of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuneplane.audit.compare import differences
from tuneplane.audit.model import Difference
from tuneplane.documents.text import read_data
from tuneplane.errors import InputError, shown
from tuneplane.files import read_json
from tuneplane.runs.folder import JOB_FILE, RUN_FILE, SCRIPT_FILE, find_run, runs_folder
from tuneplane.schedulers import scheduler
from tuneplane.sites.model import Site

MAX_SCRIPT_BYTES = 16 << 20


@dataclass(frozen=True)
class Subject:
    """The script and where it is from. folder: the run's, None for a copy; record: its `run.json`, whatever it holds;
    found: how the run folder's script differs from the scheduler's.
    """

    script: str
    source: str
    folder: Path | None = None
    record: Any = None
    found: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def subject(word: str, site: Site) -> Subject:
    """The run of that id or folder, or the script in that file. Raises InputError when it is none of these."""
    if os.path.isfile(word):
        file = Path(os.path.abspath(word))
        if file.name == SCRIPT_FILE and (file.parent / RUN_FILE).is_file():
            return _of_run(file.parent, site)
        return Subject(text_of(read_data(file, word, MAX_SCRIPT_BYTES)), str(file))
    return _of_run(_folder(word, site), site)


def text_of(data: bytes) -> str:
    """The bytes as text that holds every one of them."""
    return data.decode("utf-8", "surrogateescape")


def _folder(word: str, site: Site) -> Path:
    """The run's folder, also without its record: that is the submitter's, and may be gone."""
    place = Path(os.path.abspath(word)) if "/" in word else runs_folder(site) / word
    if os.path.lexists(place / SCRIPT_FILE) or os.path.lexists(place / RUN_FILE):
        return place
    if "/" in word:
        raise InputError.of(f"{shown(word, 300)} is neither a run folder nor a script", hint="tp job ls")
    return find_run(site, word).folder


def _of_run(folder: Path, site: Site) -> Subject:
    file, job = folder / SCRIPT_FILE, read_json(folder / JOB_FILE)
    kept = scheduler(site).kept(folder, job if isinstance(job, dict) else {}, site)
    notes = [kept.note] if kept.note else []
    made = Subject("", str(file), folder, read_json(folder / RUN_FILE), notes=notes)
    if not kept.scripts:
        return replace(made, script=text_of(read_data(file, str(file), MAX_SCRIPT_BYTES)))
    number, *others = sorted(kept.scripts, key=lambda number: (number != str((job or {}).get("id")), number))
    script = text_of(kept.scripts[number])
    found = _beside(script, file)
    for other in others:
        found += _renamed(differences(script, text_of(kept.scripts[other])), f"job {other}")
    return replace(made, script=script, source=f"Slurm's copy of job {number}", found=found)


def _beside(script: str, file: Path) -> list[Difference]:
    """How the run folder's script differs from the one that Slurm took."""
    try:
        own = text_of(read_data(file, SCRIPT_FILE, MAX_SCRIPT_BYTES))
    except InputError:
        return [Difference(SCRIPT_FILE, "in the run folder", "the script that Slurm has", None)]
    return _renamed(differences(script, own), SCRIPT_FILE)


def _renamed(found: list[Difference], kind: str) -> list[Difference]:
    return [
        replace(difference, kind=kind, where=f"{difference.kind}, {difference.where}") for difference in found
    ]
