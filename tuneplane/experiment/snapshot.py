"""The frozen snapshot of an experiment's folder: read once, named by a digest, checked again on the node."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tuneplane.errors import InputError, shown
from tuneplane.experiment.secrets import looks_secret_file

TRIES = 5
"""How often a folder that changes while it is read is read again."""

_ENOUGH = 10
"""At this many times the limit of files the search ends: the refusal is sure."""

_CACHES = """.git .hg .svn __pycache__/ *.pyc *.pyo .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/
.ipynb_checkpoints/ .cache/ .venv/ venv/ node_modules/ *.egg-info/ .DS_Store"""
_OUTPUTS = "/output /outputs /runs /checkpoints /wandb /tensorboard /logs slurm-*.out"


@dataclass(frozen=True)
class Limits:
    """What a snapshot may hold at most; a site can set both. max_bytes: sum of the files' sizes."""

    max_bytes: int = 64 * 2**20
    max_files: int = 2000


@dataclass(frozen=True)
class FrozenFile:
    """A regular file, or a symbolic link when it has a `target` (relative, inside the snapshot)."""

    path: str
    data: bytes = b""
    executable: bool = False
    target: str = ""


@dataclass(frozen=True)
class Snapshot:
    """Files by path, sorted bytewise. left_out: paths and why they were not frozen, no part of the digest."""

    files: tuple[FrozenFile, ...]
    left_out: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @staticmethod
    def of(mapping: Mapping[str, bytes], executables: Iterable[str] = ()) -> Snapshot:
        """A snapshot of files made in memory; `executables` are paths among them."""
        marked = frozenset(executables)
        files = (FrozenFile(_named(path), data, path in marked) for path, data in mapping.items())
        return Snapshot(tuple(sorted(files, key=lambda file: file.path.encode())))

    @cached_property
    def manifest(self) -> bytes:
        """`# structure SHA256`, then what `sha256sum` prints for the regular files: `CHECK_SH` checks both."""
        records = sorted(_record(file) + b"\0" for file in self.files)
        lines = [f"# structure {hashlib.sha256(b''.join(records)).hexdigest()}\n"]
        lines += [_sum_line(file) for file in self.files if not file.target]
        return "".join(lines).encode()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the manifest, in hex: the name of these very files."""
        return hashlib.sha256(self.manifest).hexdigest()

    def data(self, path: str) -> bytes | None:
        """Content of the file at `path`, links followed; None when there is none."""
        by_path = {file.path: file for file in self.files}
        links = {file.path: file.target for file in self.files if file.target}
        end = _follow(path, links, _places(by_path))
        return by_path[end].data if end in by_path else None

    def text(self, path: str) -> str | None:
        """The same as UTF-8 text; InputError when it is not."""
        data = self.data(path)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise InputError.of(f"{shown(path)} is not UTF-8 text", f"{path}, byte {error.start}") from None

    def write(self, folder: Path) -> None:
        """Make `folder`, which must not exist (FileExistsError), with files read-only and folders 0755 less umask."""
        paths = {file.path for file in self.files}
        os.mkdir(folder, 0o755)
        for inner in sorted(_places(paths) - paths):
            os.mkdir(folder / inner, 0o755)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for file in self.files:
            if file.target:
                os.symlink(file.target, folder / file.path)
                continue
            with open(os.open(folder / file.path, flags, 0o600), "wb") as made:
                made.write(file.data)
                os.fchmod(made.fileno(), 0o555 if file.executable else 0o444)


def _record(file: FrozenFile) -> bytes:
    """One entry of the structure digest, as `find -printf` writes it in `CHECK_SH`."""
    if file.target:
        return f"l {file.path}\n{file.target}".encode()
    return f"{'x' if file.executable else 'f'} {file.path}".encode()


def _sum_line(file: FrozenFile) -> str:
    """The file's line in sha256sum's format, with its escapes; `-` would be read as standard input."""
    name = "./-" if file.path == "-" else file.path
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""
    return f"{mark}{hashlib.sha256(file.data).hexdigest()}  {escaped}\n"


def _named(path: str) -> str:
    """`path`, or InputError when a manifest cannot name it."""
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", path):
        what = f"the name {shown(path, 300)} cannot be frozen"
        expected = "names in UTF-8 without control characters"
        raise InputError.of(what, expected=expected, hint="rename it, or name it in `.tpignore`")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise InputError.of(f"{shown(path)} is not a relative path inside the experiment")
    return path


def _places(paths: Iterable[str]) -> set[str]:
    """The paths and all folders above them."""
    places = set()
    for path in paths:
        while path and path not in places:
            places.add(path)
            path = path.rpartition("/")[0]
    return places


def _follow(path: str, links: Mapping[str, str], places: set[str]) -> str | None:
    """Where `path` ends when links are followed as the kernel does; None when outside, nowhere or a loop."""
    done: list[str] = []
    todo = path.split("/")[::-1]
    hops = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not done:
                return None
            done.pop()
            continue
        here = "/".join([*done, part])
        if here in links:
            hops += 1
            if hops > 40:
                return None
            todo += links[here].split("/")[::-1]
        elif here in places:
            done.append(part)
        else:
            return None
    return "/".join(done)


class _Rule(NamedTuple):
    """One line of a `.gitignore`-like list; `reason` is empty when it takes back (`!`)."""

    pattern: re.Pattern[str]
    whole: bool
    folders_only: bool
    reason: str


_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_SET = re.compile(r"\[([!^]?)((?:\[:[a-z]+:\]|\\.|[^\\])(?:\[:[a-z]+:\]|\\.|[^\\\]])*)\]")
_MEMBER = re.compile(r"\[:([a-z]+):\]|(?:\\(.)|([^\\]))(?:-(?:\\(.)|([^\\])))?")
_TOKEN = re.compile(
    rf"(?P<stars>\*+)|(?P<one>\?)|(?P<set>{_SET.pattern})|\\(?P<escaped>.)|(?P<plain>[^\\\[])"
)


def _rules(text: str, reason: str) -> list[_Rule]:
    """The rules of a text in gitignore's syntax; what git takes for a pattern that never matches is left out."""
    rules = []
    for line in text.removeprefix("\ufeff").split("\n"):
        trimmed = re.match(r"(?:\\.|[^\\])*?(?= *$)", line.removesuffix("\r"))
        glob = trimmed[0] if trimmed else ""
        if glob.startswith("#"):
            continue
        keep, glob = glob.startswith("!"), glob.removeprefix("!")
        folders_only, glob = glob.endswith("/"), glob.removesuffix("/")
        regex = _regex(glob.removeprefix("/"), "/" in glob) if glob else None
        if regex is not None:
            rules.append(
                _Rule(re.compile(regex, re.DOTALL), "/" in glob, folders_only, "" if keep else reason)
            )
    return rules


