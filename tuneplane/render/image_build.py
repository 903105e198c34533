"""Build plan → the build script."""

from __future__ import annotations

from typing import Any

from tuneplane import __version__
from tuneplane.plan.image_build import IMAGE_PART, ImageBuild
from tuneplane.plan.paths import site_path
from tuneplane.render.templates import filled
from tuneplane.sites.model import Site


def render(plan: ImageBuild, site: Site) -> str:
    """The script's text. Raises InputError for a value that no script can hold, SiteError above the site's size."""
    return filled("build.sbatch.j2", _context(plan, site), site.slurm.max_script_size)


def _context(plan: ImageBuild, site: Site) -> dict[str, Any]:
    return {
        "plan": plan,
        "version": __version__,
        "path": ":".join(site.path),
        "environment": sorted(site.environment.items()),
        "setup": site.setup if plan.scheduler == "slurm" else [],
        "scratch": site_path(site.folders.scratch),
        "part": IMAGE_PART,
    }
