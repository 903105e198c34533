"""One act of a publisher, as a process that can be killed: `publisher.py ROOT refresh WORD | rollback | gc`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

if __name__ == "__main__":
    from registry.shelves import DAY, content

    from tuneplane.registry.layout import Registry
    from tuneplane.registry.refresh import refresh, rollback
    from tuneplane.registry.removal import collect

    registry, act = Registry(Path(sys.argv[1])), sys.argv[2]
    if sys.argv[3:] == ["without-links"]:
        import os

        os.link = lambda *_: os.stat("")  # type: ignore[assignment]
    if act == "rollback":
        rollback(registry, None)
    elif act == "gc":
        collect(registry, 60 * DAY)
    else:
        refresh(registry, content(act))
