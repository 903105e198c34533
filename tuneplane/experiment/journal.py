"""Several files of an experiment rewritten together, all or none, whatever kills the writer and whoever edits meanwhile.

The new contents and the digests of old and new are written into a folder beside and renamed to `.tuneplane-upgrade`:
from then on the writes are decided, and every later reader sees them done. The name can be taken once, so there is one
journal at a time; in it lies one folder, named by who carries it out:

```
.tuneplane-upgrade/<claim>/journal.json   what is written; the journal is in force while this is there
                          /new/<i>        the new content of file i
                          /aside/<i>      the old file, moved here before the new one takes its place
                          /undo/<i>       a new file that is taken back
                          /back           everything is taken back: a file was edited meanwhile
```

Whoever finds a journal renames `<claim>` to a name of its own and goes on from what is there. Each step that changes a
file of the experiment names the claim in one of its two paths, so that the one it was taken from, alive or not, cannot
change anything any more: no lock is needed. A file is moved aside, looked at, and only then followed by the new one,
through a link that never replaces anything: an edit is found in `aside`, or is in the way of the link.
"""

from __future__ import annotations

import errno
import os
import random
import secrets
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuneplane.errors import Busy, InputError, shown
from tuneplane.experiment.carrying import Carrying, Entry, Lost, build, digest_of, in_force, tidy, unless_lost
from tuneplane.experiment.snapshot import FrozenFile
from tuneplane.files import sha256, sync

NAME = ".tuneplane-upgrade"
"""The journal's name in an experiment, and the beginning of the names of those that are being made."""
_TRIES = 12
_OLD_SECONDS = 86400

View = Mapping[str, FrozenFile | None]
"""Path → the file as it is in force, None for none."""


@dataclass(frozen=True)
class Write:
    """A file to be written. before: sha256 of the content it must still have, ABSENT where there must be no file."""

    path: str
    before: str
    after: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Recovered:
    """What a reader of an experiment needs to know.

    pending: whether a journal stays in force, because this reader cannot carry it out; view: the files as they are in
    force then, where they may be others on disk; notes: what was found and done, for people.
    """

    view: View
    notes: tuple[str, ...] = ()
    pending: bool = False


def recovered(folder: Path) -> Recovered:
    """Carry out a journal that is in force in the experiment, or say what its files are by it.

    Only its owner does: what somebody else has left is read, never acted upon. Raises InputError when it cannot be
    read, Busy when others do not come to an end with it.
    """
    outer = folder / NAME
    notes: tuple[str, ...] = ()
    for attempt in range(_TRIES):
        try:
            name = in_force(outer)
            if name is None:
                tidy(outer)
                return Recovered({}, notes)
            found = Carrying.read(folder, outer / name)
            with unless_lost(found.place):
                foreign = os.lstat(outer).st_uid != os.geteuid()
            if foreign:
                return _only_read(found)
            try:
                found = found.claimed(outer / secrets.token_hex(8))
                notes = (_sentence(folder, "was", found.carry_out()),)
            except OSError:
                # nothing can be written here: what is in force is told all the same
                return _only_read(found)
        except Lost:
            # another reader carries it out: it is given time for it, more each time
            time.sleep(random.random() * 0.005 * 2**attempt)
        except OSError as error:
            what = f"cannot read what an upgrade left in {shown(str(outer), 300)}: {error.strerror}"
            raise InputError.of(what) from None
    raise Busy.of(f"an upgrade in {shown(str(folder), 300)} does not end", hint="the same in a moment")


def _only_read(found: Carrying) -> Recovered:
    with unless_lost(found.place):
        view, edited = found.view(), found.edited()
    return Recovered(view, (_sentence(found.folder, "is read as", edited),), pending=True)


def _sentence(folder: Path, how: str, edited: Sequence[str]) -> str:
    if not edited:
        return f"an unfinished upgrade of {shown(folder.name, 300)} {how} finished"
    names = ", ".join(shown(path) for path in edited)
    return f"an unfinished upgrade of {shown(folder.name, 300)} {how} undone: {names} changed meanwhile"


def write_all(folder: Path, writes: Sequence[Write]) -> bool:
    """Make all of the writes or none; whether they were made. They are not when a file is not as it was.

    Raises InputError when the folder cannot be written, Busy when another journal stays in force.
    """
    entries = [_entry(folder, write) for write in writes]
    work = folder / f"{NAME}-{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        _sweep(folder)
        mode = stat.S_IMODE(os.stat(folder).st_mode) | 0o700
        build(work, secrets.token_hex(8), mode, entries, [write.after for write in writes])
        _commit(folder, work)
    except OSError as error:
        what = f"cannot write to {shown(str(folder), 300)}: {error.strerror}"
        raise InputError.of(what, hint="nothing was changed") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if recovered(folder).pending:
        raise InputError.of(
            f"the upgrade of {shown(folder.name, 300)} is decided, but its files cannot be written now",
            str(folder),
            hint="the next `tp` command on it that can write finishes it",
        )
    return any(digest_of(folder, e.path) == e.after for e in entries if e.after != e.before)


def _entry(folder: Path, write: Write) -> Entry:
    parents = write.path.split("/")[:-1]
    places = ["/".join(parents[: i + 1]) for i in range(len(parents))]
    return Entry(
        path=write.path,
        before=write.before,
        after=sha256(write.after),
        mode=write.mode,
        folders=[place for place in places if not os.path.lexists(folder / place)],
    )


def _commit(folder: Path, work: Path) -> None:
    """Put the journal in force. Raises Busy, OSError."""
    for _ in range(_TRIES):
        if recovered(folder).pending:
            break
        try:
            os.rename(work, folder / NAME)
        except OSError as error:
            # another's journal has come there meanwhile, or what it left
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) and not os.path.isdir(folder / NAME):
                raise
            time.sleep(random.random() * 0.01)
            continue
        sync(folder)
        return
    raise Busy.of(
        f"another upgrade in {shown(str(folder), 300)} is not finished", hint="the same in a moment"
    )


def _sweep(folder: Path) -> None:
    """Remove what killed upgrades were making: at once where their process has gone, else after a day."""
    for entry in os.scandir(folder):
        if entry.name.startswith(f"{NAME}-") and entry.is_dir(follow_symlinks=False):
            host, _, rest = entry.name.removeprefix(f"{NAME}-").rpartition("-")[0].rpartition("-")
            ended = host == os.uname().nodename and rest.isdigit() and _ended(int(rest))
            # it may have gone, or come into force, in this moment
            with suppress(FileNotFoundError):
                if ended or time.time() - entry.stat(follow_symlinks=False).st_mtime > _OLD_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
