"""Where models and data sets lie: paths as they are, Hub ids in the site's model cache."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tuneplane.errors import shown
from tuneplane.experiment.config import Located, Written
from tuneplane.experiment.hub import Missing, looks_like_hub_id, resolve

_DATA_SUFFIXES = (".parquet", ".json", ".jsonl", ".csv", ".arrow", ".txt", ".yaml", ".gz", ".zst")


def locate(key: str, item: Written, folder: Path, cache: str) -> Located:
    """A model or data set named in `item`.

    folder: the experiment's, to which relative paths belong; cache: the site's model cache (`HF_HOME`), empty when
    the site has none. A text that is an existing path is that path; `org/name[@revision]` else is a Hub id.
    """
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(item.text)))
    if os.path.exists(path) or not may_be_hub_id(item.text):
        return locate_path(key, item, path)
    return _from_hub(key, item, cache)


def may_be_hub_id(text: str) -> bool:
    """Whether a text that is no existing path is taken for a Hub id."""
    explicit = text.startswith(("/", "./", "../", "~")) or text.endswith(_DATA_SUFFIXES)
    return not explicit and looks_like_hub_id(text)


def locate_path(key: str, item: Written, path: str) -> Located:
    """What lies at the absolute `path` that `item` names."""
    found = at_path(key, item, path, os.path.exists(path))
    return replace(found, real=os.path.realpath(path)) if found.exists else found


def at_path(key: str, item: Written, path: str, exists: bool) -> Located:
    """A path of which it is known whether it exists."""
    missing = "" if exists else f"{key} does not exist: {shown(path, 400)}"
    return Located(key, item.text, path, exists, mount=path, where=item.where, missing=missing)


def _from_hub(key: str, item: Written, cache: str) -> Located:
    hub = Path(cache, "hub")
    if not cache:
        missing = f"{key} {shown(item.text)} is a Hub id, and the site names no model cache"
        return Located(key, item.text, None, False, where=item.where, missing=missing)
    found = resolve(item.text, kind="model" if key == "model" else "dataset", cache=hub)
    if isinstance(found, Missing):
        missing, remedy = f"{key} {shown(item.text)} {found.reason}", found.download_command(hub)
        return Located(key, item.text, None, False, where=item.where, missing=missing, remedy=remedy)
    return in_hub(key, item, found.path, found.commit)


def in_hub(key: str, item: Written, snapshot: Path, commit: str) -> Located:
    """A repository of the Hub, at a commit whose files are in the folder `snapshot`."""
    return Located(
        key, item.text, str(snapshot), True, commit=commit, mount=str(snapshot.parents[1]), where=item.where
    )
