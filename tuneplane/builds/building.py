"""Building and importing: an image is made in a work folder and given its name.

An Apptainer site gets a SIF, a pyxis or Enroot site the SquashFS that lies in one.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tuneplane.builds import workshop
from tuneplane.builds.faults import failed, last_lines
from tuneplane.builds.orders import Order, Where, wanted_format
from tuneplane.builds.running import Tell, run_as_job, run_here
from tuneplane.files import read_json
from tuneplane.plan.image_build import DEFINITION_FILE
from tuneplane.render.image_build import render
from tuneplane.runs.folder import JOB_FILE, SCRIPT_FILE, SUBMISSION_FILE, Run
from tuneplane.runtimes.formats import architecture, facts_of
from tuneplane.schedulers import Wishes, scheduler
from tuneplane.sites.kinds import SIF, SQSH
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Made:
    """A whole image under its final name. arch: as `uname -m` says it, empty where the file does not tell."""

    file: Path
    arch: str
    built: dict[str, str]


def carry_out(named_site: NamedSite, order: Order, where: Where, tell: Tell) -> Made:
    """Make the image. Its work folder is removed, and kept when something went wrong.

    Raises ImageError with why it was not made, SiteError, SchedulerError.
    """
    site = named_site.site
    script = render(order.plan, site)
    if where.job:
        for text in scheduler(site).check(site, script, Wishes()):
            tell(text)
    images = workshop.images_folder(site)
    for text in workshop.sweep(images, order.runtime_id, lambda folder: _waits(folder, site)):
        tell(text)
    files = {SCRIPT_FILE: script.encode()}
    if order.definition is not None:
        files[DEFINITION_FILE] = order.definition
    work = workshop.claim(images, order.runtime_id, files)
    code = run_as_job(work, site, tell) if where.job else run_here(work, tell)
    if code or not (work / workshop.RESULT_FILE).is_file():
        log = workshop.log_of(work)
        for line in last_lines(log):
            tell(f"log: {line}")
        raise failed(order.runtime_id, code, log, work)
    try:
        made = _finished(work, images, order, site)
    except BaseException:
        tell(f"the image was made: {workshop.left_over(work, order.runtime_id)}")
        raise
    shutil.rmtree(work, ignore_errors=True)
    return made


def _waits(folder: Path, site: Site) -> bool:
    """Whether a job may work in the folder yet; yes when Slurm does not answer."""
    if site.scheduler != "slurm":
        return False
    run = Run(folder, {}, read_json(folder / JOB_FILE), read_json(folder / SUBMISSION_FILE) or {})
    job = scheduler(site).jobs([run], site)[run.id]
    return job.state in ("queued", "running") or not job.asked


def _finished(work: Path, images: Path, order: Order, site: Site) -> Made:
    """The image in the site's format, under its final name."""
    result = work / workshop.RESULT_FILE
    facts = facts_of(result)
    built, arch = dict(order.built), facts.arch
    if facts.format == SIF and wanted_format(site) == SQSH:
        # what the SIF says of itself would be lost with it
        built = {**facts.built, **facts.labels, **built}
        workshop.cut(result, facts, work / "image.sqsh")
        result = work / "image.sqsh"
    suffix = facts_of(result).format
    name_arch = arch or architecture(result) or os.uname().machine
    final = workshop.keep(result, images, f"{order.runtime_id}-{name_arch}", suffix)
    return Made(final, arch, built)
