"""Where the folders that ship with the package lie: inside it in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path


def bundled(name: str) -> Path:
    """The shipped folder `name` (`recipes`, `templates` or `site-configs`)."""
    package = Path(__file__).resolve().parent
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent / name
