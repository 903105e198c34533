"""One act of an admin, as a process that can be killed: `registrar.py ROOT WORD… [without-links]`.

The words are those of `tp runtime` behind the site: `register ID FILE --no-probe`, `retire ID`, `undo ID`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

if __name__ == "__main__":
    from tuneplane.cli.main import run

    words = sys.argv[1:]
    if words[-1] == "without-links":
        words.pop()
        os.link = lambda *_: os.stat("")  # type: ignore[assignment]
    sys.exit(run(words))
