"""Site files: every fault is named with file, line and key, and those that ship have none."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import problems_of, replaced, whats

from tuneplane.durations import FORMS
from tuneplane.errors import SiteError
from tuneplane.resources import bundled
from tuneplane.sites import load
from tuneplane.sites.load import load_site, site_files

SITE = """\
schema: 1
title: {en: A site}
scheduler: slurm
slurm: {gpu_request: gres}
runtime: {kind: apptainer}
folders: {runs: /runs}
profiles:
  h200: {gpus_per_node: 8, cpus_per_node: 96}
default_profile: h200:8
default_time: 4h
"""
SLURM, PROFILE, RUNTIME, FOLDERS = (
    "slurm: {gpu_request: gres",
    "  h200: {gpus_per_node: 8",
    "runtime: {kind: apptainer",
    "folders: {runs: /runs",
)
FAULTS = [
    ("default_time: 4h", "default_time: 4h\nenvironment: {A-B: x}", "`A-B` is no name of a variable", "environment.A-B", ""),
    ("default_time: 4h", "default_time: 4h\nenvironment: {MASTER_PORT: '1'}", "`MASTER_PORT` belongs to the launcher", "environment.MASTER_PORT", ""),
    ("default_time: 4h", "default_time: 4h\nenvironment: {HF_TOKEN: x}", "`HF_TOKEN` looks like a secret, which stands in the secrets file", "environment.HF_TOKEN", ""),
    ("default_profile: h200:8", "default_profile: h100:8", "there is no profile `h100:8`", "default_profile", "one of h200"),
    ("default_time: 4h", "default_time: '90'", "90 could be 90 minutes (as Slurm reads it) or 90 seconds", "default_time", ""),
    (SLURM, SLURM + ", options: {nodes: {}}", "`nodes` belongs to tp", "slurm.options.nodes", None),
    (SLURM, SLURM + ", options: {array: {}}", "`array` belongs to tp", "slurm.options.array", None),
    (SLURM, SLURM + ", options: {acount: {}}", "users cannot set `acount`", "slurm.options.acount", "`account`?"),
    (SLURM, SLURM + ", add: {export: ALL}", "the directive `export` cannot be added", "slurm.add.export", ""),
    (SLURM, SLURM + ", add: {A: b}", "the directive `A` cannot be added", "slurm.add.A", ""),
    (SLURM, SLURM + ", add: {--x: b}", "the directive `--x` cannot be added", "slurm.add.--x", ""),
    (SLURM, SLURM + ", add: {x: false}", "a directive's value is printable text, a number or true", "slurm.add.x", ""),
    (SLURM, SLURM + ", add: {x: [1]}", "a directive's value is printable text, a number or true", "slurm.add.x", ""),
    (SLURM, SLURM + ', add: {x: "a\\n#SBATCH --export=ALL"}', "a directive's value is printable text, a number or true", "slurm.add.x", ""),
    (SLURM, SLURM + ", omit: [mem, export]", "every script needs the directive `export`", "slurm.omit.1", ""),
    (SLURM, SLURM + ", omit: [no-requeue]", "every script needs the directive `no-requeue`", "slurm.omit.0", ""),
    (SLURM, SLURM + ", omit: [memory]", "tp writes no directive `memory`", "slurm.omit.0", ""),
    (SLURM, SLURM + ", max_script_size: 0", "a limit is at least 1", "slurm.max_script_size", ""),
    ("gpu_request: gres", "gpu_request: tres", "`tres` does not fit", "slurm.gpu_request", "input should be 'gres', 'gpus-per-node', 'gpus' or 'none'"),
    (FOLDERS, FOLDERS + ", registry: shared", "`shared` is not absolute", "folders.registry", ""),
    ("default_time: 4h", "default_time: 4h\nkeep_published: '60'", "60 could be 60 minutes (as Slurm reads it) or 60 seconds", "keep_published", FORMS),
    ("default_time: 4h", "default_time: 4h\nkeep_published: ''", '`""` is not a length of time', "keep_published", FORMS),
    ("default_time: 4h", "default_time: 4h\nfreshness: {warn: soon}", "`soon` is not a length of time", "freshness.warn", FORMS),
    ("default_time: 4h", "default_time: 4h\nfreshness: {refuse: 1:30}", "1:30 could be 1 hours 30 minutes or 1 minutes 30 seconds (as Slurm reads it)", "freshness.refuse", FORMS),
    ("default_time: 4h", "default_time: 4h\nfreshness: {warn: 1d, refuse: 24h}", "a warning comes before the refusal", "freshness.warn", "a shorter time"),
    ("default_time: 4h", "default_time: 4h\npublishers: {uids: [0, -5]}", "a uid is not negative", "publishers.uids.1", ""),
    ("default_time: 4h", "default_time: 4h\npublishers: {gid: -5}", "a gid is not negative", "publishers.gid", ""),
    ("default_time: 4h", "default_time: 4h\npublishers: {uids: [alice]}", "`alice` does not fit", "publishers.uids.0", "input should be a valid integer"),
    (PROFILE, PROFILE.replace("8", "-1"), "a count is not negative", "profiles.h200.gpus_per_node", ""),
    (PROFILE, PROFILE + ", max_nodes: -1", "a count is not negative", "profiles.h200.max_nodes", ""),
    ("cpus_per_node: 96", "cpus_per_node: 0", "a count is at least 1", "profiles.h200.cpus_per_node", ""),
    (PROFILE, PROFILE + ", processes_per_node: 0", "a count is at least 1", "profiles.h200.processes_per_node", ""),
    (PROFILE, PROFILE + ", memory: 1.5G", "`1.5G` is no memory size of Slurm such as `1800G`", "profiles.h200.memory", ""),
    (PROFILE, PROFILE + ", memory_per_gpu: 1GiB", "`1GiB` is no memory size of Slurm such as `1800G`", "profiles.h200.memory_per_gpu", ""),
    (PROFILE, PROFILE + ", memory_per_gpu: 10x", "`10x` is no memory size of Slurm such as `1800G`", "profiles.h200.memory_per_gpu", ""),
    (PROFILE, PROFILE + ", memory: '-5'", "`-5` is no memory size of Slurm such as `1800G`", "profiles.h200.memory", ""),
    (PROFILE, PROFILE + ", memory: '１G'", "`１G` is no memory size of Slurm such as `1800G`", "profiles.h200.memory", ""),
    (PROFILE, PROFILE + ", max_time: 1:30", "1:30 could be 1 hours 30 minutes or 1 minutes 30 seconds (as Slurm reads it)", "profiles.h200.max_time", ""),
    (PROFILE, PROFILE + ", gpu_type: 'a b'", "`a b` is no GPU type", "profiles.h200.gpu_type", ""),
    (PROFILE, PROFILE + ", gpu_type: 'h200:2'", "`h200:2` is no GPU type", "profiles.h200.gpu_type", ""),
    (PROFILE, "  'a b': {cpus_per_node: 1}\n" + PROFILE, "`a b` is no name of a profile", "profiles.a b", ""),
    (PROFILE, "  'a:1': {cpus_per_node: 1}\n" + PROFILE, "`a:1` is no name of a profile", "profiles.a:1", ""),
    (PROFILE, PROFILE + ", gpus_node: 3", "unknown key `gpus_node`", "profiles.h200.gpus_node", "`gpus_per_node`?"),
    (RUNTIME, RUNTIME + ", binds: [/a, data]", "`data` is not absolute", "runtime.binds.1", ""),
    (RUNTIME, RUNTIME + ", apptainer: apptainer", "`apptainer` is not absolute", "runtime.apptainer", ""),
    (RUNTIME, RUNTIME + ", images: {x: x.sif}", "`x.sif` is not absolute", "runtime.images.x", ""),
    ("kind: apptainer", "kind: host, images: {x: /x.sif}", "a site on the host has no images", "runtime.images", ""),
    (RUNTIME, RUNTIME + ", enroot: bin/enroot", "`bin/enroot` is not absolute", "runtime.enroot", ""),
    (RUNTIME, RUNTIME + ", home: maybe", "`maybe` does not fit", "runtime.home", "input should be a valid boolean"),
    (RUNTIME, RUNTIME + ", writable: 1", "`1` does not fit", "runtime.writable", "input should be a valid boolean"),
    (RUNTIME, RUNTIME + ", verify: some", "`some` does not fit", "runtime.verify", "input should be 'samples' or 'full'"),
    (RUNTIME, RUNTIME + ", staging: {folder: nvme}", "`nvme` is not absolute", "runtime.staging.folder", ""),
    (RUNTIME, RUNTIME + ", staging: {folder: ~/x}", "`~/x` is not absolute", "runtime.staging.folder", ""),
    (RUNTIME, RUNTIME + ", staging: {folder: /nvme, keep_free: much}", "`much` is no size such as `10G`", "runtime.staging.keep_free", ""),
    (RUNTIME, RUNTIME + ", staging: {keep_free: 10%}", "`10%` is no size such as `10G`", "runtime.staging.keep_free", ""),
    (RUNTIME, RUNTIME + ", staging: {max_age: soon}", "`soon` is not a length of time", "runtime.staging.max_age", FORMS),
    (RUNTIME, RUNTIME + ", staging: {max_age: '30'}", "30 could be 30 minutes (as Slurm reads it) or 30 seconds", "runtime.staging.max_age", FORMS),
    (RUNTIME, RUNTIME + ", staging: {fold: /nvme}", "unknown key `fold`", "runtime.staging.fold", "`folder`?"),
    (RUNTIME, RUNTIME + ", staging: /nvme", "`/nvme` does not fit", "runtime.staging", None),
    ("kind: apptainer", "kind: docker", "`docker` does not fit", "runtime.kind", "input should be 'host', 'apptainer', 'pyxis' or 'enroot'"),
    ("kind: apptainer", "kind: pyxis, binds: ['/a b']", "pyxis cannot mount `/a b`: a space is in it", "runtime.binds.0", ""),
    ("kind: apptainer", "kind: pyxis, binds: ['/a,b:ro']", "pyxis cannot mount `/a,b:ro`: a comma is in it", "runtime.binds.0", ""),
    ("kind: apptainer", "kind: enroot, binds: [/a, '/a:/b:ro']", "enroot cannot mount `/a:/b:ro`: a colon is in it", "runtime.binds.1", ""),
    (FOLDERS, FOLDERS + ", images: built", "`built` is not absolute", "folders.images", ""),
    (PROFILE, PROFILE + ", arch: arm64", "`arm64` does not fit", "profiles.h200.arch", "input should be 'x86_64' or 'aarch64'"),
    (PROFILE, PROFILE + ", arch: ''", '`""` does not fit', "profiles.h200.arch", "input should be 'x86_64' or 'aarch64'"),
    (FOLDERS, FOLDERS.replace("/runs", "runs"), "`runs` is not absolute", "folders.runs", ""),
    (FOLDERS, FOLDERS + ", scratch: ~/x", "`~/x` is not absolute", "folders.scratch", ""),
    (FOLDERS, FOLDERS + ", model_cache: ~bob/x", "`~bob/x` is not absolute", "folders.model_cache", ""),
    (FOLDERS, FOLDERS + ", secrets: x", "`x` is not absolute", "folders.secrets", ""),
    ("default_time: 4h", "default_time: 4h\nenvironment: {A-B: x}", "`A-B` is no name of a variable", "environment.A-B", ""),
    ("default_time: 4h", "default_time: 4h\npath: [/bin, bin]", "`bin` is no absolute folder", "path.1", ""),
    ("default_time: 4h", "default_time: 4h\npath: ['/bin:/tmp']", "`/bin:/tmp` is no absolute folder", "path.0", ""),
    ("default_time: 4h", "default_time: 4h\ninherit: [PATH]", "only a local site on the host inherits variables", "inherit", ""),
    ("default_time: 4h", "default_time: 4h\nfreeze: {max_files: 0}", "a limit is at least 1", "freeze.max_files", ""),
    ("default_time: 4h", "default_time: 4h\nfreeze: {max_bytes: -1}", "a limit is at least 1", "freeze.max_bytes", ""),
    ("scheduler: slurm", "scheduler: pbs", "`pbs` does not fit", "scheduler", "input should be 'slurm' or 'local'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "what", "key", "expected"), FAULTS)
def test_a_fault_has_its_place(
    tmp_path: Path, old: str, new: str, what: str, key: str, expected: str | None
) -> None:
    file = tmp_path / "s.yaml"
    text = replaced(SITE, (old, new))
    file.write_text(text)
    with pytest.raises(SiteError) as caught:
        load_site(str(file))
    (problem,) = problems_of(caught)
    changed = [
        i
        for i, (a, b) in enumerate(zip(text.splitlines(), [*SITE.splitlines(), ""], strict=False), 1)
        if a != b
    ]
    line = changed[0]
    assert (problem.what, problem.where) == (what, f"{file}:{line} {key}")
    assert expected is None or problem.expected == expected


def test_the_site_that_the_cases_change_is_valid(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SITE)
    found = load_site(str(tmp_path / "s.yaml"))
    assert (found.name, found.file, found.site.profiles["h200"].gpus_per_node) == (
        "s",
        tmp_path / "s.yaml",
        8,
    )


def test_all_faults_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        replaced(
            SITE,
            ("default_time: 4h", "default_time: '4'"),
            (FOLDERS, "folders: {runs: runs"),
            ("8, cpus", "-8, cpus"),
        )
    )
    with pytest.raises(SiteError) as caught:
        load_site(str(tmp_path / "s.yaml"))
    assert len(whats(caught)) == 3


@pytest.mark.parametrize("kind", ["pyxis", "enroot"])
@pytest.mark.parametrize("key", ["runs", "scratch", "model_cache"])
def test_a_folder_that_a_container_cannot_see(tmp_path: Path, kind: str, key: str) -> None:
    """Runs, scratch and models are mounted; where images are built is not."""
    folders = {"runs": "/runs", "images": "/my images", key: "/shared: all"}
    text = ", ".join(f"{name}: '{place}'" for name, place in folders.items())
    changes = (("kind: apptainer", f"kind: {kind}"), (f"{FOLDERS}}}", f"folders: {{{text}}}"))
    (tmp_path / "s.yaml").write_text(replaced(SITE, *changes))
    with pytest.raises(SiteError) as caught:
        load_site(str(tmp_path / "s.yaml"))
    (problem,) = problems_of(caught)
    assert problem.what == f"{kind} cannot mount `/shared: all`: a space or a colon is in it"
    assert problem.where == f"{tmp_path}/s.yaml:6 folders.{key}"
    (tmp_path / "s.yaml").write_text(replaced(SITE, changes[1]))
    assert load_site(str(tmp_path / "s.yaml")).site.folders.images == "/my images"


def test_pyxis_without_slurm(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        replaced(SITE, ("kind: apptainer", "kind: pyxis"), ("scheduler: slurm", "scheduler: local"))
    )
    with pytest.raises(SiteError) as caught:
        load_site(str(tmp_path / "s.yaml"))
    (problem,) = problems_of(caught)
    assert (problem.what, problem.where) == (
        "pyxis is a plugin of Slurm",
        f"{tmp_path}/s.yaml:5 runtime.kind",
    )


@pytest.mark.parametrize("folder", ["/a,b", "/a:b"])
def test_where_an_image_cannot_be_written_over(tmp_path: Path, folder: str) -> None:
    changes = ((RUNTIME, f"{RUNTIME}, writable: true"), (FOLDERS, f"{FOLDERS}, scratch: '{folder}'"))
    (tmp_path / "s.yaml").write_text(replaced(SITE, *changes))
    with pytest.raises(SiteError) as caught:
        load_site(str(tmp_path / "s.yaml"))
    assert whats(caught) == [f"Apptainer cannot write over an image in `{folder}`"]
    (tmp_path / "s.yaml").write_text(replaced(SITE, changes[1]))
    assert load_site(str(tmp_path / "s.yaml")).site.folders.scratch == folder


def test_what_a_site_says_of_its_images(tmp_path: Path) -> None:
    """And what holds where it says nothing."""
    (tmp_path / "s.yaml").write_text(SITE)
    site = load_site(str(tmp_path / "s.yaml")).site
    runtime = site.runtime
    assert (runtime.home, runtime.writable, runtime.verify, runtime.enroot) == (False, False, "samples", "/usr/bin/enroot")  # fmt: skip
    staging = runtime.staging
    assert (staging.folder, staging.keep_free, staging.max_age) == ("", "10G", "30d")
    assert (site.profiles["h200"].arch, site.folders.images) == ("x86_64", "")
    said = "home: true, writable: true, verify: full, staging: {folder: '/nvme/{user}', keep_free: 1T, max_age: 12h}"
    (tmp_path / "s.yaml").write_text(
        replaced(
            SITE,
            (RUNTIME, f"{RUNTIME}, {said}"),
            (PROFILE, f"{PROFILE}, arch: aarch64"),
            (FOLDERS, f"{FOLDERS}, images: ~/images"),
        )
    )
    site = load_site(str(tmp_path / "s.yaml")).site
    assert (site.runtime.home, site.runtime.writable, site.runtime.verify) == (True, True, "full")
    assert site.runtime.staging.folder == "/nvme/{user}" and site.runtime.staging.keep_free == "1T"
    assert (site.profiles["h200"].arch, site.folders.images) == ("aarch64", "~/images")


@pytest.mark.parametrize(
    "directive", ["mem", "exclusive", "cpus-per-task", "ntasks-per-node", "mail-type", "open-mode"]
)
def test_directives_that_can_be_left_out(tmp_path: Path, directive: str) -> None:
    (tmp_path / "s.yaml").write_text(replaced(SITE, (SLURM, f"{SLURM}, omit: [{directive}]")))
    assert load_site(str(tmp_path / "s.yaml")).site.slurm.omit == [directive]


# --- finding ---


@pytest.mark.parametrize("file", sorted(bundled("site-configs").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_site_that_ships_is_valid(file: Path) -> None:
    found = load_site(str(file))
    assert found.site.title.zh and found.digest


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The admin's and the user's folder of sites."""
    admin, user = tmp_path / "admin", tmp_path / "user"
    admin.mkdir()
    user.mkdir()
    monkeypatch.setattr(load, "site_folders", lambda: [admin, user, bundled("site-configs")])
    return admin, user


