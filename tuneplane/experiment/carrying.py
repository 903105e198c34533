"""One journal, carried out by whoever holds its claim: see `journal`."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tuneplane.experiment.snapshot import FrozenFile, checked_name
from tuneplane.files import ABSENT, OTHER, content_of, sync, write_new

RECORD, NEW, ASIDE, UNDO, BACK = "journal.json", "new", "aside", "undo", "back"
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Lost(Exception):
    """Somebody else has taken the journal over, or it has ended."""


@dataclass(frozen=True)
class Entry:
    """One file. before, after: sha256 of its content, ABSENT for no file; folders: those that are made for it."""

    path: str
    before: str
    after: str
    mode: int
    folders: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Carrying:
    """A journal of the experiment in `folder` that lies in `place`, whose name is the claim."""

    folder: Path
    place: Path
    entries: tuple[Entry, ...]

    @staticmethod
    def read(folder: Path, place: Path) -> Carrying:
        """Raises Lost, OSError."""
        with unless_lost(place):
            text = (place / RECORD).read_bytes()
        try:
            entries = tuple(Entry(**fields) for fields in json.loads(text))
            for entry in entries:
                checked_name(entry.path)
        except (ValueError, TypeError):
            raise OSError(errno.EINVAL, "the journal is damaged") from None
        return Carrying(folder, place, entries)

    def claimed(self, place: Path) -> Carrying:
        """The same under a name of our own: from here on nobody else goes on with it. Raises Lost, OSError."""
        with unless_lost(self.place):
            os.rename(self.place, place)
        return replace(self, place=place)

    def carry_out(self) -> list[str]:
        """Write everything, or take everything back when a file was edited; the edited files. Raises Lost, OSError."""
        with unless_lost(self.place):
            edited = self.edited() or self._all_forward() or self.edited()
            if edited:
                self._mark(edited)
                for i, entry in self._numbered():
                    self._back(i, entry)
            for entry in self.entries:
                sync((self.folder / entry.path).parent)
            os.unlink(self.place / RECORD)
        return edited

    def edited(self) -> list[str]:
        """The files that are neither as they were nor as they are to be; all is taken back when there are any."""
        if os.path.lexists(self.place / BACK):
            return (self.place / BACK).read_text().splitlines()
        return [entry.path for i, entry in self._numbered() if self._is_edited(i, entry)]

    def view(self) -> dict[str, FrozenFile | None]:
        """The files as the journal has them, where they may be others on disk. Raises Lost, OSError."""
        with unless_lost(self.place):
            edited = self.edited()
            found: dict[str, FrozenFile | None] = {}
            for i, entry in self._numbered():
                there = digest_of(self.folder, entry.path)
                if not edited and there != entry.after:
                    found[entry.path] = self._frozen(entry, NEW, i)
                elif edited and there in (ABSENT, entry.after) and there != entry.before:
                    kept = next((name for name in (UNDO, ASIDE) if self._kept(name, i, entry)), None)
                    found[entry.path] = self._frozen(entry, kept, i) if kept else None
            os.lstat(self.place / RECORD)
        return found

    def _frozen(self, entry: Entry, part: str, i: int) -> FrozenFile:
        return FrozenFile(entry.path, self._part(part, i).read_bytes(), bool(entry.mode & stat.S_IXUSR))

    def _numbered(self) -> Iterator[tuple[int, Entry]]:
        return enumerate(self.entries)

    def _part(self, part: str, i: int) -> Path:
        return self.place / part / str(i)

    def _kept(self, part: str, i: int, entry: Entry) -> bool:
        """Whether the old content, or an edit of the user, is in this part."""
        there = content_of(self._part(part, i))
        return there not in (ABSENT, entry.after if part == UNDO else ABSENT)

    def _is_edited(self, i: int, entry: Entry) -> bool:
        there, aside = digest_of(self.folder, entry.path), content_of(self._part(ASIDE, i))
        if aside not in (ABSENT, entry.before):
            return True
        if there == ABSENT:
            return entry.before != ABSENT and aside == ABSENT
        return there not in (entry.before, entry.after)

    def _all_forward(self) -> list[str]:
        """The first file that something else has taken the place of, none when all are written."""
        return next(([entry.path] for i, entry in self._numbered() if not self._forward(i, entry)), [])

    def _forward(self, i: int, entry: Entry) -> bool:
        """Let the new content take the file's place; False when something else is there."""
        target, aside = self.folder / entry.path, self._part(ASIDE, i)
        there = digest_of(self.folder, entry.path)
        if there == entry.after:
            return True
        if there == entry.before != ABSENT:
            self._take(target, aside)
            there = ABSENT
        if there != ABSENT or content_of(aside) != entry.before:
            return False
        for place in entry.folders:
            with suppress(FileExistsError, FileNotFoundError, NotADirectoryError):
                os.mkdir(self.folder / place)
        return self._place(self._part(NEW, i), target)

    def _back(self, i: int, entry: Entry) -> None:
        """Let the old content be there again, unless the user's own is."""
        target, undo = self.folder / entry.path, self._part(UNDO, i)
        if digest_of(self.folder, entry.path) == entry.after != entry.before:
            self._take(target, undo)
        if digest_of(self.folder, entry.path) == ABSENT:
            for part in (UNDO, ASIDE):
                if self._kept(part, i, entry):
                    self._place(self._part(part, i), target)
                    break
        if entry.before == ABSENT:
            for place in reversed(entry.folders):
                with suppress(OSError):
                    os.rmdir(self.folder / place)

    def _mark(self, edited: Sequence[str]) -> None:
        """From here on everything is taken back, also by who takes over."""
        if not os.path.lexists(self.place / BACK):
            made = self.place / f"{BACK}-{self.place.name}"
            write_new(made, "".join(f"{path}\n" for path in edited).encode(), 0o644)
            os.rename(made, self.place / BACK)

    def _take(self, target: Path, part: Path) -> None:
        """Move a file of the experiment into the journal; one that has gone meanwhile has gone."""
        try:
            os.rename(target, part)
        except FileNotFoundError:
            os.lstat(self.place / RECORD)

    def _place(self, source: Path, target: Path) -> bool:
        """Let `target`, which does not exist, be the file `source`; False when it exists or cannot."""
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            os.lstat(source)
            if os.path.lexists(target) or error.errno in (errno.ENOENT, errno.ENOTDIR):
                return False
            if error.errno not in _NO_LINKS:
                raise
            # a filesystem without links: an edit in this very moment would be lost there
            os.rename(source, target)
        return True


