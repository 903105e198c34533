"""tuneplane: post-training recipes compiled into one auditable sbatch script.

This file also rides into containers beside `tuneplane.report` and `tuneplane.job`, so it imports nothing
and runs on Python 3.8.
"""

__version__ = "0.1.0"
