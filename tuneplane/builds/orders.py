"""What is to be built or imported, settled and checked before anything is written."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuneplane.builds.sources import DOCKER, OCI, ROOT, told
from tuneplane.documents.tree import Mark
from tuneplane.errors import ImageError, SiteError, UsageError, nearest, shown
from tuneplane.experiment.config import COMMAND_LINE, Written
from tuneplane.faults import Faults
from tuneplane.files import sha256
from tuneplane.names import looks_secret
from tuneplane.plan.directives import Asked, directives
from tuneplane.plan.image_build import ImageBuild, Step
from tuneplane.plan.model import Topology
from tuneplane.plan.topology import time_limit, topology
from tuneplane.runtimes.definitions import build_file
from tuneplane.runtimes.registering import check_id
from tuneplane.sites.kinds import SIF, STARTED_BY
from tuneplane.sites.load import NamedSite
from tuneplane.sites.model import Site
from tuneplane.sites.options import USER_OPTIONS
from tuneplane.visible import visible

_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")
_ARCHIVES: dict[str, Step] = {DOCKER: "docker", OCI: "oci", ROOT: "root"}


@dataclass(frozen=True)
class Where:
    """On this machine, or as a job: then with a profile, a time limit and options of Slurm as `resources` has them."""

    job: bool = False
    profile: str = ""
    time: str = ""
    resources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Order:
    """What is to be made. definition: the bytes of the `.def`, None for an import; built: facts for its record."""

    runtime_id: str
    plan: ImageBuild
    definition: bytes | None = None
    built: dict[str, str] = field(default_factory=dict)


def from_definition(
    named_site: NamedSite,
    runtime_id: str,
    file: str = "",
    arguments: Sequence[str] = (),
    binds: Sequence[str] = (),
    compression: str = "gzip",
) -> Order:
    """A build of `runtimes/ID.def`, or of another definition file. Raises ImageError, UsageError."""
    check_id(runtime_id)
    path = Path(os.path.abspath(file)) if file else build_file(runtime_id)
    try:
        data = path.read_bytes()
    except OSError as error:
        what = f"cannot read the definition {shown(str(path), 400)}: {error.strerror}"
        raise ImageError.of(what) from None
    _check_arguments(arguments, data.decode(errors="replace"))
    digest = sha256(data)
    plan = ImageBuild(
        runtime_id=runtime_id,
        step="definition",
        source=str(path),
        apptainer=named_site.site.runtime.apptainer,
        scheduler="local",
        arguments=tuple(arguments),
        binds=tuple(_bind(text) for text in binds),
        compression=compression,
        facts=(
            ("runtime", runtime_id),
            ("definition", str(path)),
            ("", f"sha256:{digest}"),
            *(("argument", text) for text in arguments),
        ),
    )
    built = {"definition": f"sha256:{digest}"}
    built |= {f"argument {key}": value for key, _, value in (text.partition("=") for text in arguments)}
    return Order(runtime_id, plan, data, built)


def from_source(named_site: NamedSite, runtime_id: str, word: str, compression: str = "gzip") -> Order:
    """An import of an archive, an image file, a folder or an address. Raises ImageError."""
    check_id(runtime_id)
    _check_password(word, "SOURCE")
    source = told(word)
    wanted = wanted_format(named_site.site)
    if source.image and (source.image == wanted or source.image == SIF):
        step: Step = "copy"
    else:
        step = _ARCHIVES.get(source.kind, "plain") if source.is_file else "address"
    plan = ImageBuild(
        runtime_id=runtime_id,
        step=step,
        source=source.place,
        apptainer=named_site.site.runtime.apptainer,
        scheduler="local",
        unpacker=source.unpacker,
        compression=compression,
        facts=(("runtime", runtime_id), ("from", f"{source.kind} {source.place}")),
    )
    return Order(runtime_id, plan, None, {"imported": f"{source.kind} {source.place}"})


def wanted_format(site: Site) -> str:
    """The format that images are made in for a site. Raises SiteError where nothing starts images."""
    if site.runtime.kind not in STARTED_BY:
        raise SiteError.of("this site runs on the host, without images", "runtime.kind")
    return STARTED_BY[site.runtime.kind][0]


def _check_arguments(arguments: Sequence[str], definition: str) -> None:
    """Raises UsageError for what the definition does not take, or what would show a password to all."""
    known = argument_names(definition)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError.of(f"{shown(text)} is no KEY=VALUE", "--build-arg")
        if key not in known:
            close = nearest(key, known)
            what = f"the definition has no argument {shown(key)}" + (
                f", did you mean `{close}`?" if close else ""
            )
            raise UsageError.of(what, "--build-arg", "one of " + ", ".join(known) if known else "none")
        if "'" in value or not visible(value):
            what = f"the value of {shown(key)} holds a single quote or what cannot be seen"
            raise UsageError.of(what, "--build-arg", "text that a definition can quote")
        if looks_secret(key):
            raise _shown_to_all(key)
        _check_password(value, key)


def _check_password(value: str, where: str) -> None:
    if _PASSWORD.search(value):
        raise _shown_to_all(where)


def _shown_to_all(where: str) -> UsageError:
    what = f"{shown(where)} holds a password, which all could read in the image and in the registry"
    return UsageError.of(what, expected="an index or a mirror that asks for none")  # type: ignore[return-value]


def argument_names(definition: str) -> list[str]:
    """Names of a definition's build arguments: what `%arguments` sets, and what `{{ … }}` names."""
    names = re.findall(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}", definition)
    section = re.search(r"^%arguments[^\n]*\n(.*?)(?=^%|\Z)", definition, re.M | re.S)
    names += re.findall(r"^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=", section[1] if section else "", re.M)
    return sorted(set(names))


