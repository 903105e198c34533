"""Run by path, so that `sys.path[0]` is this folder and nothing in the user's folder can stand before it."""

import os
import sys

# What the user's PYTHONPATH names comes before the standard library; the supervisor must not read it.
_theirs = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
sys.path[1:] = [entry for entry in sys.path[1:] if os.path.abspath(entry) not in _theirs]

from tuneplane.job.main import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