@contextmanager
def unless_lost(place: Path) -> Iterator[None]:
    """An OSError within is Lost when the journal is not in `place` any more."""
    try:
        yield
    except OSError:
        if not os.path.lexists(place / RECORD):
            raise Lost from None
        raise


def build(work: Path, claim: str, mode: int, entries: Sequence[Entry], contents: Sequence[bytes]) -> None:
    """Make a journal under the name `work`; it is in force once that is renamed. mode: of its folders. Raises OSError."""
    place = work / claim
    for made in (work, place, *(place / part for part in (NEW, ASIDE, UNDO))):
        os.mkdir(made)
        os.chmod(made, mode)
    for i, (entry, data) in enumerate(zip(entries, contents, strict=True)):
        write_new(place / NEW / str(i), data, entry.mode)
    record = json.dumps([asdict(entry) for entry in entries], indent=1, ensure_ascii=True)
    write_new(place / RECORD, record.encode(), mode & 0o644)
    for made in (place / NEW, place, work):
        sync(made)


def in_force(outer: Path) -> str | None:
    """The claim under which a journal lies in `outer`. Raises OSError when that cannot be read."""
    while True:
        try:
            names = os.listdir(outer)
        except (FileNotFoundError, NotADirectoryError):
            return None
        for name in names:
            if os.path.lexists(outer / name / RECORD):
                return name
        # a name that has gone was claimed under another one meanwhile
        if all(os.path.lexists(outer / name) for name in names):
            return None


def tidy(outer: Path) -> None:
    """Remove what ended journals of this user have left."""
    with suppress(OSError):
        status = os.lstat(outer)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        for place in (outer / name for name in os.listdir(outer)):
            if not os.path.lexists(place / RECORD):
                for folder in (*(place / part for part in (NEW, ASIDE, UNDO)), place):
                    _empty(folder)
        os.rmdir(outer)


def _empty(folder: Path) -> None:
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                os.unlink(folder / name)
        os.rmdir(folder)


def digest_of(folder: Path, path: str) -> str:
    """`content_of` a path below `folder`; what lies behind a link is OTHER. Raises OSError."""
    parents = Path(path).parents
    if any(os.path.islink(folder / parent) for parent in parents):
        return OTHER
    return content_of(folder / path)