def _bind(text: str) -> str:
    """`FROM:TO` with an absolute FROM. Raises UsageError."""
    source, colon, target = text.partition(":")
    if not colon or not source or not target.startswith("/") or "," in text:
        raise UsageError.of(
            f"{shown(text, 200)} is no bind", "--bind", "FROM:TO, two folders without a comma"
        )
    return f"{os.path.abspath(source)}:{target}"


def placed(named_site: NamedSite, order: Order, where: Where) -> tuple[Order, str]:
    """The order for one place, and the architecture of the machines there. Raises SiteError, UsageError, InputError."""
    site = named_site.site
    wanted = wanted_format(site)
    plan = replace(order.plan, facts=(*order.plan.facts, *_facts(named_site, wanted)))
    if not where.job:
        _check_here(plan, site)
        return replace(order, plan=plan), os.uname().machine
    if site.scheduler != "slurm":
        raise SiteError.of("this site has no queue for a build", "--job", "a site with Slurm")
    made = _topology(site, where.profile)
    seconds = time_limit(site, made, where.time or site.default_time, "--time" if where.time else "")
    faults = Faults()
    names = {"experiment": f"build-{order.runtime_id}", "method": "build"}
    asked = Asked(site, seconds, _resources(where.resources), names, requeue=False, warning=None)
    lines = directives(asked, [made], faults)
    faults.check()
    plan = replace(plan, scheduler="slurm", directives=tuple(lines), processors=made.cpus_per_node)
    return replace(order, plan=plan), site.profiles[made.profile.partition(":")[0]].arch


def _facts(named_site: NamedSite, wanted: str) -> tuple[tuple[str, str], ...]:
    site = named_site.site
    return (
        ("image", "a SIF" if wanted == SIF else "a SIF, of which tp takes out the SquashFS"),
        ("site", f"{named_site.name}, {site.scheduler}, {site.runtime.kind}"),
        ("", f"sha256:{named_site.digest}"),
    )


def _check_here(plan: ImageBuild, site: Site) -> None:
    if plan.step == "copy" or os.access(plan.apptainer, os.X_OK):
        return
    what = f"there is no Apptainer at {shown(plan.apptainer, 300)} on this machine"
    hint = "the same with --job" if site.scheduler == "slurm" else ""
    raise SiteError.of(what, "runtime.apptainer", hint=hint)


def _topology(site: Site, profile: str) -> Topology:
    """One node; unless the user names a profile one without GPUs, since a build uses none."""
    text = profile
    if not text:
        without = (name for name, found in site.profiles.items() if not found.gpus_per_node)
        text = next(without, site.default_profile.partition(":")[0]) + ":1"
    made = topology(site, text, "--profile" if profile else "")
    if made.nodes != 1:
        raise UsageError.of(f"{shown(text)} is {made.nodes} nodes", "--profile", "one node")
    return made


def _resources(pairs: Sequence[tuple[str, str]]) -> dict[str, Written]:
    for key, _ in pairs:
        if key not in USER_OPTIONS:
            close = nearest(key, USER_OPTIONS)
            what = f"there is no resource {shown(key)}" + (f", did you mean `{close}`?" if close else "")
            raise UsageError.of(what, "--resource", "one of " + ", ".join(USER_OPTIONS))
    return {key: Written(value, Mark(COMMAND_LINE), f"--resource {key}") for key, value in pairs}
