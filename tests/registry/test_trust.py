"""Whom a registry is believed from: each refusal, and what is none."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders import problems_of, whats
from registry.shelves import OWN, content, publish_all, read_word

from tuneplane.errors import LockError
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import newest
from tuneplane.registry.refresh import refresh
from tuneplane.registry.trust import check

STRANGER = 54321
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def trusted(tmp_path: Path) -> Registry:
    """A registry with a publication, three folders deep, that only its owner can change."""
    found = Registry(tmp_path / "one/two/registry", OWN)
    publish_all(found, "a")
    return found


def faults(registry: Registry) -> list[str]:
    try:
        check(registry)
    except LockError as error:
        return [problem.what for problem in error.problems]
    return []


def test_a_registry_of_its_publishers(trusted: Registry) -> None:
    """Below a folder that everybody may write to but is sticky and root's: the system's own for temporary files."""
    check(trusted)
    temporary = Path(tempfile.gettempdir())
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o1777, "what this test is about"
    with tempfile.TemporaryDirectory() as folder:
        publish_all(Registry(Path(folder), OWN), "a")


def places(registry: Registry) -> dict[str, Path]:
    return {"the registry": registry.root, "serials": registry.serials, "catalogs": registry.catalogs, "artifacts": registry.artifacts, "a folder above": registry.root.parent,
            "a folder far above": registry.root.parents[1], "CURRENT": registry.current, "CHECKED": registry.checked}  # fmt: skip


PLACES = [
    "the registry",
    "serials",
    "catalogs",
    "artifacts",
    "a folder above",
    "a folder far above",
    "CURRENT",
    "CHECKED",
]


@pytest.mark.parametrize("place", PLACES)
def test_writable_by_everybody(trusted: Registry, place: str) -> None:
    path = places(trusted)[place]
    path.chmod(0o757)
    assert faults(trusted) == [f"`{path}` is writable by everybody"]


@pytest.mark.parametrize("place", PLACES)
def test_writable_by_a_group(trusted: Registry, place: str) -> None:
    path = places(trusted)[place]
    path.chmod(0o775)
    gid = path.stat().st_gid
    assert faults(trusted) == [f"`{path}` is writable by gid {gid}"]
    assert faults(replace(trusted, gid=gid)) == []
    assert faults(replace(trusted, gid=gid + 1)) == [f"`{path}` is writable by gid {gid}"]


@root_only
@pytest.mark.parametrize("place", PLACES)
def test_owned_by_somebody_else(trusted: Registry, place: str) -> None:
    path = places(trusted)[place]
    os.chown(path, STRANGER, -1)
    assert faults(trusted) == [f"`{path}` belongs to uid {STRANGER}"]
    assert faults(replace(trusted, uids=OWN | {STRANGER})) == []


@root_only
@pytest.mark.parametrize("mode", [0o1777, 0o1770])
def test_sticky_helps_above_the_registry_and_not_in_it(trusted: Registry, mode: int) -> None:
    """In it everybody could make the next serial."""
    trusted.root.parent.chmod(mode)
    assert faults(trusted) == []
    os.chown(trusted.root.parent, STRANGER, -1)
    assert f"`{trusted.root.parent}` belongs to uid {STRANGER}" in faults(trusted)
    os.chown(trusted.root.parent, 0, -1)
    for place in (trusted.root, trusted.serials, trusted.catalogs):
        place.chmod(mode)
        assert faults(trusted) != []
        place.chmod(0o755)


def test_all_faults_are_named_with_what_is_expected(trusted: Registry) -> None:
    trusted.root.chmod(0o777)
    trusted.serials.chmod(0o757)
    with pytest.raises(LockError) as caught:
        check(replace(trusted, uids=frozenset({0, 7, 1001, *OWN}), gid=33))
    assert len(whats(caught)) == 3 and caught.value.exit_code == 4
    others = "".join(f" or uid {uid}" for uid in sorted({7, 1001, *OWN} - {0}))
    assert {p.expected for p in problems_of(caught)} == {
        f"owned by root{others}, and writable by nobody else but gid 33"
    }


@pytest.mark.parametrize("name", ["serials", "catalogs", "artifacts", "CURRENT", "CHECKED"])
def test_a_symbolic_link_inside(trusted: Registry, name: str) -> None:
    path = trusted.root / name
    path.rename(trusted.root.parent / name)
    path.symlink_to(trusted.root.parent / name)
    assert faults(trusted) == [f"`{path}` is a symbolic link"]


@pytest.fixture
def linked(trusted: Registry, tmp_path: Path) -> Callable[[Path], Registry]:
    """The registry through a link, as sites have them."""

    def make(target: Path) -> Registry:
        (tmp_path / "apps").mkdir()
        (tmp_path / "apps/link").symlink_to(target)
        return replace(trusted, root=tmp_path / "apps/link/registry")

    return make


@pytest.mark.parametrize("relative", [True, False])
def test_a_link_on_the_way_is_followed_and_its_folders_are_checked(
    trusted: Registry, linked: Callable[[Path], Registry], tmp_path: Path, relative: bool
) -> None:
    through = linked(Path("../one/./two") if relative else trusted.root.parent)
    assert faults(through) == [] and read_word(through) == "a"
    (tmp_path / "one").chmod(0o757)
    assert faults(through) == [f"`{tmp_path / 'one'}` is writable by everybody"]
    (tmp_path / "one").chmod(0o755)
    (tmp_path / "apps").chmod(0o757)
    assert faults(through) == [f"`{tmp_path / 'apps'}` is writable by everybody"]


@root_only
def test_a_link_of_a_stranger(trusted: Registry, linked: Callable[[Path], Registry], tmp_path: Path) -> None:
    through = linked(trusted.root.parent)
    os.chown(tmp_path / "apps/link", STRANGER, -1, follow_symlinks=False)
    assert faults(through) == [f"`{tmp_path / 'apps/link'}` belongs to uid {STRANGER}"]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    [what] = faults(Registry(tmp_path / "a/registry", OWN))
    assert what.startswith("cannot look at ") and "Too many levels of symbolic links" in what


def test_a_folder_that_cannot_be_looked_into(trusted: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path == trusted.root:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert faults(trusted) == [f"cannot look at `{trusted.root}`: Permission denied"]


@pytest.fixture(params=[True, False], ids=["file", "folder"])
def with_serial(
    trusted: Registry, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The newest serial, in either of its forms."""
    if not request.param:
        monkeypatch.setattr(os, "link", lambda *_: os.stat(""))
    refresh(trusted, content("b"))
    yield trusted.serial(2)


@root_only
def test_a_serial_of_somebody_else(trusted: Registry, with_serial: Path) -> None:
    for place in (with_serial, with_serial / "serial.json") if with_serial.is_dir() else (with_serial,):
        os.chown(place, STRANGER, -1)
        with pytest.raises(LockError) as caught:
            newest(trusted)
        assert whats(caught) == [f"`{with_serial}` belongs to uid {STRANGER}"]
        os.chown(place, 0, -1)


def test_a_serial_that_everybody_may_write(trusted: Registry, with_serial: Path) -> None:
    for place in (with_serial, with_serial / "serial.json") if with_serial.is_dir() else (with_serial,):
        mode = stat.S_IMODE(place.stat().st_mode)
        place.chmod(mode | 0o002)
        with pytest.raises(LockError, match="is writable by everybody"):
            newest(trusted)
        place.chmod(mode)


def test_readers_need_no_write_access(trusted: Registry) -> None:
    """Nothing changes when it is read, not even a time."""

    def state() -> list[tuple[str, int, int]]:
        return [(str(p), p.lstat().st_mtime_ns, p.lstat().st_ino) for p in sorted(trusted.root.rglob("*"))]

    before = state()
    check(trusted)
    assert read_word(trusted) == "a"
    assert state() == before
