"""Runs in the queue that name an image."""

from __future__ import annotations

from pathlib import Path

from tuneplane.files import read_json
from tuneplane.runs.folder import RUN_FILE
from tuneplane.schedulers import scheduler
from tuneplane.sites.model import Site


def naming(site: Site, sha256: str) -> tuple[list[str], int]:
    """`RUN of USER, job ID` of everybody's jobs that start the image, and how many jobs' runs cannot be read.

    Raises SchedulerError when the scheduler does not say what is in its queue.
    """
    found, hidden = [], 0
    for job in scheduler(site).everyone(site):
        record = Path(job.folder, RUN_FILE)
        try:
            record.stat()
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        run = read_json(record)
        if run is None:
            hidden += 1
        elif isinstance(run, dict) and ((run.get("plan") or {}).get("image") or {}).get("sha256") == sha256:
            found.append(f"{record.parent.name} of {job.user}, job {job.id}")
    return sorted(found), hidden
