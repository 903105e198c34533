"""Run folders: whole or not at all, found again by any of their names."""

from __future__ import annotations

import errno
import itertools
import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest
from builders import problems_of, site, whats
from plan.cases import plan

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import InputError, SiteError
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.plan.model import Plan
from tuneplane.runs import folder as runs
from tuneplane.runs.folder import all_runs, create, find_run, read_run, run_ids, runs_folder
from tuneplane.runs.helper import helper
from tuneplane.sites.model import Site

FILES = Snapshot.of({"main.py": b"print()\n", "bin/x": b"#!/bin/sh\n"}, executables=["bin/x"])


@pytest.fixture
def here(tmp_path: Path) -> Site:
    return site(folders={"runs": str(tmp_path / "of 'all'" / "runs")})


@pytest.fixture
def made(tuned: Recipe) -> Plan:
    return plan(tuned, "params: {note: 'é世'}")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_everything_a_job_needs_is_there(here: Site, made: Plan) -> None:
    run = create(here, made, "#!/bin/bash -p\necho é\n", FILES, helper())
    assert run.folder.parent == runs_folder(here)
    assert re.fullmatch(r"exp-[a-km-z2-9]{8}", run.id)
    assert sorted(os.listdir(run.folder)) == sorted(
        ["attempts", "files", "files.sha256", "helper", "helper.sha256", "job.sbatch", "output", "run.json"])  # fmt: skip
    assert (run.folder / "job.sbatch").read_bytes() == "#!/bin/bash -p\necho é\n".encode()
    assert (run.folder / "files.sha256").read_bytes() == FILES.manifest
    assert (run.folder / "files/main.py").read_bytes() == b"print()\n"
    assert not list((run.folder / "attempts").iterdir()) and not list((run.folder / "output").iterdir())
    assert (run.folder / "helper/start").exists()
    again = read_run(run.folder)
    assert again is not None and again.job is None and again.plan["params"] == made.params
    assert json.loads((run.folder / "run.json").read_text())["plan"]["provenance"]["method"] == "toy/tuned"


@pytest.mark.parametrize(("private", "folder_mode"), [(False, 0o750), (True, 0o700)])
def test_modes_hold_whatever_the_umask(tmp_path: Path, made: Plan, private: bool, folder_mode: int) -> None:
    for umask in (0o000, 0o077):
        before = os.umask(umask)
        try:
            run = create(
                site(folders={"runs": str(tmp_path)}, private_runs=private), made, "x", FILES, Snapshot.of({})
            )
        finally:
            os.umask(before)
        assert mode(run.folder) == folder_mode
        assert mode(run.folder / "files/main.py") == 0o444 and mode(run.folder / "files/bin/x") == 0o555
        assert mode(run.folder / "job.sbatch") & 0o007 == 0 and mode(run.folder / "run.json") & 0o007 == 0


def test_ids_differ(here: Site, made: Plan) -> None:
    found = {create(here, made, "x", FILES, Snapshot.of({})).id for _ in range(5)}
    assert len(found) == 5 and run_ids(here) == sorted(found)


