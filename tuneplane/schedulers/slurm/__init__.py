"""Slurm, through its own commands and no other way in."""

from tuneplane.schedulers.slurm.cancel import cancel
from tuneplane.schedulers.slurm.kept import kept
from tuneplane.schedulers.slurm.limits import check
from tuneplane.schedulers.slurm.query import everyone, jobs
from tuneplane.schedulers.slurm.submit import submit

__all__ = ["cancel", "check", "everyone", "jobs", "kept", "submit"]
