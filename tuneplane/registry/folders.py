"""Making the registry's folders: each appears with its final mode and group, whatever the umask."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tuneplane.errors import LockError, shown
from tuneplane.registry.layout import Registry

TURNS = 20
"""Times that the folders are tried: each failed turn means that another publisher has made one of them."""


def make_folders(registry: Registry) -> None:
    """The registry's own folders, where they are missing. Raises LockError."""
    for turn in range(TURNS):
        try:
            for parent in reversed(registry.root.parents):
                make_folder(parent, 0o755)
            for folder in (registry.root, registry.serials, registry.catalogs, registry.artifacts):
                make_folder(folder, registry.folder_mode, registry.gid)
            return
        except FileNotFoundError as error:
            # another publisher's folder took the place of the empty one that this one was about to fill
            if turn == TURNS - 1:
                raise cannot_write(registry, error) from None
        except OSError as error:
            raise cannot_write(registry, error) from None


def make_folder(path: Path, mode: int, gid: int | None = None) -> None:
    """Make an empty folder unless something is there. Raises OSError.

    It is made under another name and renamed, so that a publisher killed in between leaves none that others cannot
    read. Renaming onto an empty folder that another publisher has just made changes nothing.
    """
    if os.path.lexists(path):
        return
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        open_to_all(made, mode, gid)
        os.rename(made, path)
    except OSError:
        with suppress(OSError):
            made.rmdir()
        if not path.is_dir():
            raise


def open_to_all(folder: Path, mode: int, gid: int | None) -> None:
    """Give a folder of ours its final mode and group. Raises OSError."""
    if gid is not None:
        os.chown(folder, -1, gid)
    folder.chmod(mode)


def cannot_write(registry: Registry, error: OSError) -> LockError:
    """The error of a publisher that the filesystem refuses."""
    what = f"cannot write to the registry {shown(str(registry.root), 300)}: {error.strerror}"
    return LockError(what)
