"""A user's files and another method's starter in one experiment."""

from __future__ import annotations

from tuneplane.experiment.merging import merged_files
from tuneplane.experiment.snapshot import FrozenFile, Snapshot
from tuneplane.files import sha256


def merged(
    mine: dict[str, str], starter: dict[str, str], known: dict[str, str], *links: FrozenFile
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What the files are then, and what became of those that both have."""
    snapshot = Snapshot.of({path: text.encode() for path, text in mine.items()})
    published = {path: (sha256(text.encode()), False) for path, text in known.items()}
    new = {path: (text.encode(), path.endswith(".sh")) for path, text in starter.items()}
    made, moves = merged_files(Snapshot((*snapshot.files, *links)), new, [published])
    assert [file.path for file in made.files] == sorted(file.path for file in made.files)
    assert all(file.executable for file in made.files if file.path.endswith(".sh") and file.path in starter)
    return {file.path: file.target or file.data.decode() for file in made.files}, [
        (move.file, move.how) for move in moves
    ]


def test_files_of_the_starter_join_those_of_the_user() -> None:
    assert merged({"a": "mine"}, {"b": "new", "c/d.sh": "new"}, {}) == (
        {"a": "mine", "b": "new", "c/d.sh": "new"},
        [],
    )


def test_an_unedited_file_makes_way_and_an_edited_one_stays() -> None:
    assert merged({"a": "old", "b": "edited", "c": "new"}, {"a": "new", "b": "new", "c": "new"}, {"a": "old", "b": "old"}) == (
        {"a": "new", "b": "edited", "b.new": "new", "c": "new"},
        [("a", "replaced"), ("b", "kept")],
    )  # fmt: skip
    assert merged({"a": "old", "a.new": "x", "a.new.2/b": "y"}, {"a": "new"}, {}) == (
        {"a": "old", "a.new": "x", "a.new.2/b": "y", "a.new.3": "new"},
        [("a", "kept")],
    )


def test_what_an_earlier_starter_left_beside_makes_way() -> None:
    assert merged({"a": "mine", "a.new": "old"}, {"a": "new"}, {"a": "old"}) == (
        {"a": "mine", "a.new": "new"},
        [("a", "kept")],
    )


def test_an_unedited_file_without_successor_stays() -> None:
    assert merged({"a": "old"}, {}, {"a": "old"}) == ({"a": "old"}, [])


def test_what_is_in_the_way() -> None:
    assert merged({"a": "file", "b/c": "file"}, {"a/x": "new", "b": "new"}, {}) == (
        {"a": "file", "b/c": "file"},
        [("a/x", "left"), ("b", "left")],
    )
    link = FrozenFile("l", target="a")
    assert merged({"a": "x"}, {"l": "new"}, {}, link) == (
        {"a": "x", "l": "a", "l.new": "new"},
        [("l", "kept")],
    )
