"""How a run comes back after its time limit, a preemption or a lost node, as recipe and site let it."""

from __future__ import annotations

import posixpath

from tuneplane.catalog.recipe import Recipe
from tuneplane.durations import parse_duration
from tuneplane.plan.model import Resume
from tuneplane.sites.model import Site


def comes_back(site: Site, recipe: Recipe) -> tuple[Resume | None, str]:
    """How the run resumes, or None and why it does not."""
    checkpoints, requeue = recipe.checkpoints, site.requeue
    if checkpoints is None or checkpoints.resume == "none":
        return None, f"{recipe.name} does not resume"
    if site.scheduler != "slurm" or requeue.policy == "none":
        return None, "the site does not start runs again"
    before, _, after = checkpoints.pattern.partition("{step}")
    complete, pointer = checkpoints.complete, checkpoints.pointer
    start, _, end = pointer.text.partition("{step}") if pointer else ("", "", "")
    made = Resume(
        before=before,
        after=after,
        file=complete.file if complete else "",
        tracker=complete.tracker if complete else "",
        pointer=(pointer.file, start, end) if pointer else None,
        pointed=(posixpath.dirname(before), *pointer.beside) if pointer else (),
        stopped=checkpoints.warning.stopped,
        policy=requeue.policy,
        attempts=requeue.attempts,
        on=tuple(requeue.on),
    )
    return made, ""


def warning(site: Site, recipe: Recipe, resume: Resume | None, seconds: int) -> tuple[str, int] | None:
    """Signal and seconds before the time limit, at most half of it; None where nobody listens."""
    told = recipe.checkpoints is not None and recipe.checkpoints.warning.tell != "none"
    if site.scheduler != "slurm" or (resume is None and not told):
        return None
    return site.requeue.signal, max(1, min(parse_duration(site.requeue.warning), seconds // 2, 65535))
