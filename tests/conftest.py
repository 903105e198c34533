"""What holds for all tests: where built things are kept is settled before any test gives itself another home."""

from __future__ import annotations

import os
from pathlib import Path

_base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
os.environ.setdefault("TUNEPLANE_TEST_CACHE", str(Path(_base, "tuneplane-tests")))
