"""A build that failed, in one sentence and with what to do: what Apptainer 1.4 and what runs in it say."""

from __future__ import annotations

import re
from pathlib import Path

from tuneplane.errors import ImageError, shown

ENDED = 143
"""The exit code of a script that a signal ended."""
_LAST = 5
_IDS = "ranges for this user in /etc/subuid and /etc/subgid with newuidmap and newgidmap installed, or a build as root"
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (r"no space left on device|disk quota exceeded", "there is no room left", "room in `folders.scratch`, or in `folders.images`"),
    (
        r"failed to change uid and gids|newuidmap|newgidmap|/etc/subuid|could not use fakeroot|fakeroot command not found",
        "Apptainer cannot act as root for this user", _IDS,
    ),
    (
        r"user namespace|max_user_namespaces|unprivileged.*namespace",
        "this machine lets no user make the namespaces that Apptainer builds in",
        "another machine, apptainer-suid, or a build as root",
    ),
    (r"unused build args: (\S+)", "the definition has no argument {0}", ""),
    (
        r"unauthorized|authentication required|requested access to the resource is denied|403 forbidden",
        "the registry asks who you are, or has no such image", "apptainer registry login --username NAME docker://REGISTRY",
    ),
    (r"manifest unknown|manifest_unknown|name unknown", "the registry has no such image", ""),
    (r"No matching distribution found for (\S+)", "the package index has no {0}", "--build-arg index=URL|FOLDER"),
    (
        r"no such host|dial tcp|network is unreachable|connection refused|i/o timeout|temporary failure in name resolution|TLS handshake timeout|could not resolve",
        "the network cannot be reached from there", "a machine that reaches it (with or without --job), or a file to import",
    ),
    (r"exec format error", "its programs are for another kind of processor", "a build on a node of that kind, with --job"),
    (r"while running %post|post.*exit status", "the %post of the definition failed", ""),
    (r"while running %?test|failed to execute %test", "the %test of the definition failed", ""),
)  # fmt: skip
"""Pattern → sentence and what to try, the first that is found counts."""
_NOISE = re.compile(r"rootless\{|^\s*$|^[+\[]|^tuneplane: on |^created \d|^Parallel unsquashfs")


def failed(runtime_id: str, code: int, log: str, work: Path) -> ImageError:
    """The error of a build that ended badly. code: its exit code; log: the end of what it said; work: the folder that is kept."""
    what, hint = ("it was ended by a signal", "") if code == ENDED else explained(log)
    error = ImageError.of(
        f"the image of {runtime_id} was not made: {what}",
        shown(str(work / "build.log"), 400)[1:-1],
        hint=hint,
    )
    assert isinstance(error, ImageError)
    return error


def explained(log: str) -> tuple[str, str]:
    """A sentence and what to try."""
    for pattern, sentence, hint in _KNOWN:
        if match := re.search(pattern, log, re.IGNORECASE):
            return sentence.format(*(shown(group) for group in match.groups())), hint
    said = re.findall(r"^(?:FATAL: +|tuneplane: (?!on ))(.*)$", log, re.M)
    # Apptainer's own word comes before that of the script, which is that it failed
    return (shown(said[0], 300)[1:-1] if said else "it says nothing of why"), ""


def last_lines(log: str) -> list[str]:
    """The last lines of a build that a reader may want to see."""
    lines = [line.rstrip() for line in log.splitlines() if not _NOISE.search(line)]
    return lines[-_LAST:]
