"""From an experiment to a job: everything is checked, then frozen, then handed over."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.experiment.journal import View
from tuneplane.plan.inputs import Request
from tuneplane.prepare import Prepared, prepare
from tuneplane.render.script import render
from tuneplane.runs.folder import Run, create, read_run
from tuneplane.schedulers import Wishes, scheduler
from tuneplane.sites.load import NamedSite


@dataclass(frozen=True)
class Ready:
    """A submission of which all is known but that it happened. notes: what the scheduler says of it."""

    prepared: Prepared
    script: str
    notes: list[str]


def ready(
    word: str,
    named_site: NamedSite,
    request: Request,
    wishes: Wishes,
    language: str = "en",
    instead: View | None = None,
) -> Ready:
    """Check everything that can be known before the queue. Raises what is wrong; nothing has been written then.

    instead: files of the experiment as they would be, in place of those that are there.
    """
    prepared = prepare(word, named_site, request, language, instead)
    prepared.insist()
    site = prepared.named_site.site
    script = render(prepared.plan, site)
    return Ready(prepared, script, scheduler(site).check(site, script, wishes))


def submit(checked: Ready, wishes: Wishes) -> Run:
    """Write the run folder and hand it over. Raises SchedulerError; the run folder then says how that went."""
    prepared = checked.prepared
    site = prepared.named_site.site
    run = create(site, prepared.plan, checked.script, prepared.files, prepared.helper, prepared.admitted)
    scheduler(site).submit(run, site, wishes)
    return read_run(run.folder) or run
