"""A real Slurm cluster for tests; see `cluster.py`."""

from .cluster import Cluster
from .config import ClusterSpec
from .tools import HarnessError

__all__ = ["Cluster", "ClusterSpec", "HarnessError"]
