"""Reading an experiment's folder once, as it is at one moment: which files, and the limits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuneplane.errors import InputError, shown
from tuneplane.experiment.carrying import in_force
from tuneplane.experiment.ignore import Rule, ignored, parse
from tuneplane.experiment.journal import NAME as JOURNAL
from tuneplane.experiment.journal import View, recovered
from tuneplane.experiment.snapshot import FrozenFile, Snapshot, checked_name, follow, places_of
from tuneplane.names import looks_secret_file

TRIES = 5
"""How often a folder that changes while it is read is read again."""

_ENOUGH = 10
"""At this many times the limit of files the search ends: the refusal is sure."""

_CACHES = """.git .hg .svn __pycache__/ *.pyc *.pyo .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/
.ipynb_checkpoints/ .cache/ .venv/ venv/ node_modules/ *.egg-info/ .DS_Store"""
_OUTPUTS = "/output /outputs /runs /checkpoints /wandb /tensorboard /logs slurm-*.out"
_CACHE_RULES = parse("\n".join(_CACHES.split()), "a cache")
_OUTPUT_RULES = parse("\n".join(_OUTPUTS.split()), "an output")


@dataclass(frozen=True)
class Limits:
    """What a snapshot may hold at most; a site can set both. max_bytes: sum of the files' sizes."""

    max_bytes: int = 64 * 2**20
    max_files: int = 2000


class _Changed(Exception):
    """The file of this path changed while the folder was frozen."""


