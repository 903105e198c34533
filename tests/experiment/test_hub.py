"""Hub ids against caches in the layout of huggingface_hub, made by hand."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tuneplane.errors import InputError
from tuneplane.experiment.hub import Kind, Missing, Resolved, looks_like_hub_id, resolve

ONE, TWO = "1234567" + "a" * 33, "1234567" + "b" * 33


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "it's $HOME/hüb"
    folder.mkdir(parents=True)
    return folder


def add(cache: Path, commit: str, *files: str, ref: str = "", kind: str = "models") -> Path:
    """A repository `org/name` with a snapshot whose files are links into blobs."""
    repo = cache / f"{kind}--org--name"
    snapshot = repo / "snapshots" / commit
    (repo / "blobs").mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    for number, name in enumerate(files):
        blob = repo / "blobs" / f"{commit[7]}{number}"
        blob.write_text("{}")
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
    if ref:
        (repo / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (repo / "refs" / ref).write_text(commit)
    return snapshot


def reason(cache: Path, text: str = "org/name", kind: Kind = "model") -> str:
    found = resolve(text, kind=kind, cache=cache)
    assert isinstance(found, Missing)
    return found.reason.replace(str(cache), "CACHE")


@pytest.mark.parametrize(
    "text",
    ["Qwen/Qwen2.5-7B-Instruct", "a/b", "org/name@main", "org/name@v1.0", "org/name@refs/pr/12", f"org/name@{ONE}",
     "o_r.g/n-a.me_", "org/" + "x" * 96, "org/name@feature/new-thing", "data/train.parquet"],
)  # fmt: skip
def test_hub_ids(text: str) -> None:
    assert looks_like_hub_id(text)


@pytest.mark.parametrize(
    "text",
    ["", "name", "/org/name", "./org/name", "../name", "org/name/", "a/b/c", "org//name", "org/-name", "org/name-",
     "org/.name", "org/name.", ".org/name", "org--x/name", "org/na--me", "org/na..me", "org/name.git", "org/na me",
     "org/näme", "org/" + "x" * 97, "~/models", "org/name@", "org/name@../x", "org/name@a//b", "org/name@/a",
     "org/name@a/", "org/name@.a", "org/name@a.lock", "org/name@-x", "org/name@a b", "org/name@a/.b", "org/name\n",
     "s3://bucket/x", "org/name@main@x"],
)  # fmt: skip
def test_not_hub_ids(text: str) -> None:
    assert not looks_like_hub_id(text)
    with pytest.raises(InputError, match="is not a Hub id"):
        resolve(text, kind="model", cache=Path("/nowhere"))


@pytest.mark.parametrize(
    ("text", "ref"),
    [("org/name", "main"), ("org/name@main", "main"), ("org/name@v1.0", "v1.0"), ("org/name@feature/x", "feature/x"),
     ("org/name@refs/pr/1", "refs/pr/1"), (f"org/name@{ONE}", ""), (f"org/name@{ONE[:8]}", ""),
     (f"org/name@{ONE[:7]}", ONE[:7])],
)  # fmt: skip
def test_revisions(cache: Path, text: str, ref: str) -> None:
    snapshot = add(cache, ONE, "config.json", "sub/model.safetensors", ref=ref)
    add(cache, TWO, "config.json")
    assert resolve(text, kind="model", cache=cache) == Resolved(snapshot, "org/name", ONE)


def test_datasets_lie_apart_from_models(cache: Path) -> None:
    snapshot = add(cache, ONE, "data/train.parquet", ref="main", kind="datasets")
    assert resolve("org/name", kind="dataset", cache=cache) == Resolved(snapshot, "org/name", ONE)
    assert reason(cache) == "is not in the model cache `CACHE`"


def test_a_cache_without_links(cache: Path) -> None:
    snapshot = cache / "models--org--name" / "snapshots" / ONE
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert resolve(f"org/name@{ONE}", kind="model", cache=cache) == Resolved(snapshot, "org/name", ONE)


def test_what_is_missing(cache: Path) -> None:
    assert reason(cache / "no").startswith("cannot be looked up: there is no model cache")
    add(cache, ONE, "config.json")
    add(cache, TWO, "config.json")
    assert reason(cache) == "has no revision `main` in the model cache"
    assert reason(cache, "org/name@1234567") == "has several commits `1234567` in the model cache"
    assert reason(cache, "org/name@123456") == "has no revision `123456` in the model cache"
    assert reason(cache, f"org/name@{'c' * 40}").startswith("has no revision")
    (cache / "models--org--name/refs").mkdir()
    (cache / "models--org--name/refs/main").write_text("not a commit")
    assert reason(cache) == "has no revision `main` in the model cache"
    (cache / "models--org--name/refs/main").write_text("d" * 40)
    assert reason(cache) == "has no files at commit dddddddddddd in the model cache"


def test_an_empty_snapshot(cache: Path) -> None:
    (add(cache, ONE, ref="main") / "folder").mkdir()
    assert reason(cache) == f"has no files at commit {ONE[:12]} in the model cache"


def test_an_interrupted_download(cache: Path) -> None:
    add(cache, ONE, "config.json", "sub/model.safetensors", ref="main")
    blobs = cache / "models--org--name/blobs"
    (blobs / "a1.0f0f0f0f.incomplete").touch()  # left by an attempt before the one that ended
    assert isinstance(resolve("org/name", kind="model", cache=cache), Resolved)
    (blobs / "ff.incomplete").touch()
    assert "the download of `ff.incomplete` was cut off or is under way" in reason(cache)
    (blobs / "ff.incomplete").unlink()
    (blobs / "a1").unlink()
    assert reason(cache) == "is not whole in the model cache: `sub/model.safetensors` leads nowhere"


def test_a_link_to_a_folder_that_is_not_there(cache: Path) -> None:
    (add(cache, ONE, "config.json", ref="main") / "sub").symlink_to("nowhere")
    assert reason(cache) == "is not whole in the model cache: `sub` leads nowhere"


def test_a_shard_that_was_never_begun(cache: Path) -> None:
    snapshot = add(cache, ONE, "a.safetensors", "other.index.json", ref="main")
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "`b.safetensors`, which `model.safetensors.index.json` names, is missing" in reason(cache)
    (snapshot / "b.safetensors").touch()
    assert isinstance(resolve("org/name", kind="model", cache=cache), Resolved)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [("org/name", "model", ["org/name"]),
     ("org/name@main", "dataset", ["org/name", "--repo-type", "dataset"]),
     ("org/name@v1/x", "dataset", ["org/name", "--repo-type", "dataset", "--revision", "v1/x"])],
)  # fmt: skip
def test_the_command_to_type(cache: Path, text: str, kind: Kind, words: list[str]) -> None:
    found = resolve(text, kind=kind, cache=cache)
    assert isinstance(found, Missing)
    command = found.download_command(cache)
    assert command == f"HF_HUB_CACHE={shlex.quote(str(cache))} hf download {' '.join(words)}"
    typed = f'hf() {{ printf "%s\\0" "$HF_HUB_CACHE" "$@"; }}; {command}'
    printed = subprocess.run(["/bin/bash", "-c", typed], capture_output=True, check=True).stdout
    assert os.fsdecode(printed).split("\0")[:-1] == [str(cache), "download", *words]


def test_needs_no_huggingface_hub() -> None:
    code = "import sys, tuneplane.experiment.hub; sys.exit('huggingface_hub' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})