def _regex(glob: str, whole: bool) -> str | None:
    """A glob as a regular expression for a whole path or a base name; None when it can match nothing."""
    regex, at = "", 0
    while at < len(glob):
        token = _TOKEN.match(glob, at)
        if token is None:
            return None
        start, at = at, token.end()
        if token["stars"]:
            opens = whole and at - start > 1 and (start == 0 or glob[start - 1] == "/")
            if opens and at == len(glob):
                regex += ".*"
            elif opens and glob[at] == "/":
                regex, at = regex + "(?:.*/)?", at + 1
            else:
                regex += "[^/]*"
        elif token["set"]:
            regex += _set(token["set"])
        else:
            regex += "[^/]" if token["one"] else re.escape(token["escaped"] or token["plain"])
    return regex


def _set(glob: str) -> str:
    """`[...]` of a glob as a regular expression."""
    match = _SET.fullmatch(glob)
    assert match is not None
    members = ""
    for name, escaped, plain, escaped_to, plain_to in _MEMBER.findall(match[2]):
        low, high = escaped or plain, escaped_to or plain_to
        if name:
            members += _CLASSES.get(name, "")
        elif not high:
            members += re.escape(low)
        elif low <= high:
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return "[^/]" if match[1] else "(?!)"
    return f"(?!/)[{'^' if match[1] else ''}{members}]"


def _ignored(rules: Iterable[_Rule], path: str, is_folder: bool) -> str:
    """Why `rules` leave `path` out, or nothing: the last rule that matches decides."""
    reason, name = "", path.rpartition("/")[2]
    for rule in rules:
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path if rule.whole else name):
            reason = rule.reason
    return reason


_CACHE_RULES = _rules("\n".join(_CACHES.split()), "a cache")
_OUTPUT_RULES = _rules("\n".join(_OUTPUTS.split()), "an output")


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


