"""The secrets file: `NAME=value` lines that only their owner reads, checked here and read again on the node.

No value is ever printed, not even a part of a line: a mistyped line may be a bare token.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from tuneplane.errors import InputError, Problem, TuneplaneError, shown

MAX_BYTES = 2**20
"""The largest secrets file that is read, in bytes."""


def check_file(path: Path, names: Sequence[str], *, where: str) -> None:
    """Refuse a secrets file that the job could not use, or that others can read.

    path: lines `NAME=value`, the value verbatim to the end of its line; `#` comments and blank lines.
    names: what the experiment asks for at `where` (`my-grpo/config.yaml:9 secrets`).
    Raises InputError with everything that is wrong, and never a value.
    """
    values, problems = _parse(_read_private(path, where), path)
    for name in () if problems else dict.fromkeys(names):
        if not values.get(name):
            lack = "has no value in" if name in values else "is not in"
            what = f"secret {shown(name)} {lack} the secrets file"
            problems.append(
                Problem(what, where, f"a line `{name}=…` in {shown(str(path), 300)}", _edit(path))
            )
    if problems:
        raise InputError(*problems)


def _edit(path: Path) -> str:
    from shlex import quote

    return f"${{EDITOR:-vi}} {quote(str(path))}"


def _no_link(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read_private(path: Path, where: str) -> bytes:
    """The bytes of a regular file that only the user can read or replace; InputError otherwise."""
    from shlex import quote

    typed, folder = quote(str(path)), quote(str(path.parent))

    def refused(what: str, expected: str, hint: str = "") -> TuneplaneError:
        return InputError.of(f"the secrets file {shown(str(path), 300)} {what}", where, expected, hint)

    try:
        with open(path, "rb", opener=_no_link) as file:
            info, above = os.fstat(file.fileno()), os.stat(path.parent)
            data = file.read(MAX_BYTES + 1) if stat.S_ISREG(info.st_mode) else b""
    except FileNotFoundError:
        make = "" if path.parent.is_dir() else f"mkdir -p -m 700 {folder} && "
        hint = f"{make}install -m 600 /dev/null {typed} && {_edit(path)}"
        raise refused("does not exist", "lines `NAME=value`", hint) from None
    except OSError as error:
        if path.is_symlink():
            hint = "put the file itself there"
            raise refused("is a symbolic link", "a regular file", hint) from None
        hint = f"chmod 600 {typed}" if isinstance(error, PermissionError) else ""
        raise refused(
            f"cannot be read: {error.strerror}", "a regular file of yours, mode 0600", hint
        ) from None
    if not stat.S_ISREG(info.st_mode):
        raise refused("is not a regular file", "a regular file of yours, mode 0600")
    if info.st_uid != os.geteuid():
        raise refused(f"belongs to another user (uid {info.st_uid})", f"a file of yours (uid {os.geteuid()})")
    if stat.S_IMODE(info.st_mode) not in (0o600, 0o400):
        raise refused(f"has mode {stat.S_IMODE(info.st_mode):04o}", "mode 0600 or 0400", f"chmod 600 {typed}")
    if above.st_mode & 0o022:
        raise refused("is in a folder others can write to", "a folder of yours alone", f"chmod go-w {folder}")
    if len(data) > MAX_BYTES:
        raise refused("is over 1 MiB", "lines `NAME=value`", _edit(path))
    return data


def _parse(data: bytes, path: Path) -> tuple[dict[str, str], list[Problem]]:
    """Values by name, and what is wrong with which line; the job reads the file by the same rules (`READ_SH`)."""
    values: dict[str, str] = {}
    problems = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if wrong := _line(line, values):
            what, expected = wrong
            at = f"{shown(str(path), 300)[1:-1]}:{number}"
            problems.append(Problem(f"a line of the secrets file {what}", at, expected, _edit(path)))
    return values, problems


def _line(raw: bytes, values: dict[str, str]) -> tuple[str, str] | None:
    """Take one line into `values`, or say what is wrong with it and what was expected."""
    if b"\0" in raw:
        return "holds a NUL byte", "text"
    if raw.endswith(b"\r"):
        return "ends in a carriage return", "lines that end in a newline only, as `dos2unix` makes them"
    if raw.startswith(b"#") or not raw.strip(b" "):
        return None
    if any(byte < 32 or byte == 127 for byte in raw):
        return "holds a control character", "printable text"
    try:
        name, equals, value = raw.decode().partition("=")
    except UnicodeDecodeError:
        return "is not UTF-8", "UTF-8 text"
    if name.startswith("export "):
        return "begins with `export`", "`NAME=value`: the file is data and no shell reads it"
    if not equals:
        return "is not `NAME=value`", "`NAME=value`, or `#` before a comment"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return "has an invalid name", "a name of letters, digits and `_`, with no space before or after it"
    if any("\x80" <= character <= "\x9f" for character in value):
        # Apptainer 1.4.5 loses every variable behind U+0080 and still ends with 0
        return "holds a control character", "printable text"
    if value.startswith(("'", '"')):
        return "has a value in quotes", "the bare value: it is taken verbatim to the end of the line"
    if name in values:
        return "repeats a name", "each name once"
    values[name] = value
    return None


READ_SH = r"""
# tp_read_secret FILE NAME PREFIX: export PREFIX+NAME with the value that the line `NAME=value` of FILE holds.
# FILE is data: nothing in it is expanded, evaluated or printed. 1: it cannot be used; stderr says why.
tp_read_secret() {
  { local -; set +xv; } 2>/dev/null
  local LC_ALL=C IFS=''
  local tp_file=$1 tp_name=$2 tp_prefix=${3-} tp_stat='' tp_text='' tp_line='' tp_value='' tp_why=''
  local -a tp_lines=()
  local -i tp_found=0
  local tp_valid='^[A-Za-z_][A-Za-z0-9_]*$'
  if ! [[ $tp_name =~ $tp_valid && $tp_prefix$tp_name =~ $tp_valid ]]; then
    tp_why='was asked for an invalid name' tp_name='?'
  elif [[ -L $tp_file ]]; then
    tp_why='is a symbolic link'
  elif ! [[ -f $tp_file ]]; then
    tp_why='is not on this node, or not a regular file'
  elif ! { tp_stat=$(stat -c '%u|%a|%s' -) && mapfile tp_lines; } <"$tp_file" 2>/dev/null; then
    tp_why='cannot be read on this node'
  elif ! [[ $tp_stat == "$EUID|600|"* || $tp_stat == "$EUID|400|"* ]]; then
    tp_why="has owner|mode|bytes $tp_stat, expected owner $EUID and mode 600 or 400"
  else
    for tp_line in ${tp_lines[@]+"${tp_lines[@]}"}; do
      tp_text+=$tp_line
      if [[ $tp_line == "$tp_name="* ]]; then
        tp_line=${tp_line%$'\n'} tp_value=${tp_line#*=}
        tp_found+=1
      fi
    done
    if [[ ${#tp_text} != "${tp_stat##*|}" ]]; then
      tp_why='holds NUL bytes, or was written while it was read'
    elif ((tp_found != 1)); then
      tp_why="holds this name $tp_found times"
    elif [[ -z $tp_value || $tp_value == [\'\"]* || $tp_value == *[[:cntrl:]]* ]]; then
      tp_why='holds no value for it, one in quotes, or one with control characters'
    elif ! declare -gx -- "$tp_prefix$tp_name=$tp_value"; then
      tp_why='holds a name that cannot be set here'
    fi
  fi
  [[ -z $tp_why ]] && return 0
  printf 'tp: secret %s: the file %s %s\n' "$tp_name" "$tp_file" "$tp_why" >&2
  return 1
}
"""
