"""Hub ids, resolved to a folder of the site's model cache on the login node, without network.

The layout of the cache is huggingface_hub's (read in 2.4.0, the same since 0.11):
`models--ORG--NAME/refs/REVISION` holds a commit, `snapshots/COMMIT/` its files as links into `blobs/`, where an
unfinished download leaves `ETAG.incomplete` (since 2.0 `ETAG.RANDOM.incomplete`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuneplane.errors import InputError, shown

Kind = Literal["model", "dataset"]

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_ID = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[A-Za-z0-9_][A-Za-z0-9_./+-]{{0,254}}))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")


@dataclass(frozen=True)
class Resolved:
    """A repository that the cache holds: `path` is the folder of the snapshot, `commit` its 40 hex digits."""

    path: Path
    repo: str
    commit: str


@dataclass(frozen=True)
class Missing:
    """A repository that the cache does not hold, or not whole; `reason` completes "`ORG/NAME` …"."""

    repo: str
    kind: Kind
    revision: str
    reason: str

    def download_command(self, cache: Path) -> str:
        """What to type where the Hub can be reached, quoted for a shell; a download that was cut off goes on."""
        from shlex import quote

        words = [f"HF_HUB_CACHE={quote(str(cache))}", "hf", "download", quote(self.repo)]
        words += ["--repo-type", "dataset"] if self.kind == "dataset" else []
        words += ["--revision", quote(self.revision)] if self.revision != "main" else []
        return " ".join(words)


def looks_like_hub_id(text: str) -> bool:
    """Whether `text` is `org/name` or `org/name@revision` by the Hub's rules for names.

    A relative path such as `data/train` looks the same: whoever asks decides first whether such a path exists.
    """
    return _split(text) is not None


def resolve(text: str, *, kind: Kind, cache: Path) -> Resolved | Missing:
    """The snapshot of the Hub id `text` in `cache` (`$HF_HOME/hub`), or why it cannot be used.

    The revision is a branch, a tag, a commit or at least 7 digits of one; `main` without. InputError when `text` is
    not a Hub id.
    """
    split = _split(text)
    if split is None:
        raise InputError.of(f"{shown(text)} is not a Hub id", expected="`org/name` or `org/name@revision`")
    repo, revision = split
    folder = _folder(repo, kind, cache)

    def missing(reason: str) -> Missing:
        return Missing(repo, kind, revision, reason)

    if not cache.is_dir():
        return missing(f"cannot be looked up: there is no model cache {shown(str(cache), 300)}")
    if not folder.is_dir():
        return missing(f"is not in the model cache {shown(str(cache), 300)}")
    commits = _commits(folder, revision)
    if len(commits) != 1:
        known = "several commits" if commits else "no revision"
        return missing(f"has {known} {shown(revision)} in the model cache")
    snapshot = folder / "snapshots" / commits[0]
    fault = _fault(snapshot, folder / "blobs", commits[0])
    return missing(fault) if fault else Resolved(snapshot, repo, commits[0])


def snapshot_of(text: str, kind: Kind, cache: Path, commit: str) -> Path:
    """Where the files of the Hub id `text` lie in `cache` at a commit, there or not."""
    repo = text.partition("@")[0]
    return _folder(repo, kind, cache) / "snapshots" / commit


def _folder(repo: str, kind: Kind, cache: Path) -> Path:
    return cache / f"{kind}s--{repo.replace('/', '--')}"


def _split(text: str) -> tuple[str, str] | None:
    """Repository and revision of a Hub id; None when `text` is not one."""
    match = _ID.fullmatch(text)
    if match is None:
        return None
    repo, revision = match["repo"], match["revision"] or "main"
    if "--" in repo or ".." in repo or repo.endswith(".git"):
        return None
    if ".." in revision or any(
        part.startswith(".") or part.endswith((".", ".lock")) for part in revision.split("/")
    ):
        return None
    return None if "" in revision.split("/") else (repo, revision)


def _commits(folder: Path, revision: str) -> list[str]:
    """The commits in `folder` that `revision` may mean: one when it is known and unambiguous."""
    if _COMMIT.fullmatch(revision):
        return [revision] if (folder / "snapshots" / revision).is_dir() else []
    try:
        commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if _COMMIT.fullmatch(commit):
        return [commit]
    if not _SHORT.fullmatch(revision):
        return []
    try:
        names = sorted(os.listdir(folder / "snapshots"))
    except OSError:
        return []
    return [name for name in names if _COMMIT.fullmatch(name) and name.startswith(revision)]


def _fault(snapshot: Path, blobs: Path, commit: str) -> str:
    """Why a snapshot cannot be used; empty when it is whole as far as its own files tell."""
    files = list(_files(snapshot))
    if not files:
        return f"has no files at commit {commit[:12]} in the model cache"
    for file in files:
        if not file.exists():
            return f"is not whole in the model cache: {shown(str(file.relative_to(snapshot)))} leads nowhere"
    for index in files:
        if index.parent == snapshot and index.name.endswith(".index.json"):
            lost = next((name for name in _shards(index) if not (snapshot / name).exists()), "")
            if lost:
                return f"is not whole in the model cache: {shown(lost)}, which {shown(index.name)} names, is missing"
    for blob in sorted(blobs.glob("*.incomplete")) if blobs.is_dir() else ():
        if not (blobs / blob.name.split(".")[0]).exists():
            return f"is not whole in the model cache: the download of {shown(blob.name)} was cut off or is under way"
    return ""


def _files(folder: Path) -> Iterator[Path]:
    """All entries under `folder` that are not folders, sorted, links not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        yield from (Path(parent) / name for name in sorted([*names, *links]))


def _shards(index: Path) -> list[str]:
    """The weight files that a Transformers index of shards names; none when it is not such an index."""
    import json

    try:
        found = json.loads(index.read_bytes())["weight_map"].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return sorted({name for name in found if isinstance(name, str)})
