"""Debian roots: which mirror this machine uses, and a folder with a system in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .tools import HarnessError, sh, tool

APT = Path("/etc/apt")
_SKIPPED = ("doc", "info", "lintian", "locale", "man")


def _one_line_uris(text: str) -> Iterator[str]:
    """The addresses in a `sources.list`: `deb [options] URI SUITE COMPONENT...`."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] != "deb":
            continue
        words.pop(0)
        if words and words[0].startswith("["):
            while words and not words.pop(0).endswith("]"):
                pass
        if words:
            yield words[0]


def _deb822_uris(text: str) -> Iterator[str]:
    """The addresses in a `.sources` file, whose stanzas are parted by empty lines."""
    for stanza in text.split("\n\n"):
        fields: dict[str, list[str]] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            if not line[0].isspace():
                key, _, line = line.partition(":")
            fields.setdefault(key.lower(), []).extend(line.split())
        if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
            yield from fields.get("uris", [])


def mirror(apt: Path = APT) -> str:
    """The Debian mirror in the machine's apt configuration. Raises HarnessError when there is none."""
    uris: list[str] = []
    for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))):
        if path.suffix == ".list" and path.is_file():
            uris += _one_line_uris(path.read_text())
        elif path.suffix == ".sources" and path.is_file():
            uris += _deb822_uris(path.read_text())
    for uri in uris:
        if uri.startswith(("http://", "https://")) and uri.rstrip("/").endswith("/debian"):
            return uri.rstrip("/")
    raise HarnessError(f"no Debian mirror (an http address that ends in /debian) in {apt}")


def debootstrap(
    root: Path, suite: str, packages: Iterable[str], pinned: Sequence[str] = (), pin_suite: str = "sid"
) -> None:
    """Make `root` a small Debian of a suite with these packages.

    `pinned` packages come from `pin_suite`, with as few others from there as apt finds possible.
    """
    wanted = [*packages, *pinned]
    with tempfile.TemporaryDirectory() as folder:
        sources, prefs = Path(folder, "apt.list"), Path(folder, "preferences")
        suites = [suite, *([pin_suite] if pinned else [])]
        sources.write_text("".join(f"deb {mirror()} {name} main\n" for name in suites))
        prefs.write_text(preferences(pinned, pin_suite))
        options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _SKIPPED]
        if pinned:
            options.append(f'--setup-hook=install -D -m 644 {prefs} "$1/etc/apt/preferences.d/harness"')
        sh(
            "mmdebstrap", "--mode=root", "--variant=minbase", "--quiet",
            # a mirror that lags, or a frozen one, is good enough for tests
            '--aptopt=Acquire::Check-Valid-Until "false"',
            f"--include={','.join(wanted)}", *options, suite, root, sources,
        )  # fmt: skip


def preferences(pinned: Sequence[str], suite: str) -> str:
    """apt preferences: nothing from `suite` but the pinned packages and what they cannot do without."""
    rows = [("*", 100), *((name, 990) for name in pinned)]
    return "\n".join(
        f"Package: {name}\nPin: release n={suite}\nPin-Priority: {prio}\n" for name, prio in rows
    )


def in_root(root: Path, *argv: str, binds: Iterable[tuple[Path, str]] = ()) -> str:
    """Run a program inside a root, with its own /proc and the folders of `binds`; gives its output."""
    script = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
    pairs: list[str] = []
    for source, target in binds:
        inside = root / target.lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        pairs += [str(source), str(inside)]
    enter = [tool("unshare"), "--pid", "--fork", "--kill-child", f"--root={root}", "--mount-proc"]
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    return sh("unshare", "--mount", "sh", "-ec", script, "sh", *pairs, "--", *enter, *argv, env=env)
