"""The frozen snapshot: which files, what it is named by, and that the real coreutils notice every change."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneplane.errors import InputError
from tuneplane.experiment.freeze import TRIES, Limits, freeze
from tuneplane.experiment.ignore import ignored as left_out_by
from tuneplane.experiment.ignore import parse as rules_of
from tuneplane.experiment.snapshot import CHECK_SH, FrozenFile, Snapshot

GIT = shutil.which("git") or ""
needs_git = pytest.mark.skipif(not GIT, reason="needs git")
STRANGE = 'it\'s a "strange" $(folder) é `x`; #1'


@pytest.fixture
def exp(tmp_path: Path) -> Path:
    folder = tmp_path / STRANGE
    folder.mkdir()
    return folder


def make(folder: Path, *paths: str, content: str = "x\n") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def git(folder: Path, *arguments: str) -> None:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run([GIT, *identity, *arguments], cwd=folder, env=clean, check=True, capture_output=True)


def names(frozen: Snapshot) -> list[str]:
    return [file.path for file in frozen.files]


def reasons(frozen: Snapshot) -> dict[str, str]:
    return dict(frozen.left_out)


def check(folder: str, manifest: str, digest: str, *, cwd: Path | None = None) -> tuple[int, str]:
    script = f'set -eu\n{CHECK_SH}\nif tp_check_tree "$@"; then exit 0; else exit $?; fi'
    result = subprocess.run(
        ["/bin/bash", "-p", "-c", script, "bash", folder, manifest, digest, "files"],
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert result.stdout == ""
    return result.returncode, result.stderr


def written(frozen: Snapshot, place: Path) -> tuple[Path, Path]:
    frozen.write(place / "files")
    (place / "manifest").write_bytes(frozen.manifest)
    return place / "files", place / "manifest"


def checked(frozen: Snapshot, place: Path) -> tuple[int, str]:
    return check(str(place / "files"), str(place / "manifest"), frozen.digest)


# --- what a snapshot is ---


def test_of_sorts_bytewise_and_the_digest_does_not_depend_on_order() -> None:
    one = Snapshot.of({"b": b"1", "a/z": b"2", "a.b": b"3", "é": b"4", "Z": b"5"}, executables=["b"])
    two = Snapshot.of({"é": b"4", "Z": b"5", "a.b": b"3", "a/z": b"2", "b": b"1"}, executables=["b"])
    assert names(one) == ["Z", "a.b", "a/z", "b", "é"]
    assert one == two and one.digest == two.digest
    assert len(one.digest) == 64


@pytest.mark.parametrize(
    "other",
    [
        Snapshot.of({"a": b"2"}),
        Snapshot.of({"b": b"1"}),
        Snapshot.of({"a": b"1", "b": b""}),
        Snapshot.of({"a": b"1"}, executables=["a"]),
        Snapshot((FrozenFile("a", target="b"),)),
        Snapshot(()),
    ],
)
def test_every_difference_gives_another_digest(other: Snapshot) -> None:
    assert other.digest != Snapshot.of({"a": b"1"}).digest


def test_what_was_left_out_is_no_part_of_the_digest() -> None:
    files = Snapshot.of({"a": b"1"}).files
    assert Snapshot(files, (("b", "a cache"),)) == Snapshot(files)


def test_text_and_data_follow_links_inside() -> None:
    frozen = Snapshot(
        (
            FrozenFile("d", target="real"),
            FrozenFile("l", target="real/../real/a"),
            FrozenFile("loop", target="loop"),
            FrozenFile("real/a", b"caf\xc3\xa9"),
            FrozenFile("real/bad", b"\xff"),
        )
    )
    assert frozen.text("l") == frozen.text("d/a") == "café"
    assert frozen.text("nothing") is None and frozen.data("real") is None and frozen.data("loop") is None
    assert frozen.data("real/bad") == b"\xff"
    with pytest.raises(InputError, match="is not UTF-8 text"):
        frozen.text("real/bad")


@pytest.mark.parametrize("path", ["a\nb", "", "/a", "a/../b", "a//b", "./a", "\udcff", "a\x7f"])
def test_of_refuses_a_path_that_a_manifest_cannot_name(path: str) -> None:
    with pytest.raises(InputError):
        Snapshot.of({path: b""})


def test_write_makes_read_only_files_in_folders_that_are_easy_to_remove(tmp_path: Path) -> None:
    frozen = Snapshot.of({"a/b/run.sh": b"#!/bin/sh\n", "c": b"\0" * 100_000}, executables=["a/b/run.sh"])
    old = os.umask(0o002)
    try:
        frozen.write(tmp_path / "f")
    finally:
        os.umask(old)
    modes = {str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    assert modes == {"f": 0o755, "f/a": 0o755, "f/a/b": 0o755, "f/a/b/run.sh": 0o555, "f/c": 0o444}
    with pytest.raises(FileExistsError):
        frozen.write(tmp_path / "f")


# --- the check on the node ---

TREE = Snapshot(
    (
        FrozenFile("-", b"dash"),
        FrozenFile("*", b"star"),
        FrozenFile(" a b ", b"spaces"),
        FrozenFile("back\\slash\\n", b"1"),
        FrozenFile("link", target="sub/train.py"),
        FrozenFile("run.sh", b"#!/bin/sh\n", executable=True),
        FrozenFile("sub/train.py", b"print()\n"),
        FrozenFile("é$(x)'\"", b""),
    )
)


def test_check_accepts_what_was_written(exp: Path) -> None:
    folder, manifest = written(TREE, exp)
    assert check(str(folder), str(manifest), TREE.digest) == (0, "")
    assert check("files", "manifest", TREE.digest, cwd=exp) == (0, "")
    result = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", str(manifest)], cwd=folder)
    assert result.returncode == 0


@pytest.mark.parametrize("name", ["-", "--help", "-n", "$(id)", "a\nb"])
def test_check_takes_any_folder_name(exp: Path, name: str) -> None:
    TREE.write(exp / name)
    (exp / "m").write_bytes(TREE.manifest)
    assert check(name, "m", TREE.digest, cwd=exp) == (0, "")
    assert check(str(exp / name), "m", TREE.digest, cwd=exp) == (0, "")


def test_check_of_an_empty_snapshot_and_of_links_only(tmp_path: Path) -> None:
    for number, frozen in enumerate([Snapshot(()), Snapshot((FrozenFile("a", target="."),))]):
        place = tmp_path / str(number)
        place.mkdir()
        written(frozen, place)
        assert checked(frozen, place) == (0, "")


def rewrite(path: Path, content: str) -> None:
    path.chmod(0o644)
    path.write_text(content)


def replace_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: rewrite(f / "sub/train.py", "evil"), "files: sub/train.py: FAILED"),
        (lambda f: rewrite(f / "-", "evil"), "files: ./-: FAILED"),
        (lambda f: rewrite(f / "back\\slash\\n", "evil"), "slash\\n: FAILED"),
        (lambda f: (f / "sub/train.py").unlink(), "files: sub/train.py: removed"),
        (lambda f: (f / "-").unlink(), "files: -: removed"),
        (lambda f: (f / "back\\slash\\n").unlink(), "files: back\\\\slash\\\\n: removed"),
        (lambda f: make(f, "sub/new é.py"), "files: sub/new é.py: added"),
        (lambda f: make(f, "a\x1bb\nc"), "files: a?b\\nc: added"),
        (lambda f: (f / "run.sh").chmod(0o444), "an executable bit"),
        (lambda f: (f / "sub/train.py").chmod(0o555), "files: -r-xr-xr-x sub/train.py"),
        (lambda f: replace_link(f / "link", "run.sh"), "files: lrwxrwxrwx link run.sh"),
        (lambda f: (f / "other").symlink_to("/etc"), "files: lrwxrwxrwx other /etc"),
        (lambda f: (f / "link").unlink(), "an executable bit, a link or a special file"),
        (lambda f: replace_link(f / "sub/train.py", "../run.sh"), "sub/train.py: removed, or no regular"),
        (lambda f: os.mkfifo(f / "pipe"), "files: prw-"),
    ],
)  # fmt: skip
def test_check_names_what_changed(exp: Path, change: object, said: str) -> None:
    folder, _ = written(TREE, exp)
    change(folder)  # type: ignore[operator]
    code, errors = checked(TREE, exp)
    assert code == 1 and said in errors, errors
    assert all(line.startswith("files: ") for line in errors.splitlines())


def test_check_refuses_another_manifest_and_missing_things(exp: Path) -> None:
    folder, manifest = written(TREE, exp)
    assert check(str(folder), str(manifest), "0" * 64) == (
        1,
        "files: the manifest is not the one that was submitted\n",
    )
    manifest.write_bytes(TREE.manifest + b"\n")
    assert checked(TREE, exp)[0] == 1
    manifest.unlink()
    assert "files: the manifest cannot be read" in checked(TREE, exp)[1]
    manifest.write_bytes(TREE.manifest)
    folder.rename(exp / "away")
    assert "files: the folder cannot be entered" in checked(TREE, exp)[1]


def test_the_manifest_is_what_sha256sum_prints(tmp_path: Path) -> None:
    frozen = Snapshot.of({"a b": b"1", "c\\d": b"2", "é": b"3"})
    frozen.write(tmp_path / "f")
    printed = subprocess.run(["sha256sum", *names(frozen)], cwd=tmp_path / "f", capture_output=True).stdout
    assert frozen.manifest.split(b"\n", 1)[1] == printed


FILE_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="/"),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(FILE_NAMES, st.binary(max_size=20), max_size=6), marks=st.integers(0, 63))
def test_check_agrees_for_any_names(tmp_path: Path, files: dict[str, bytes], marks: int) -> None:
    place = tmp_path / "p"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    frozen = Snapshot.of(files, [name for bit, name in enumerate(files) if marks >> bit & 1])
    written(frozen, place)
    assert checked(frozen, place) == (0, "")
    assert freeze(place / "files", name="e").files == tuple(
        file for file in frozen.files if file.path not in reasons(freeze(place / "files", name="e"))
    )


def test_check_sh_passes_shellcheck(tmp_path: Path) -> None:
    tool = shutil.which("shellcheck")
    if not tool:
        pytest.skip("needs shellcheck")
    (tmp_path / "s").write_text(f"#!/bin/bash -p\n{CHECK_SH}")
    assert subprocess.run([tool, tmp_path / "s"], capture_output=True, text=True).stdout == ""


# --- which files are frozen ---


def test_freeze_takes_files_executable_bits_and_inner_links(exp: Path) -> None:
    make(
        exp,
        "config.yaml",
        "src/a.py",
        "src/run.sh",
        "tokenizer.json",
        "token_utils.py",
        "lib/logs/x.py",
        ".tpignore",
    )
    (exp / "src/run.sh").chmod(0o755)
    (exp / "src/link").symlink_to("../config.yaml")
    (exp / "code").symlink_to("src")
    (exp / "chain").symlink_to("code/link")
    frozen = freeze(exp, name="e")
    assert names(frozen) == sorted(
        ["config.yaml", "src/a.py", "src/run.sh", "src/link", "code", "chain", "tokenizer.json", "token_utils.py",
         "lib/logs/x.py", ".tpignore"]
    )  # fmt: skip
    assert {f.path: f.target for f in frozen.files if f.target} == {
        "src/link": "../config.yaml",
        "code": "src",
        "chain": "code/link",
    }
    assert [f.path for f in frozen.files if f.executable] == ["src/run.sh"]
    assert frozen.left_out == ()


@pytest.mark.parametrize(
    "path",
    [".git/config", ".git", "a/__pycache__/x.pyc", "a/b.pyc", ".pytest_cache/x", ".mypy_cache/x",
     ".ipynb_checkpoints/x", "a/.cache/x", ".venv/x", "venv/x", "web/node_modules/x", "output/x", "outputs/x",
     "runs/x", "checkpoints/x", "wandb/x", "tensorboard/x", "logs/x", "slurm-1.out", "a/slurm-22.out", ".env",
     ".env.local", "a/x.pem", "x.key", "id_rsa", "id_rsa.pub", "id_ed25519", "secrets.env", ".netrc", ".npmrc",
     ".pypirc", "hf_token", ".hf_token", "token.txt", "credentials", "credentials.json", ".aws/config", ".ssh/known",
     ".git-credentials"],
)  # fmt: skip
def test_freeze_never_takes(exp: Path, path: str) -> None:
    make(exp, "config.yaml", path)
    frozen = freeze(exp, name="e")
    assert names(frozen) == ["config.yaml"]
    assert len(frozen.left_out) == 1 and path.startswith(frozen.left_out[0][0])


@pytest.mark.parametrize(
    "path",
    ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "token_utils.py",
     "credentials.py", "env.py", "keys.json", "vocab/tokens.txt", "pkg/runs/a.py", "pkg/checkpoints/a.py", "venv.txt",
     "eos_token.txt", ".gitignore", "key.py", "slurm.out"],
)  # fmt: skip
def test_freeze_takes(exp: Path, path: str) -> None:
    make(exp, path)
    assert names(freeze(exp, name="e")) == [path]


def test_freeze_leaves_out_data_models_and_special_files(exp: Path, tmp_path: Path) -> None:
    make(exp, "a.py", "data/x", "data/deep/y", "models/m", "keep/z", "..b/c")
    os.mkfifo(exp / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(exp)
        try:
            made.bind("sock")
        finally:
            os.chdir(here)
    (tmp_path / "alias").symlink_to(exp)
    exclude = [Path("data"), tmp_path / "alias/models/m", Path("."), Path("/elsewhere")]
    frozen = freeze(exp, name="e", exclude=exclude)
    assert names(frozen) == ["..b/c", "a.py", "keep/z"]
    special = "a FIFO, socket or device"
    assert reasons(frozen) == {
        "data/": "data or a model",
        "models/m": "data or a model",
        "pipe": special,
        "sock": special,
    }
    assert names(freeze(tmp_path / "alias", name="e", exclude=[exp / "data"])) == [*names(frozen), "models/m"]


def test_freeze_leaves_out_links_that_lead_out_or_nowhere(exp: Path, tmp_path: Path) -> None:
    make(exp, "a", "output/o")
    (tmp_path / "secret").write_text("s")
    for name, target in {
        "abs": str(exp / "a"), "up": "../secret", "dir": "..", "away": "nothing", "loop": "loop", "o": "output/o",
        "second": "o", "sly": "d/../../secret", "inside": "./a", "d": ".",
    }.items():  # fmt: skip
        (exp / name).symlink_to(target)
    frozen = freeze(exp, name="e")
    assert names(frozen) == ["a", "d", "inside"]
    out, lost = "a link out of the folder", "a link to what is not frozen"
    assert reasons(frozen) == {
        "abs": out, "up": out, "dir": out, "sly": out, "away": lost, "loop": lost, "o": lost, "second": lost,
        "output/": "an output",
    }  # fmt: skip


def test_a_link_through_a_link_cannot_climb_out(exp: Path) -> None:
    make(exp, "deep/er/x", "b")
    (exp / "in").symlink_to("deep/er")
    (exp / "ok").symlink_to("in/../er/x")
    (exp / "climb").symlink_to("in/../../../b")
    assert names(freeze(exp, name="e")) == ["b", "deep/er/x", "in", "ok"]


def test_tpignore(exp: Path) -> None:
    make(
        exp,
        "a.log",
        "keep.log",
        "sub/b.log",
        "big/x",
        "big/y",
        "doc/a.md",
        "sub/doc/a.md",
        "t mp ",
        "logs/kept.py",
    )
    text = "# comment\n*.log\n!keep.log\n/doc\nbig/\n\n!/logs\nt mp\\ \r\n"
    (exp / ".tpignore").write_bytes(text.encode())
    frozen = freeze(exp, name="e")
    assert names(frozen) == [".tpignore", "keep.log", "logs/kept.py", "sub/doc/a.md"]
    assert set(reasons(frozen).values()) == {"named in .tpignore"}


def test_tpignore_cannot_take_back_a_secret_or_a_cache(exp: Path) -> None:
    make(exp, ".env", ".git/config", "a")
    (exp / ".tpignore").write_text("!.env\n!.git\n")
    assert names(freeze(exp, name="e")) == [".tpignore", "a"]


def test_tpignore_must_be_a_regular_text_file(exp: Path, tmp_path: Path) -> None:
    (exp / ".tpignore").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        freeze(exp, name="e")
    (exp / ".tpignore").unlink()
    (tmp_path / "t").write_text("a")
    (exp / ".tpignore").symlink_to("../t")
    with pytest.raises(InputError, match="tpignore"):
        freeze(exp, name="e")


PIECES = st.sampled_from(
    ["a", "b", "ab", "*", "?", "**", "[ab]", "[!a]", "[a-c]", "[[:alpha:]]", "\\a", "\\*", ".", "A", "é", " "]
)
# Not asked: `a**/b`, where git 2.39 reads `**/` after a literal as special although its manual says otherwise.
GLOBS = st.builds(
    lambda head, parts, tail: head + "/".join("".join(part) for part in parts) + tail,
    st.sampled_from(["", "!", "/", "!/", "**/", "#", "\\#", "\\!"]),
    st.lists(st.lists(PIECES, min_size=1, max_size=3), min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", " ", "\\ "]),
).filter(lambda glob: not re.search(r"[^/*]\*\*", glob.removeprefix("!")))
PATHS = [
    f"{a}{b}{c}"
    for a in ("", "a/", "b/", "ab/", "é/", "A/")
    for b in ("", "a/", "ab/", "c/")
    for c in ("f", "a b", "#a", "!a", "*", "abc", "a.b", "a ")
]


@needs_git
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(GLOBS, min_size=1, max_size=4))
def test_tpignore_agrees_with_git_check_ignore(tmp_path: Path, globs: list[str]) -> None:
    if not (tmp_path / ".git").exists():
        git(tmp_path, "init", "-q")
        make(tmp_path, *PATHS)
    text = "\n".join(globs) + "\n"
    (tmp_path / ".gitignore").write_text(text)
    result = subprocess.run(
        [GIT, "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=tmp_path, input="\0".join(PATHS).encode(), capture_output=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    expected = set(os.fsdecode(result.stdout).split("\0")) - {""}
    rules = rules_of(text, "x")

    def ignored(path: str) -> bool:
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(left_out_by(rules, folder, True) for folder in above) or bool(
            left_out_by(rules, path, False)
        )

    # to git `?` is a byte, here it is a character
    bytewise = any("?" in glob or "[" in glob for glob in globs)
    asked = [path for path in PATHS if path.isascii() or not bytewise]
    assert {path for path in asked if ignored(path)} == expected & set(asked)


# --- with git ---


@needs_git
def test_git_decides_which_files(exp: Path) -> None:
    top = exp / "repo"
    top.mkdir()
    git(top, "init", "-q")
    make(
        top,
        "outside.py",
        "exp/tracked.py",
        "exp/new é.py",
        "exp/gone.py",
        "exp/ign.bin",
        "exp/huge/x",
        "exp/forced.bin",
    )
    make(top, "exp/sub/.env")
    (top / ".gitignore").write_text("*.bin\nhuge/\n")
    git(top, "add", "exp/tracked.py", "exp/gone.py")
    git(top, "add", "-f", "exp/forced.bin", "exp/sub/.env")
    (top / "exp/gone.py").unlink()
    nested = top / "exp/nested"
    nested.mkdir()
    git(nested, "init", "-q")
    make(nested, "n.py")
    frozen = freeze(top / "exp", name="e")
    assert names(frozen) == ["forced.bin", "new é.py", "tracked.py"]
    assert reasons(frozen) == {
        "huge/": "ignored by git, or empty",
        "ign.bin": "ignored by git",
        "nested/": "a git repository of its own",
        "sub/.env": "looks like a secret",
    }


@needs_git
def test_a_submodule_is_named_and_left_out(exp: Path) -> None:
    make(exp, "other/x", "a.py")
    git(exp / "other", "init", "-q")
    git(exp / "other", "add", "x")
    git(exp / "other", "commit", "-qm", "x")
    git(exp, "init", "-q")
    git(exp, "add", "other", "a.py")
    frozen = freeze(exp, name="e")
    assert names(frozen) == ["a.py"]
    assert reasons(frozen)["other/"] == "a git repository of its own"


@needs_git
def test_git_gets_a_clean_environment(exp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(exp, "init", "-q")
    make(exp, "a.py", "b.bin")
    (exp / ".gitignore").write_text("*.bin\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert names(freeze(exp, name="e")) == [".gitignore", "a.py"]


@needs_git
def test_a_hostile_repository_cannot_run_a_program(exp: Path) -> None:
    git(exp, "init", "-q")
    make(exp, "a.py")
    git(exp, "config", "core.fsmonitor", "touch hit; false")
    freeze(exp, name="e")
    assert not (exp / "hit").exists()


@needs_git
def test_an_experiment_that_git_ignores_as_a_whole_is_frozen_as_without_git(exp: Path) -> None:
    git(exp, "init", "-q")
    (exp / ".gitignore").write_text("experiments/\n")
    make(exp, "experiments/e/a.py")
    assert names(freeze(exp / "experiments/e", name="e")) == ["a.py"]


def test_without_git_all_files_are_taken(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, ".git/HEAD", "a.py", "b.bin")
    (exp / ".gitignore").write_text("*.bin\n")
    assert names(freeze(exp, name="e")) == [".gitignore", "a.py", "b.bin"]  # a broken .git is no work tree
    monkeypatch.setenv("PATH", "")
    assert names(freeze(exp, name="e")) == [".gitignore", "a.py", "b.bin"]


# --- refusals ---


def refusal(folder: Path, **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        freeze(folder, name="my-exp", **options)  # type: ignore[arg-type]
    return caught.value.problems[0].lines()


def test_over_the_limit_of_bytes(exp: Path) -> None:
    for name, size in {"a": 10, "b": 2**32, "c": 2**31, "d": 5 * 2**20}.items():
        with open(exp / name, "wb") as file:
            file.truncate(size)
    assert refusal(exp) == [
        "the experiment has 6.005 GiB in 4 files to freeze; the largest are `b` (4 GiB), `c` (2 GiB), `d` (5 MiB)",
        "  at       my-exp",
        "  expected at most 64 MiB in 2000 files, limits that the site sets",
        "  try      name in `my-exp/.tpignore` what a job does not need, and keep data and models elsewhere",
    ]
    (exp / ".tpignore").write_text("/b\n/c\n")
    assert names(freeze(exp, name="e")) == [".tpignore", "a", "d"]


def test_over_the_limit_of_files(exp: Path) -> None:
    make(exp, *(f"f{n}" for n in range(5)))
    assert len(freeze(exp, name="e", limits=Limits(max_files=5)).files) == 5
    assert "in 5 files" in refusal(exp, limits=Limits(max_files=4))[0]
    assert freeze(exp, name="e", limits=Limits(max_bytes=10))
    assert refusal(exp, limits=Limits(max_bytes=9))


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1bb", b"\xff\xfe", b"d\x7f/x"])
def test_names_that_cannot_be_frozen(exp: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(exp), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").close()
    lines = refusal(exp)
    assert "cannot be frozen" in lines[0] and "UTF-8" in lines[1] and ".tpignore" in lines[2]
    assert all(line.isprintable() for line in lines)


def test_a_link_to_a_name_with_control_characters(exp: Path) -> None:
    (exp / "l").symlink_to("a\nb")
    assert names(freeze(exp, name="e")) == []


def test_a_search_without_end_is_cut_short(exp: Path) -> None:
    make(exp, *(f"{folder}/{n}" for folder in "abc" for n in range(11)))
    assert "has at least 22 B in 11 files" in refusal(exp, limits=Limits(max_files=1))[0]


def test_a_bad_name_that_is_left_out_is_no_matter_and_can_be_printed(exp: Path) -> None:
    os.makedirs(os.path.join(os.fsencode(exp), b"data/\xff"))
    open(os.path.join(os.fsencode(exp), b"a\xff.pyc"), "w").close()
    assert freeze(exp, name="e", exclude=[Path("data")]).left_out == (
        ("a\ufffd.pyc", "a cache"),
        ("data/", "data or a model"),
    )


def test_a_folder_that_is_not_there(exp: Path) -> None:
    assert "cannot be read" in refusal(exp / "nothing")[0]


def test_a_file_that_cannot_be_read(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, "a.py")
    real = os.open

    def refuse(path: object, *rest: object, **more: object) -> int:
        if path == "a.py":
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(exp)[:2] == ["`a.py` cannot be read", "  at       my-exp/a.py"]


# --- changes while it is read ---


def change_before_read(monkeypatch: pytest.MonkeyPatch, path: str, act: object, times: int) -> list[int]:
    """Call `act` before the first `times` openings of the file `path`; the list counts the openings."""
    real, calls = os.open, []

    def opened(name: object, *rest: object, **more: object) -> int:
        if name == path:
            calls.append(1)
            if len(calls) <= times:
                act()  # type: ignore[operator]
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    return calls


def test_a_file_that_changed_is_read_again(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, "a.py", "b.py")
    calls = change_before_read(monkeypatch, "b.py", lambda: make(exp, "b.py", content="longer\n" * 1000), 1)
    assert freeze(exp, name="e").text("b.py") == "longer\n" * 1000
    assert len(calls) == 2


def test_a_file_read_earlier_that_changes_later_starts_it_again(
    exp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(exp, "a.py", "b.py")
    for path in ("a.py", "b.py"):
        os.utime(exp / path, ns=(1, 1))
    change_before_read(monkeypatch, "b.py", lambda: make(exp, "a.py", content="y\n"), 1)
    assert freeze(exp, name="e").text("a.py") == "y\n"


def test_a_file_added_while_it_is_read_is_frozen_too(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, "b.py")
    change_before_read(monkeypatch, "b.py", lambda: make(exp, "c.py"), 1)
    assert names(freeze(exp, name="e")) == ["b.py", "c.py"]


def test_a_file_that_goes_away_is_not_frozen(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, "a.py", "b.py")
    change_before_read(monkeypatch, "b.py", lambda: (exp / "b.py").unlink(missing_ok=True), 1)
    assert names(freeze(exp, name="e")) == ["a.py"]


def test_a_file_swapped_for_a_link_or_a_fifo_is_not_followed(
    exp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(exp, "a.py", "sub/b.py", "sub/c.py")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/c.py").write_text("secret")

    def swap() -> None:
        if not (exp / "sub").is_symlink():
            (exp / "sub").rename(exp / "old")
            (exp / "sub").symlink_to(tmp_path / "out")

    change_before_read(monkeypatch, "sub", swap, 1)
    frozen = freeze(exp, name="e")
    assert names(frozen) == ["a.py", "old/b.py", "old/c.py"]
    assert reasons(frozen) == {"sub": "a link out of the folder"}


def test_a_file_that_keeps_changing_is_refused(exp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(exp, "a.py", "b.log")
    size = iter(range(1, 100))
    calls = change_before_read(monkeypatch, "b.log", lambda: make(exp, "b.log", content="x" * next(size)), 99)
    assert refusal(exp) == [
        "`b.log` keeps changing while the experiment is frozen",
        "  at       my-exp/b.log",
        "  expected a folder at rest for the moment of submitting",
        "  try      stop what writes to it, or name it in `.tpignore`",
    ]
    assert len(calls) == TRIES == 5
