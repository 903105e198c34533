"""From an experiment to a job: everything is checked, then frozen, then handed over."""

from __future__ import annotations

from tuneplane.plan.build import Request
from tuneplane.prepare import prepare
from tuneplane.render.script import render
from tuneplane.runs.folder import Run, create, read_run
from tuneplane.schedulers import scheduler


def submit(word: str, site_name: str | None, request: Request) -> Run:
    """Submit the experiment `word` and return its run. Raises what is wrong before anything is written.

    A scheduler that refuses leaves the run folder, which then says that no job was made from it.
    """
    prepared = prepare(word, site_name, request)
    prepared.insist()
    site = prepared.named_site.site
    script = render(prepared.plan, site)
    driver = scheduler(site)
    run = create(site, prepared.plan, script, prepared.files, prepared.helper)
    driver.submit(run, site)
    return read_run(run.folder) or run
