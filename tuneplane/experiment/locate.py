"""Finding an experiment by folder or name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tuneplane.errors import InputError, nearest, shown
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.visible import visible

LOCK_FILE = "recipe.lock.json"
MAX_NAME_BYTES = 100


@dataclass(frozen=True)
class Experiment:
    """An experiment's folder. `folder` is absolute with links resolved; `label` is how messages call it."""

    name: str
    folder: Path
    label: str


def check_name(name: str) -> None:
    """Raises InputError for a name that could not stand in a path, a directive or a message as it is."""
    bad = (
        not name or not visible(name) or "/" in name or name[0] in "-." or len(name.encode()) > MAX_NAME_BYTES
    )
    if bad:
        expected = (
            f"printable characters without `/`, at most {MAX_NAME_BYTES} bytes, not starting with `-` or `.`"
        )
        raise InputError.of(f"{shown(name)} cannot name an experiment", expected=expected)


def experiment_names() -> list[str]:
    """Experiments that can be named from the current folder."""
    places = [Path("."), Path("experiments")]
    return sorted({file.parent.name for place in places for file in place.glob(f"*/{LOCK_FILE}")})


def find_experiment(word: str) -> Experiment:
    """The experiment called `word`: a folder, or a name in the current folder or its `experiments/`.

    Raises InputError when there is none or it lacks one of its two files.
    """
    candidates = [Path(word)] if "/" in word else [Path(word), Path("experiments", word)]
    for candidate in candidates:
        if (candidate / CONFIG_FILE).is_file() or (candidate / LOCK_FILE).is_file():
            break
    else:
        close = nearest(word, experiment_names())
        folder = next((c for c in candidates if c.is_dir()), None)
        what = f"{shown(word)} is not an experiment" if folder else f"there is no experiment {shown(word)}"
        raise InputError.of(
            what + (f", did you mean `{close}`?" if close else ""),
            expected=f"a folder with {CONFIG_FILE} and {LOCK_FILE}",
            hint="tp new NAME --method METHOD",
        )
    for file in (CONFIG_FILE, LOCK_FILE):
        if not (candidate / file).is_file():
            raise InputError.of(f"{shown(str(candidate))} has no {file}", hint="tp new NAME --method METHOD")
    folder = Path(os.path.realpath(candidate))
    check_name(folder.name)
    return Experiment(folder.name, folder, str(candidate))
