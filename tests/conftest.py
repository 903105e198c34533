"""What holds for all tests: where built things are kept is settled before any test gives itself another home."""

from __future__ import annotations

import os
from pathlib import Path

_base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
os.environ.setdefault("TUNEPLANE_TEST_CACHE", str(Path(_base, "tuneplane-tests")))

pytest_plugins = ["torch_python"]


def _no_deadlines() -> None:
    """A busy machine makes any example slow; pytest's own time is the limit."""
    from hypothesis import settings

    settings.register_profile("tuneplane", deadline=None)
    settings.load_profile("tuneplane")


_no_deadlines()
