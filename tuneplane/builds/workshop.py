"""Where images are made: a work folder beside them, and the result under the name of its content."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tuneplane.errors import ImageError, SiteError, shown
from tuneplane.files import sync, write_whole
from tuneplane.runs.folder import JOB_FILE, SUBMISSION_FILE
from tuneplane.runtimes.formats import Facts
from tuneplane.runtimes.measure import measure
from tuneplane.sites.folders import place
from tuneplane.sites.model import Site

LOG_FILE, OUTCOME_FILE, RESULT_FILE = "build.log", "outcome", "image"
"""What the script leaves in a work folder: what was said, how it ended, and the image when it is whole."""
FOLDER_MODE, IMAGE_MODE = 0o755, 0o444
OLD_SECONDS, KEPT_SECONDS = 86400, 30 * 86400
"""How long nothing is written in a work folder before it is removed: one that failed, and one with a whole image."""
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOTSUP})
_CHUNK = 64 << 20


def images_folder(site: Site) -> Path:
    """The site's folder of images, made where it is missing. Raises SiteError."""
    if not site.folders.images:
        expected = "`folders.images` in its file: a folder that every node sees"
        raise SiteError.of("this site has no folder for images", expected=expected)
    folder = Path(os.path.abspath(place(site, site.folders.images)))
    try:
        for parent in [p for p in (folder, *folder.parents) if not p.exists()][::-1]:
            parent.mkdir(exist_ok=True)
            parent.chmod(FOLDER_MODE)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return folder


def _cannot_write(folder: Path, error: OSError) -> SiteError:
    what = f"cannot write to {shown(str(folder), 300)}: {error.strerror}"
    return SiteError.of(what, "folders.images")  # type: ignore[return-value]


def claim(images: Path, runtime_id: str, files: Mapping[str, bytes]) -> Path:
    """A new work folder with these files in it. Raises SiteError; then nothing is left behind."""
    try:
        folder = _new_folder(images, runtime_id)
    except OSError as error:
        raise _cannot_write(images, error) from None
    try:
        for name, data in files.items():
            write_whole(folder / name, data, 0o644)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _cannot_write(images, error) from None
    return folder


def _new_folder(images: Path, runtime_id: str) -> Path:
    while True:
        folder = images / f".{runtime_id}.{''.join(secrets.choice(_LETTERS) for _ in range(8))}"
        with suppress(FileExistsError):
            folder.mkdir(0o700)
            folder.chmod(FOLDER_MODE)
            return folder


def sweep(images: Path, runtime_id: str, waits: Callable[[Path], bool]) -> list[str]:
    """Remove the work folders that this user's earlier builds of a runtime id left a day ago or before.

    waits: whether a job of the folder may be alive still. What holds a whole image stays longer, and a sentence names it.
    """
    name = re.compile(rf"\.{re.escape(runtime_id)}\.[{_LETTERS}]{{8}}")
    notes = []
    for folder in sorted(images.iterdir()):
        if not name.fullmatch(folder.name) or folder.is_symlink() or not _is_old(folder, OLD_SECONDS):
            continue
        if (folder / RESULT_FILE).exists() and not _is_old(folder, KEPT_SECONDS):
            notes.append(f"an earlier build was never registered: {left_over(folder, runtime_id)}")
        elif not ((folder / JOB_FILE).exists() or (folder / SUBMISSION_FILE).exists()) or not waits(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return notes


def left_over(work: Path, runtime_id: str) -> str:
    """What to type for an image that was made and not registered."""
    from shlex import quote

    return f"tp runtime import {quote(runtime_id)} {quote(str(work / RESULT_FILE))}"


def _is_old(folder: Path, seconds: int) -> bool:
    """Whether it is this user's, and nothing was written in it for so long."""
    try:
        looked = [folder.lstat()]
        with suppress(FileNotFoundError):
            looked.append((folder / LOG_FILE).lstat())
    except OSError:
        return False
    return looked[0].st_uid == os.geteuid() and all(
        time.time() - status.st_mtime > seconds for status in looked
    )


def outcome(work: Path) -> int | None:
    """The script's exit code, None before its end."""
    try:
        return int((work / OUTCOME_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None


def log_of(work: Path) -> str:
    """What was said in a build, the last of it."""
    try:
        with open(work / LOG_FILE, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 18)))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def cut(sif: Path, facts: Facts, target: Path) -> None:
    """Copy the SquashFS out of a SIF. Raises ImageError."""
    offset, size = facts.filesystem
    try:
        with open(sif, "rb") as source, open(target, "xb") as made:
            source.seek(offset)
            while size and (block := source.read(min(_CHUNK, size))):
                made.write(block)
                size -= len(block)
    except OSError as error:
        raise ImageError.of(f"cannot write {shown(str(target), 400)}: {error.strerror}") from None
    if size:
        raise ImageError.of(f"{shown(str(sif), 400)} became shorter while it was read")


def keep(result: Path, images: Path, name: str, suffix: str) -> Path:
    """Give a whole image its final name, `NAME-DIGEST.SUFFIX`. Nothing is ever replaced; the same content is kept once.

    Raises ImageError, SiteError.
    """
    sha256 = measure(result).sha256
    final = images / f"{name}-{sha256[:12]}.{suffix}"
    try:
        result.chmod(IMAGE_MODE)
        with open(result, "rb") as file:
            os.fsync(file.fileno())
        if not _named(result, final) and measure(final).sha256 != sha256:
            raise ImageError.of(f"{shown(str(final), 400)} is there already and holds something else")
        sync(images)
    except OSError as error:
        raise _cannot_write(images, error) from None
    return final


def _named(result: Path, final: Path) -> bool:
    """Whether the file has become `final`; False when there is one. Raises OSError."""
    try:
        os.link(result, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or os.path.lexists(final):
            raise
        # where no links can be made: only the very same content has this name
        os.rename(result, final)
    return True