class _Entry(NamedTuple):
    """What tells one state of a file from the next, and where a link leads."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    mode: int
    target: str = ""


def _entry(info: os.stat_result, target: str = "") -> _Entry:
    return _Entry(info.st_size, info.st_mtime_ns, info.st_ino, info.st_ctime_ns, info.st_mode, target)


def freeze(
    folder: Path,
    *,
    name: str,
    exclude: Iterable[Path] = (),
    limits: Limits = Limits(),
    instead: View | None = None,
) -> Snapshot:
    """Read the experiment `name` in `folder` once, as it is at one moment.

    exclude: data and models, absolute or relative to `folder`; instead: files as they would be, in place of those that
    are there. What an upgrade is about to change is read as the upgrade has it.
    Raises InputError when it is over the limits, when a name cannot be frozen, when a file cannot be read, and when a
    file keeps changing.
    """
    from time import sleep

    root, changed = os.path.abspath(folder), ""
    excluded = _excluded(root, exclude)
    for pause in range(TRIES):
        sleep(pause / 20)
        try:
            upgrade = recovered(Path(root))
            entries, left_out = _listing(root, name, excluded, limits, upgrade.pending)
            _check_limits(entries, name, limits)
            files = [_frozen(root, name, path, entry) for path, entry in entries.items()]
            again, _ = _listing(root, name, excluded, limits, upgrade.pending)
        except _Changed as error:
            changed = str(error)
            continue
        if entries == again:
            files = _with({**upgrade.view, **(instead or {})}, files)
            files.sort(key=lambda file: file.path.encode())
            printable = ((os.fsencode(path).decode(errors="replace"), reason) for path, reason in left_out)
            return Snapshot(tuple(files), tuple(sorted(printable)))
        changed = min(set(entries.items()) ^ set(again.items()))[0]
    hint = "stop what writes to it, or name it in `.tpignore`"
    what = f"{shown(changed)} keeps changing while the experiment is frozen"
    raise InputError.of(what, f"{name}/{changed}", "a folder at rest for the moment of submitting", hint)


def _excluded(root: str, exclude: Iterable[Path]) -> frozenset[str]:
    """The paths relative to `root` that `exclude` names, through links or not."""
    found = set()
    for path in exclude:
        full = os.path.join(root, path)
        for end in (os.path.normpath(full), os.path.realpath(full)):
            for base in (root, os.path.realpath(root)):
                found.add(os.path.relpath(end, base))
    return frozenset(found)


def _listing(
    root: str, name: str, excluded: frozenset[str], limits: Limits, upgrading: bool
) -> tuple[dict[str, _Entry], list[tuple[str, str]]]:
    """What is to be frozen by path, and what is left out with the reason; no content is read.

    upgrading: whether an upgrade is known to be under way; another one raises _Changed.
    """
    rules = _OUTPUT_RULES + parse(_tpignore(root, name), "named in .tpignore")
    git = _git_files(root, name)
    places = None if git is None else places_of(git)
    entries: dict[str, _Entry] = {}
    left_out: list[tuple[str, str]] = []
    folders = [""]
    while folders and len(entries) <= _ENOUGH * limits.max_files:
        folder = folders.pop()
        for item in _items(root, name, folder):
            path = f"{folder}/{item.name}" if folder else item.name
            if path.startswith(JOURNAL):
                if path == JOURNAL and not upgrading and in_force(Path(item.path)):
                    raise _Changed(path)
                continue
            is_folder = item.is_dir(follow_symlinks=False)
            reason = _reason(path, is_folder, excluded, rules)
            if not reason and git is not None and is_folder and {path, f"{path}/"} & git:
                reason = "a git repository of its own"
            if not reason and places is not None and path not in places:
                reason = "ignored by git" + (", or empty" if is_folder else "")
            if not reason and is_folder:
                folders.append(path)
                continue
            try:
                entry = _entry(os.lstat(item.path), os.readlink(item.path) if item.is_symlink() else "")
            except OSError:
                raise _Changed(path) from None
            reason = reason or _reason_of_kind(path, entry)
            if reason:
                left_out.append((path + "/" * is_folder, reason))
            else:
                entries[checked_name(path)] = entry
    _drop_dangling(entries, left_out)
    return entries, left_out


def _items(root: str, name: str, folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(root, folder)) as items:
            return list(items)
    except OSError as error:
        if folder and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise _Changed(folder) from None
        what = f"the folder {shown(folder or root, 300)} cannot be read: {error.strerror}"
        raise InputError.of(what, f"{name}/{folder}") from None


def _reason(path: str, is_folder: bool, excluded: frozenset[str], rules: list[Rule]) -> str:
    """Why the name alone leaves `path` out; empty when it does not."""
    if looks_secret_file(path.rpartition("/")[2]):
        return "looks like a secret"
    if path in excluded:
        return "data or a model"
    return ignored(_CACHE_RULES, path, is_folder) or ignored(rules, path, is_folder)


def _reason_of_kind(path: str, entry: _Entry) -> str:
    """Why the kind of file, or where a link leads, leaves it out."""
    if entry.target:
        end = os.path.normpath(os.path.join(os.path.dirname(path), entry.target))
        out = entry.target.startswith("/") or end == ".." or end.startswith("../")
        return "a link out of the folder" if out else ""
    return "" if stat.S_ISREG(entry.mode) else "a FIFO, socket or device"


def _drop_dangling(entries: dict[str, _Entry], left_out: list[tuple[str, str]]) -> None:
    """Leave out links whose target is not frozen, and then those that led to them."""
    while True:
        links = {path: entry.target for path, entry in entries.items() if entry.target}
        places = places_of(entries)
        dangling = [path for path in links if follow(path, links, places) is None]
        for path in dangling:
            del entries[path]
            left_out.append((path, "a link to what is not frozen"))
        if not dangling:
            return


def _with(view: View, files: list[FrozenFile]) -> list[FrozenFile]:
    """The files with those of `view` in their place; what is ignored as a cache is not added."""
    there = {file.path for file in files}
    kept = [file for file in files if file.path not in view]
    return kept + [
        file
        for path, file in view.items()
        if file is not None and (path in there or not _reason(path, False, frozenset(), _OUTPUT_RULES))
    ]


def _tpignore(root: str, name: str) -> str:
    try:
        fd = os.open(
            os.path.join(root, ".tpignore"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InputError.of(f"`.tpignore` cannot be read: {error.strerror}", name, "a regular file") from None
    try:
        with open(fd, encoding="utf-8", newline="\n") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError.of("`.tpignore` is not UTF-8 text", f"{name}/.tpignore") from None


def _git_files(root: str, name: str) -> set[str] | None:
    """What git tracks or does not ignore below `root`; None outside a work tree, without git or when it lists nothing.

    A folder of its own repository is named by itself, with a slash at its end when it is no submodule.
    """
    import shutil
    import subprocess

    above = Path(os.path.realpath(root))
    git = shutil.which("git")
    if git is None or not any(os.path.lexists(place / ".git") for place in (above, *above.parents)):
        return None
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "XDG_CONFIG_HOME") if key in os.environ}
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(
        [git, "-c", "core.fsmonitor=false", *listing],
        cwd=root,
        env=environment | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if result.returncode:
        said = os.fsdecode(result.stderr)
        if any(words in said for words in ("not a git repository", "work tree", "gitfile")):
            return None
        hint = f"run `git -C {shown(root, 300)[1:-1]} status`"
        raise InputError.of(f"git cannot list the files: {shown(said.strip(), 300)}", name, hint=hint)
    return {os.fsdecode(path) for path in result.stdout.split(b"\0") if path} or None


def _check_limits(entries: Mapping[str, _Entry], name: str, limits: Limits) -> None:
    """Refuse what is over the limits, by sizes alone."""
    total = sum(entry.size for entry in entries.values())
    if total <= limits.max_bytes and len(entries) <= limits.max_files:
        return
    largest = sorted(entries.items(), key=lambda item: (-item[1].size, item[0]))[:3]
    named = ", ".join(f"{shown(path)} ({_size(entry.size)})" for path, entry in largest)
    more = "at least " if len(entries) > _ENOUGH * limits.max_files else ""
    raise InputError.of(
        f"the experiment has {more}{_size(total)} in {len(entries)} files to freeze; the largest are {named}",
        name,
        f"at most {_size(limits.max_bytes)} in {limits.max_files} files, limits that the site sets",
        f"name in `{name}/.tpignore` what a job does not need, and keep data and models elsewhere",
    )


def _size(count: int) -> str:
    """A number of bytes for people."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def _frozen(root: str, name: str, path: str, entry: _Entry) -> FrozenFile:
    """The file at `path` as listed; _Changed when it is not that file any more. No link is followed on the way."""
    if entry.target:
        return FrozenFile(path, target=entry.target)
    *folders, last = path.split("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        with open(os.open(last, flags | os.O_NONBLOCK, dir_fd=at), "rb") as file:
            same = _entry(os.fstat(file.fileno())) == entry
            data = file.read(entry.size + 1) if same else b""
            if not same or len(data) != entry.size or _entry(os.fstat(file.fileno())) != entry:
                raise _Changed(path)
    except PermissionError:
        what, hint = f"{shown(path)} cannot be read", "make it readable, or name it in `.tpignore`"
        raise InputError.of(what, f"{name}/{path}", hint=hint) from None
    except OSError:
        raise _Changed(path) from None
    finally:
        os.close(at)
    return FrozenFile(path, data, bool(entry.mode & stat.S_IXUSR))