def freeze(folder: Path, *, name: str, exclude: Iterable[Path] = (), limits: Limits = Limits()) -> Snapshot:
    """Read the experiment `name` in `folder` once, as it is at one moment.

    exclude: data and models, absolute or relative to `folder`. Raises InputError when it is over the limits, when a
    name cannot be frozen, when a file cannot be read, and when a file keeps changing.
    """
    from time import sleep

    root, changed = os.path.abspath(folder), ""
    excluded = _excluded(root, exclude)
    for pause in range(TRIES):
        sleep(pause / 20)
        try:
            entries, left_out = _listing(root, name, excluded, limits)
            _check_limits(entries, name, limits)
            files = [_frozen(root, name, path, entry) for path, entry in entries.items()]
            again, _ = _listing(root, name, excluded, limits)
        except _Changed as error:
            changed = str(error)
            continue
        if entries == again:
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
    root: str, name: str, excluded: frozenset[str], limits: Limits
) -> tuple[dict[str, _Entry], list[tuple[str, str]]]:
    """What is to be frozen by path, and what is left out with the reason; no content is read."""
    rules = _OUTPUT_RULES + _rules(_tpignore(root, name), "named in .tpignore")
    git = _git_files(root, name)
    places = None if git is None else _places(git)
    entries: dict[str, _Entry] = {}
    left_out: list[tuple[str, str]] = []
    folders = [""]
    while folders and len(entries) <= _ENOUGH * limits.max_files:
        folder = folders.pop()
        for item in _items(root, name, folder):
            path = f"{folder}/{item.name}" if folder else item.name
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
                entries[_named(path)] = entry
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


def _reason(path: str, is_folder: bool, excluded: frozenset[str], rules: list[_Rule]) -> str:
    """Why the name alone leaves `path` out; empty when it does not."""
    if looks_secret_file(path.rpartition("/")[2]):
        return "looks like a secret"
    if path in excluded:
        return "data or a model"
    return _ignored(_CACHE_RULES, path, is_folder) or _ignored(rules, path, is_folder)


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
        places = _places(entries)
        dangling = [path for path in links if _follow(path, links, places) is None]
        for path in dangling:
            del entries[path]
            left_out.append((path, "a link to what is not frozen"))
        if not dangling:
            return


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


CHECK_SH = r"""
# tp_check_tree FOLDER MANIFEST DIGEST LABEL: FOLDER holds exactly the files of MANIFEST, whose sha256 is DIGEST.
# 1: it does not; stderr says which file is wrong.
tp_check_tree() (
  set -o pipefail
  export LC_ALL=C
  folder=$1 label=$4
  [[ $folder == /* ]] || folder=./$folder
  say() { printf '%s: %s\n' "$label" "${1//[[:cntrl:]]/?}" >&2; }
  text=$(cat <"$2" && printf .) || { say 'the manifest cannot be read'; return 1; }
  text=${text%.}
  sum=$(printf '%s' "$text" | sha256sum) || return 1
  [[ ${sum%% *} == "$3" ]] || { say 'the manifest is not the one that was submitted'; return 1; }
  cd -P -- "$folder" || { say 'the folder cannot be entered'; return 1; }
  sum=$(find . -type d -o -type f -perm -100 -printf 'x %P\0' -o -type f -printf 'f %P\0' \
    -o -type l -printf 'l %P\n%l\0' -o -printf '%y %P\0' | sort -z | sha256sum) || sum=unreadable
  if [[ "# structure ${sum%% *}" != "${text%%$'\n'*}" ]]; then
    named=''
    while IFS= read -r -d '' name; do
      named=1
      case $name in
        $'\t'*) say "${name#?}: added" ;;
        *) say "$name: removed, or no regular file any more" ;;
      esac
    done < <(comm -z -3 \
      <(sed -n -e 's/^\\\{0,1\}[0-9a-f]\{64\}  //' -e 's/^\.\/-$/-/' -e '2,$p' <<<"${text%$'\n'}" |
        tr '\n' '\0' | sort -z) \
      <(find . -type f -printf '%P\0' | sed -z -e 's/\\/\\\\/g' -e 's/\n/\\n/g' -e 's/\r/\\r/g' | sort -z))
    [[ $named ]] && return 1
    say 'an executable bit, a link or a special file differs; those there now:'
    while IFS= read -r -d '' name; do say "$name"; done < <(
      find . ! -type d \( ! -type f -o -perm -100 \) -printf '%M %P %l\0' | sort -z
    )
    return 1
  fi
  [[ $text == *$'\n'?* ]] || return 0
  if ! failed=$(printf '%s' "$text" | sha256sum --check --strict --quiet 2>&1); then
    while IFS= read -r name; do say "$name"; done <<<"$failed"
    return 1
  fi
)
"""
