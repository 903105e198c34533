"""A user's files and another method's starter in one experiment: an edited file is never written over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tuneplane.experiment.difference import Starter
from tuneplane.experiment.snapshot import FrozenFile, Snapshot, places_of
from tuneplane.experiment.starter import Move
from tuneplane.files import sha256


def merged_files(
    mine: Snapshot, starter: Mapping[str, tuple[bytes, bool]], known: Iterable[Starter]
) -> tuple[Snapshot, list[Move]]:
    """The files of both, and what became of each that both have.

    known: the starters that an unedited file can be from; such a file makes way for that of the new starter. The new
    one of an edited file stands beside it as NAME.new.
    """
    files = {file.path: file for file in mine.files}
    published = {(path, entry[0]) for each in known for path, entry in each.items()}
    moves = []

    def unedited(path: str, name: str) -> bool:
        """Whether `name` is a file that a starter published as `path`."""
        there = files.get(name)
        return there is not None and not there.target and (path, sha256(there.data)) in published

    for path, (data, runs) in sorted(starter.items()):
        there, folders = files.get(path), places_of(files)
        if there is None and (path in folders or any(above in files for above in places_of([path]) - {path})):
            moves.append(Move(path, "left", "something else is in the way of the starter's"))
        elif there is None:
            files[path] = FrozenFile(path, data, runs)
        elif there.target or (there.data != data and not unedited(path, path)):
            beside = next(name for name in _names(path) if name not in folders or unedited(path, name))
            files[beside] = FrozenFile(beside, data, runs)
            moves.append(Move(path, "kept", f"it is yours; the starter's is {beside}"))
        elif there.data != data:
            files[path] = FrozenFile(path, data, runs)
            moves.append(Move(path, "replaced", "it had not been edited"))
    return Snapshot(tuple(sorted(files.values(), key=lambda file: file.path.encode()))), moves


def _names(path: str) -> Iterable[str]:
    return (f"{path}.new", *(f"{path}.new.{i}" for i in range(2, 10**4)))
