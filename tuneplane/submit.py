"""From an experiment to a job: everything is checked, then frozen, then handed over."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.plan.build import Request
from tuneplane.prepare import Prepared, prepare
from tuneplane.render.script import render
from tuneplane.runs.folder import Run, create, read_run
from tuneplane.schedulers import Wishes, scheduler


@dataclass(frozen=True)
class Ready:
    """A submission of which all is known but that it happened. notes: what the scheduler says of it."""

    prepared: Prepared
    script: str
    notes: list[str]


def ready(word: str, site_name: str | None, request: Request, wishes: Wishes, language: str = "en") -> Ready:
    """Check everything that can be known before the queue. Raises what is wrong; nothing has been written then."""
    prepared = prepare(word, site_name, request, language)
    prepared.insist()
    site = prepared.named_site.site
    script = render(prepared.plan, site)
    return Ready(prepared, script, scheduler(site).check(site, script, wishes))


def submit(checked: Ready, wishes: Wishes) -> Run:
    """Write the run folder and hand it over. Raises SchedulerError; the run folder then says how that went."""
    prepared = checked.prepared
    site = prepared.named_site.site
    run = create(site, prepared.plan, checked.script, prepared.files, prepared.helper)
    scheduler(site).submit(run, site, wishes)
    return read_run(run.folder) or run
