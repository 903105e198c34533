"""The helper that rides into the job: one supervisor per node.

Standard library only, Python 3.8 and newer, and no import of the rest of the package. A submission copies
this folder into the run as `helper/tuneplane/job/`, beside `helper/start` and `helper/supervise.py`.
"""
