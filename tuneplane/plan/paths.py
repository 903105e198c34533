"""Where a path that a user wrote leads: into the frozen copy, below the job's own home, or to where it lies."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tuneplane.plan.model import Ref, Value


def site_path(text: str) -> Value | None:
    """A folder or file of the site file, as the job finds it: `~/` is its home, `{user}` its user. None for none.

    It says for the job what `sites.folders.place` says on the login node.
    """
    if text.startswith("~/"):
        return Ref("home", _for_user(text[1:]))
    return _for_user(text) if text else None


def _for_user(text: str) -> Value:
    before, found, after = text.partition("{user}")
    return Ref("user", _for_user(after), before) if found else text


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
