"""Faults of a site file that its shape alone does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuneplane.documents.tree import Node, at
from tuneplane.durations import FORMS, LONGEST, parse_duration
from tuneplane.errors import Problem, nearest, shown
from tuneplane.names import refusal
from tuneplane.sites.kinds import unmountable
from tuneplane.sites.model import Profile, Site
from tuneplane.sites.options import ALWAYS, OWNED, USER_OPTIONS
from tuneplane.sizes import is_size
from tuneplane.visible import visible

_PROFILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_GPU_TYPE = re.compile(r"[A-Za-z0-9_.-]*\Z")


def problems(site: Site, tree: Node) -> Iterator[Problem]:
    """Every fault with its place in the file."""

    def fault(what: str, *path: str | int, expected: str = "") -> Problem:
        mark, key = at(tree, path)
        return Problem(what, mark.at(key), expected)

    if site.default_profile.partition(":")[0] not in site.profiles:
        expected = "one of " + ", ".join(site.profiles)
        yield fault(
            f"there is no profile {shown(site.default_profile)}", "default_profile", expected=expected
        )
    try:
        parse_duration(site.default_time)
    except ValueError as error:
        yield fault(str(error), "default_time")
    for name, profile in site.profiles.items():
        for what, key in _profile(name, profile):
            yield fault(what, "profiles", name, *key)
    for name in site.slurm.options:
        if name not in USER_OPTIONS:
            close = nearest(name, USER_OPTIONS)
            expected = f"`{close}`?" if close else "one of " + ", ".join(sorted(USER_OPTIONS))
            what = f"{shown(name)} belongs to tp" if name in OWNED else f"users cannot set {shown(name)}"
            yield fault(what, "slurm", "options", name, expected=expected)
    for name, value in site.slurm.add.items():
        if name in OWNED or not re.fullmatch(r"[a-z][a-z-]*", name):
            yield fault(f"the directive {shown(name)} cannot be added", "slurm", "add", name)
        if not isinstance(value, (str, int)) or value is False or not visible(str(value)):
            yield fault("a directive's value is printable text, a number or true", "slurm", "add", name)
    for i, name in enumerate(site.slurm.omit):
        if name in ALWAYS:
            yield fault(f"every script needs the directive {shown(name)}", "slurm", "omit", i)
        elif name not in OWNED and name.replace("-", "_") not in USER_OPTIONS:
            yield fault(f"tp writes no directive {shown(name)}", "slurm", "omit", i)
    for path in (
        ("freeze", "max_bytes"),
        ("freeze", "max_files"),
        ("slurm", "max_script_size"),
        ("slurm", "submit_timeout"),
    ):
        if getattr(getattr(site, path[0]), path[1]) < 1:
            yield fault("a limit is at least 1", *path)
    yield from _publishing(site, fault)
    for name in site.environment:
        if why := refusal(name):
            yield fault(f"{shown(name)} {why}", "environment", name)
    for i, folder in enumerate(site.path):
        if not folder.startswith("/") or ":" in folder:
            yield fault(f"{shown(folder)} is no absolute folder", "path", i)
    yield from _places(site, fault)
    if site.inherit and (site.scheduler, site.runtime.kind) != ("local", "host"):
        yield fault("only a local site on the host inherits variables", "inherit")
    yield from _runtime(site, fault)
    yield from _coming_back(site, fault)


def _coming_back(site: Site, fault) -> Iterator[Problem]:  # type: ignore[no-untyped-def]
    """Heartbeat, requeue policy and preflight."""
    for path in (("network", "heartbeat"), ("requeue", "warning")):
        value = getattr(getattr(site, path[0]), path[1])
        try:
            if parse_duration(value) < 4:
                yield fault("this is shorter than 4 seconds", *path)
        except ValueError as error:
            yield fault(str(error), *path, expected=FORMS)
    if site.requeue.attempts < 1:
        yield fault("a run starts at least once", "requeue", "attempts")
    if site.requeue.policy != "none" and site.scheduler != "slurm":
        yield fault("only Slurm starts a run again", "requeue", "policy")
    need = site.preflight
    for key in ("scratch", "shared_memory", "run_folder"):
        if not is_size(getattr(need, key)):
            yield fault(f"{shown(getattr(need, key))} is no size such as `10G`", "preflight", key)
    if need.memlock not in ("", "unlimited") and not is_size(need.memlock):
        yield fault(
            f"{shown(need.memlock)} is no size", "preflight", "memlock", expected="`unlimited` or `64G`"
        )
    if need.inodes < 0:
        yield fault("a count is not negative", "preflight", "inodes")


def _profile(name: str, profile: Profile) -> Iterator[tuple[str, list[str]]]:
    """What is wrong, and the keys below the profile where it stands."""
    if not _PROFILE_NAME.match(name):
        yield f"{shown(name)} is no name of a profile", []
    if not _GPU_TYPE.match(profile.gpu_type):
        yield f"{shown(profile.gpu_type)} is no GPU type", ["gpu_type"]
    for key in ("gpus_per_node", "max_nodes"):
        if getattr(profile, key) < 0:
            yield "a count is not negative", [key]
    for key in ("cpus_per_node", "processes_per_node"):
        if getattr(profile, key) < 1:
            yield "a count is at least 1", [key]
    for key in ("memory", "memory_per_gpu"):
        value = getattr(profile, key)
        if value and not is_size(value):
            yield f"{shown(value)} is no memory size of Slurm such as `1800G`", [key]
    if profile.max_time:
        try:
            parse_duration(profile.max_time)
        except ValueError as error:
            yield str(error), ["max_time"]


def _publishing(site: Site, fault) -> Iterator[Problem]:  # type: ignore[no-untyped-def]
    lengths = {}
    for path in (("keep_published",), ("freshness", "warn"), ("freshness", "refuse")):
        value = getattr(site if len(path) == 1 else site.freshness, path[-1])
        if value or len(path) == 1:
            try:
                lengths[path[-1]] = parse_duration(value)
            except ValueError as error:
                yield fault(str(error), *path, expected=FORMS)
    if lengths.get("warn", 0) >= lengths.get("refuse", LONGEST + 1):
        yield fault("a warning comes before the refusal", "freshness", "warn", expected="a shorter time")
    for i, uid in enumerate(site.publishers.uids):
        if uid < 0:
            yield fault("a uid is not negative", "publishers", "uids", i)
    if site.publishers.gid is not None and site.publishers.gid < 0:
        yield fault("a gid is not negative", "publishers", "gid")


def _runtime(site: Site, fault) -> Iterator[Problem]:  # type: ignore[no-untyped-def]
    runtime, staging = site.runtime, site.runtime.staging
    if runtime.kind == "host" and runtime.images:
        yield fault("a site on the host has no images", "runtime", "images")
    if runtime.kind == "pyxis" and site.scheduler != "slurm":
        yield fault("pyxis is a plugin of Slurm", "runtime", "kind")
    if runtime.kind == "apptainer" and runtime.writable and re.search("[,:]", site.folders.scratch):
        what = f"Apptainer cannot write over an image in {shown(site.folders.scratch)}"
        yield fault(what, "folders", "scratch", expected="no comma or colon in it")
    if staging.folder and not staging.folder.startswith("/"):
        yield fault(f"{shown(staging.folder)} is not absolute", "runtime", "staging", "folder")
    if not is_size(staging.keep_free):
        yield fault(f"{shown(staging.keep_free)} is no size such as `10G`", "runtime", "staging", "keep_free")
    try:
        parse_duration(staging.max_age)
    except ValueError as error:
        yield fault(str(error), "runtime", "staging", "max_age", expected=FORMS)
    places: list[tuple[str, tuple[str | int, ...]]]
    places = [(place, ("runtime", "binds", i)) for i, place in enumerate(runtime.binds)]
    places += [(getattr(site.folders, key), ("folders", key)) for key in ("runs", "scratch", "model_cache")]
    for place, path in places:
        if why := unmountable(runtime.kind, place.removesuffix(":ro")):
            yield fault(f"{runtime.kind} cannot mount {shown(place)}: {why}", *path)


def _places(site: Site, fault) -> Iterator[Problem]:  # type: ignore[no-untyped-def]
    for key in ("runs", "scratch", "images", "model_cache", "secrets", "registry"):
        value = getattr(site.folders, key)
        homely = key != "scratch" and value.startswith("~/")
        if value and not value.startswith("/") and not homely:
            yield fault(f"{shown(value)} is not absolute", "folders", key)
    for i, bind in enumerate(site.runtime.binds):
        if not bind.startswith("/"):
            yield fault(f"{shown(bind)} is not absolute", "runtime", "binds", i)
    for key in ("apptainer", "enroot"):
        program = getattr(site.runtime, key)
        if not program.startswith("/"):
            yield fault(f"{shown(program)} is not absolute", "runtime", key)
    for name, image in site.runtime.images.items():
        if not image.startswith("/"):
            yield fault(f"{shown(image)} is not absolute", "runtime", "images", name)
