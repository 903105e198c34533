"""A frozen snapshot of files: named by a digest, written read-only, checked again on the node."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tuneplane.errors import InputError, shown


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
        files = (FrozenFile(checked_name(path), data, path in marked) for path, data in mapping.items())
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
        end = follow(path, links, places_of(by_path))
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
        for inner in sorted(places_of(paths) - paths):
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


def checked_name(path: str) -> str:
    """`path`, or InputError when a manifest cannot name it."""
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", path):
        what = f"the name {shown(path, 300)} cannot be frozen"
        expected = "names in UTF-8 without control characters"
        raise InputError.of(what, expected=expected, hint="rename it, or name it in `.tpignore`")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise InputError.of(f"{shown(path)} is not a relative path inside the experiment")
    return path


def places_of(paths: Iterable[str]) -> set[str]:
    """The paths and all folders above them."""
    places = set()
    for path in paths:
        while path and path not in places:
            places.add(path)
            path = path.rpartition("/")[0]
    return places


def follow(path: str, links: Mapping[str, str], places: set[str]) -> str | None:
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
