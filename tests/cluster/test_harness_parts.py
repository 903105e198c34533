"""The harness's parts that need neither root nor a cluster."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from cluster.harness import ClusterSpec, HarnessError, config, requirements, rootfs, tools
from cluster.harness.debian import mirror, preferences

BOOT = Path(__file__).parent / "harness/boot.sh"


def apt(folder: Path, **files: str) -> Path:
    (folder / "sources.list.d").mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_mirror_from_one_line_sources(tmp_path: Path) -> None:
    text = "# deb http://no/debian x main\ndeb-src http://src/debian x main\n"
    text += "deb [arch=amd64 signed-by=/k] http://sec/debian-security x main\ndeb [ a=b ] http://one.example/debian/ trixie main\n"
    assert mirror(apt(tmp_path, sources_list=text)) == "http://one.example/debian"


def test_mirror_from_stanzas(tmp_path: Path) -> None:
    text = "Types: deb\nURIs: http://off/debian\nEnabled: no\n\nTypes: deb-src\nURIs: http://src/debian\n\n"
    text += "Types: deb deb-src\n# a remark\nURIs:\n http://sec/debian-security\n https://two.example/debian\nSuites: sid\n"
    folder = apt(tmp_path)
    (folder / "sources.list.d/debian.sources").write_text(text)
    assert mirror(folder) == "https://two.example/debian"


def test_no_mirror(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no Debian mirror"):
        mirror(apt(tmp_path, sources_list="deb http://packages.example/other stable main\n"))


def test_only_pinned_packages_come_from_the_other_suite() -> None:
    assert preferences(["apptainer"], "sid") == (
        "Package: *\nPin: release n=sid\nPin-Priority: 100\n\nPackage: apptainer\nPin: release n=sid\nPin-Priority: 990\n"
    )


def test_a_recipe_names_all_that_a_root_contains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "mirror", lambda: "http://one.example/debian")
    assert rootfs.dependencies()
    assert any(name.startswith("pydantic") for name in rootfs.dependencies())
    digests = {tools.digest(rootfs.recipe(suite)) for suite in rootfs.SUITES}
    assert len(digests) == 3
    with pytest.raises(HarnessError, match="no such suite: `woody`"):
        rootfs.recipe("woody")


@pytest.mark.parametrize(
    ("nodes", "small", "expected"),
    [
        (3, 1, [("h200", 8), ("h200", 8), ("l4", 2)]),
        (3, 0, [("h200", 8)] * 3),
        (2, 9, [("h200", 8), ("l4", 2)]),
        (1, 1, [("h200", 8)]),
    ],
)
def test_pretend_gpus_of_the_nodes(nodes: int, small: int, expected: list[tuple[str, int]]) -> None:
    spec = ClusterSpec(nodes=nodes, small_nodes=small)
    assert [spec.gpus(host) for host in spec.compute] == expected
    assert spec.gpus("login") == ("none", 0)


def test_gres_and_hosts() -> None:
    spec = ClusterSpec(nodes=2, login2=True)
    assert config.gres_conf(spec) == (
        "NodeName=n1 Name=gpu Type=h200 File=/var/lib/pretend-gpus/gpu[0-7]\n"
        "NodeName=n2 Name=gpu Type=l4 File=/var/lib/pretend-gpus/gpu[0-1]\n"
    )
    assert config.hosts_file(spec, 7) == (
        "127.0.0.1 localhost\n10.77.7.100 login\n10.77.7.101 login2\n10.77.7.1 n1\n10.77.7.2 n2\n"
    )


def test_settings_reach_slurm_conf() -> None:
    text = config.slurm_conf(
        ClusterSpec(slurmd_timeout=7, min_job_age=2, kill_wait=3, slurm_conf=("Extra=1",)), "tptest1", 1
    )
    lines = text.splitlines()
    for line in (
        "ClusterName=tptest1",
        "SlurmdTimeout=7",
        "MinJobAge=2",
        "KillWait=3",
        "MaxArraySize=1001",
        "AuthInfo=cred_expire=5",
    ):
        assert line in lines
    assert lines[-1] == "Extra=1"
    assert "Accounting" not in text
    assert set(config.files(ClusterSpec(), "x", 1)) == {"slurm.conf", "gres.conf", "cgroup.conf"}
    assert "slurmdbd.conf" in config.files(ClusterSpec(accounting=True), "x", 1)


@pytest.mark.parametrize("nodes", [0, 91])
def test_a_cluster_has_a_sensible_size(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"not {nodes}"):
        ClusterSpec(nodes=nodes)


def test_the_cache_never_lies_in_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUNEPLANE_TEST_CACHE", str(tools.repo_root() / "tests/cache"))
    with pytest.raises(HarnessError, match="inside the clone"):
        tools.cache_dir()
    monkeypatch.delenv("TUNEPLANE_TEST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tools.cache_dir() == tmp_path / "tuneplane-tests"


def test_a_thing_is_built_once_and_a_failed_build_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TUNEPLANE_TEST_CACHE", str(tmp_path))
    built: list[Path] = []

    def build(path: Path) -> None:
        built.append(path)
        path.write_text("x")
        if len(built) == 1:
            raise HarnessError("cut short")

    with pytest.raises(HarnessError, match="cut short"):
        tools.cached("kind", "thing", {"a": 1}, build, ".x")
    assert [path.name for path in (tmp_path / "kind").iterdir() if not path.name.endswith(".lock")] == []
    threads = [
        threading.Thread(target=tools.cached, args=("kind", "thing", {"a": 1}, build, ".x")) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 2
    other = tools.cached("kind", "thing", {"a": 2}, build, ".x")
    assert len(built) == 3
    assert other.read_text() == "x"


def test_a_failing_program_shows_what_it_said() -> None:
    with pytest.raises(HarnessError, match=r"ended with 3: out\s+err"):
        tools.sh("sh", "-c", "echo out; echo err >&2; exit 3")
    with pytest.raises(HarnessError, match="`no-such-tool` is not installed"):
        tools.sh("no-such-tool")


def test_without_what_it_needs_a_test_skips_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "TOOLS", ("sh", "no-such-tool"))
    assert "`no-such-tool` is not installed" in requirements.missing()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert requirements.missing() == ["root rights"]
    with pytest.raises(pytest.skip.Exception, match="missing: root rights"):
        requirements.give_up(["root rights"], {})
    with pytest.raises(pytest.fail.Exception, match="missing: a; b"):
        requirements.give_up(["a", "b"], {"TUNEPLANE_REQUIRE_CLUSTER": "1"})


def test_the_boot_script_is_clean() -> None:
    subprocess.run(["sh", "-n", str(BOOT)], check=True)
