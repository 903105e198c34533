"""Where a path that a user wrote leads: into the frozen copy, below the job's own home, or to where it lies."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tuneplane.plan.model import Ref, Value


def path_value(experiment_dir: str, frozen: Iterable[str], text: str, prefix: str = "") -> Value:
    """The frozen copy of a file or folder of the experiment; any other path where it lies.

    experiment_dir: absolute, relative paths belong to it; frozen: paths of the frozen files below it; prefix: text of
    the same word before the path.
    """
    if text.startswith("~/"):
        return Ref("home", text[1:], prefix)
    path = posixpath.normpath(posixpath.join(experiment_dir, text))
    if path == experiment_dir:
        return Ref("files", "", prefix)
    inside = posixpath.relpath(path, experiment_dir)
    if any(file == inside or file.startswith(f"{inside}/") for file in frozen):
        return Ref("files", f"/{inside}", prefix)
    return prefix + path
