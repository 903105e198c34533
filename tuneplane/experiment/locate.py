"""Finding an experiment by folder or name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tuneplane.documents.text import read_data
from tuneplane.errors import InputError, nearest, shown
from tuneplane.experiment.config import CONFIG_FILE
from tuneplane.experiment.journal import NAME as JOURNAL
from tuneplane.experiment.journal import recovered
from tuneplane.visible import visible

LOCK_FILE = "recipe.lock.json"
MAX_NAME_BYTES = 100
_TRIES = 5


@dataclass(frozen=True)
class Experiment:
    """An experiment's folder. `folder` is absolute with links resolved; `label` is how messages call it.

    notes: what became of an upgrade that had been interrupted there.
    """

    name: str
    folder: Path
    label: str
    notes: tuple[str, ...] = field(default=(), compare=False)

    def read(self, file: str) -> bytes:
        """A file of the folder as it is in force. Raises InputError."""
        name = f"{self.label}/{file}"
        for attempt in range(_TRIES):
            view = recovered(self.folder).view
            if file in view:
                there = view[file]
                if there is None:
                    raise InputError.of(f"cannot read {shown(name, 400)}: No such file or directory")
                return there.data
            try:
                return read_data(self.folder / file, name)
            except InputError:
                # an upgrade that has begun just now may have moved it aside
                if attempt and not os.path.lexists(self.folder / JOURNAL):
                    raise
        return read_data(self.folder / file, name)


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
    signs = (LOCK_FILE, JOURNAL)
    return sorted(
        {file.parent.name for place in places for sign in signs for file in place.glob(f"*/{sign}")}
    )


def find_experiment(word: str) -> Experiment:
    """The experiment called `word`: a folder, or a name in the current folder or its `experiments/`.

    What an interrupted upgrade left there is put right first. Raises InputError when there is none or it lacks one of
    its two files.
    """
    candidates = [Path(word)] if "/" in word else [Path(word), Path("experiments", word)]
    for candidate in candidates:
        if any(os.path.isfile(candidate / file) for file in (CONFIG_FILE, LOCK_FILE)) or os.path.isdir(
            candidate / JOURNAL
        ):
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
    folder = Path(os.path.realpath(candidate))
    notes: list[str] = []
    for attempt in range(_TRIES):
        found = recovered(folder)
        notes += found.notes
        files = (CONFIG_FILE, LOCK_FILE)
        missing = [file for file in files if not found.view.get(file) and not (candidate / file).is_file()]
        # an upgrade that has begun just now may have moved one aside
        if not missing or (attempt and not os.path.lexists(folder / JOURNAL)):
            break
    if missing:
        raise InputError.of(
            f"{shown(str(candidate))} has no {missing[0]}", hint="tp new NAME --method METHOD"
        )
    check_name(folder.name)
    return Experiment(folder.name, folder, str(candidate), tuple(notes))
