"""Slurm, through its own commands and no other way in."""

from tuneplane.schedulers.slurm.cancel import cancel
from tuneplane.schedulers.slurm.kept import kept
from tuneplane.schedulers.slurm.limits import check
from tuneplane.schedulers.slurm.query import explained, jobs
from tuneplane.schedulers.slurm.requeue import again, requeue
from tuneplane.schedulers.slurm.rows import everyone
from tuneplane.schedulers.slurm.submit import submit

__all__ = ["again", "cancel", "check", "everyone", "explained", "jobs", "kept", "requeue", "submit"]