def test_the_admins_site_outranks_the_users_and_the_bundled(folders: tuple[Path, Path]) -> None:
    admin, user = folders
    (user / "local.yaml").write_text(SITE)
    assert load_site("local").file == user / "local.yaml"
    (admin / "local.yaml").write_text(replaced(SITE, ("default_time: 4h", "default_time: 5h")))
    assert load_site("local").site.default_time == "5h"
    assert list(site_files()) == sorted(site_files())


def test_the_default_site(folders: tuple[Path, Path]) -> None:
    admin, user = folders
    (user / "mine.yaml").write_text(SITE)
    assert load_site(None).file == bundled("site-configs") / "local.yaml"
    (admin / "one.yaml").write_text(SITE)
    assert load_site(None).name == "one"
    (admin / "two.yaml").write_text(SITE)
    with pytest.raises(SiteError) as caught:
        load_site(None)
    (problem,) = problems_of(caught)
    assert (problem.what, problem.expected, problem.hint) == (
        "this machine has several sites",
        "one, two",
        "tp --site NAME …",
    )


def test_a_site_that_there_is_not(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(SiteError) as caught:
        load_site("slurm-aptainer")
    assert whats(caught) == ["there is no site `slurm-aptainer`, did you mean `slurm-apptainer`?"]
    with pytest.raises(SiteError, match="cannot read"):
        load_site(str(tmp_path / "gone.yaml"))


def test_a_file_is_read_again_when_it_changes_and_its_digest_with_it(
    tmp_path: Path, cold_cache: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SITE)
    first, again = load_site(str(file)), load_site(str(file))
    assert first == again
    file.write_text(SITE + "private_runs: true\n")
    changed = load_site(str(file))
    assert (first.site.private_runs, changed.site.private_runs) == (False, True)
    assert first.digest != changed.digest


def test_a_site_with_broken_yaml_is_the_sites_fault(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("a: [\n")
    with pytest.raises(SiteError) as caught:
        load_site(str(tmp_path / "s.yaml"))
    assert caught.value.exit_code == 6 and "s.yaml:2" in problems_of(caught)[0].where


# --- its recipes ---


def test_recipes_of_a_site(tmp_path: Path) -> None:
    from builders import write_recipe

    from tuneplane.in_force import catalog_of

    file = tmp_path / "s.yaml"
    file.write_text(SITE + "recipes: [ours]\n")
    with pytest.raises(SiteError) as caught:
        catalog_of(load_site(str(file)))
    assert problems_of(caught)[0].what == f"the recipe folder {tmp_path}/ours does not exist"
    write_recipe(tmp_path / "ours")
    assert {"toy/tuned", "custom/custom"} <= set(catalog_of(load_site(str(file))).entries)