def test_a_taken_id_is_not_taken_twice(here: Site, made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("a" * 8 + "a" * 8 + "b" * 8)
    monkeypatch.setattr(runs.secrets, "choice", lambda _: next(letters))
    ids = [create(here, made, "x", FILES, Snapshot.of({})).id for _ in range(2)]
    assert ids == ["exp-aaaaaaaa", "exp-bbbbbbbb"]


# --- nothing half-written ---


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["write_whole", "write_json"])
def test_a_full_disk_leaves_nothing(
    here: Site, made: Plan, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(runs, what, full)
    with pytest.raises(SiteError) as caught:
        create(here, made, "x", FILES, helper())
    assert re.fullmatch(
        r"cannot write the run folder `.*/exp-\w{8}`: No space left on device", whats(caught)[0]
    )
    assert run_ids(here) == []


def test_a_disk_that_fills_at_any_file_leaves_nothing(
    here: Site, made: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th synced file or made folder is the one that does not fit any more, for every n there is."""
    real = {name: getattr(os, name) for name in ("mkdir", "replace")}
    for last in itertools.count(2):
        calls = itertools.count(1)

        def counted(name: str, calls: Any = calls, last: int = last) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if "/exp-" in str(args[0]) and next(calls) == last:
                    full()
                return real[name](*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, counted(name))
            try:
                create(here, made, "x", FILES, Snapshot.of({"start": b""}))
            except SiteError as error:
                assert "No space left on device" in str(error)
            else:
                break
        assert run_ids(here) == []
    # run.json, job.sbatch, two manifests, and the folders that this Python makes through `os`
    assert last >= 6 and len(run_ids(here)) == 1


def test_an_interrupt_leaves_nothing(here: Site, made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create(here, made, "x", FILES, helper())
    assert run_ids(here) == []


def test_a_place_that_cannot_be_made(tmp_path: Path, made: Plan) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SiteError) as caught:
        create(site(folders={"runs": str(tmp_path / "file/runs")}), made, "x", FILES, helper())
    assert whats(caught) == [f"cannot make a run folder in `{tmp_path}/file/runs`: Not a directory"]


# --- finding ---


def write(root: Path, name: str, record: Any = None) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    data = {"schema": 1, "plan": {}} if record is None else record
    (folder / "run.json").write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return folder


@pytest.fixture
def some(here: Site) -> Path:
    root = runs_folder(here)
    for name in ("exp-aaaaaaaa", "exp-abbbbbbb", "exp", "other-ccccccc"):
        write(root, name)
    return root


@pytest.mark.parametrize(
    ("word", "found"),
    [("exp-aa", "exp-aaaaaaaa"), ("exp-aaaaaaaa", "exp-aaaaaaaa"), ("exp", "exp"), ("o", "other-ccccccc")],
)
def test_a_run_is_found_by_its_id_or_the_beginning_of_it(
    here: Site, some: Path, word: str, found: str
) -> None:
    assert find_run(here, word).folder == some / found


def test_a_run_is_found_by_its_folder(
    here: Site, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = write(tmp_path, "elsewhere")
    assert find_run(here, str(elsewhere)).folder == elsewhere
    monkeypatch.chdir(tmp_path)
    assert find_run(here, "./elsewhere").folder == elsewhere
    with pytest.raises(InputError) as caught:
        find_run(here, "./gone")
    assert whats(caught) == ["`./gone` is not a run folder"]


def test_words_that_name_no_run_or_several(here: Site, some: Path) -> None:
    for word, what, expected in (
        ("exp-a", "`exp-a` could be 2 runs", "exp-aaaaaaaa, exp-abbbbbbb"),
        ("", '`""` could be 4 runs', "exp, exp-aaaaaaaa, exp-abbbbbbb, other-ccccccc"),
        ("exp-aaaaaaab", "there is no run `exp-aaaaaaab`, did you mean `exp-aaaaaaaa`?", ""),
        ("zzz", "there is no run `zzz`", ""),
        ("..", "there is no run `..`", ""),
    ):
        with pytest.raises(InputError) as caught:
            find_run(here, word)
        assert (problems_of(caught)[0].what, problems_of(caught)[0].expected) == (what, expected)


def test_without_any_run(here: Site) -> None:
    assert run_ids(here) == [] and list(all_runs(here)) == []
    with pytest.raises(InputError, match="there is no run `x`"):
        find_run(here, "x")


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{",
        b"\0",
        b"[" * 100_000,
        [],
        {},
        {"schema": 2, "plan": {}},
        {"schema": 1},
        {"schema": 1, "plan": []},
    ],
)
def test_damaged_records_are_no_runs(here: Site, some: Path, record: Any) -> None:
    folder = write(some, "bad-xxxxxxxx", record)
    assert read_run(folder) is None
    assert [run.id for run in all_runs(here)] == ["exp", "exp-aaaaaaaa", "exp-abbbbbbb", "other-ccccccc"]
    with pytest.raises(InputError, match="there is no run `bad-xxxxxxxx`"):
        find_run(here, "bad-xxxxxxxx")


@pytest.mark.parametrize(
    ("data", "job"), [(b'{"id": "7"}', {"id": "7"}), (b"{", None), (b"[]", None), (b"", None)]
)
def test_a_damaged_job_record_is_none(here: Site, some: Path, data: bytes, job: Any) -> None:
    (some / "exp/job.json").write_bytes(data)
    assert find_run(here, "exp").job == job


def test_the_users_name_and_home_in_the_runs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster the home of the password database: a job there knows no other."""
    user = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("LOGNAME", "somebody")
    folders = {"runs": "~/r/{user}"}
    assert runs_folder(site(folders=folders, scheduler="local")) == Path("/home/x/r", user.pw_name)
    assert runs_folder(site(folders=folders)) == Path(user.pw_dir, "r", user.pw_name)


# --- the helper ---


def test_the_helper_is_the_same_for_every_run_and_whole() -> None:
    assert helper().digest == helper().digest
    paths = {file.path for file in helper().files}
    assert {
        "start",
        "supervise.py",
        "tuneplane/__init__.py",
        "tuneplane/report.py",
        "tuneplane/job/main.py",
    } <= paths
    assert not any("__pycache__" in path for path in paths)
