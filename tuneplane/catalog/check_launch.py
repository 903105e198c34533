"""Faults of what a manifest says about its launch, its pools and its checkpoints."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator

from tuneplane.catalog.manifest import TRAINER, Checkpoints, Launch, Manifest
from tuneplane.durations import FORMS, parse_duration
from tuneplane.errors import Problem, shown

Fault = Callable[..., Problem]
_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")
_OPTION = re.compile(r"[a-z][a-z0-9_]*\Z")
_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*\Z")
_OTHER_FIELD = re.compile(r"\{(?!host\}|port\})\w*\}")
_NOT_OPTIONS = frozenset(
    "num_machines machine_rank num_processes main_process_ip main_process_port rdzv_backend rdzv_conf max_restarts "
    "config_file cpu multi_gpu same_network deepspeed_multinode_launcher module no_python debug quiet help".split()
)


def problems(manifest: Manifest, fault: Fault) -> Iterator[Problem]:
    """fault: (what, *path, expected=…) → the problem with its place."""
    yield from _launch(manifest.launch, fault, ("launch",))
    for name, version in manifest.framework.versions.items():
        if version.launch:
            yield from _launch(version.launch, fault, ("framework", "versions", name, "launch"))
    if manifest.checkpoints:
        yield from _checkpoints(manifest.checkpoints, fault)


def _launch(launch: Launch, fault: Fault, path: tuple[str, ...]) -> Iterator[Problem]:
    if launch.rendezvous != "static" and launch.kind != "torchrun":
        yield fault(f"a launch of kind `{launch.kind}` has no rendezvous", *path, "rendezvous")
    for option in launch.options:
        if launch.kind != "accelerate":
            yield fault(f"a launch of kind `{launch.kind}` has no options", *path, "options", option)
        elif option in _NOT_OPTIONS or not _OPTION.match(option):
            yield fault(f"the option {shown(option)} belongs to tp", *path, "options", option)
    yield from _pools(launch, fault, path)


def _pools(launch: Launch, fault: Fault, path: tuple[str, ...]) -> Iterator[Problem]:
    roles = [TRAINER, *launch.roles, *(role for pool in launch.pools.values() for role in pool.roles)]
    for role, count in Counter(roles).items():
        if count > 1:
            yield fault(f"{count} pools have the role {shown(role)}", *path, "pools")
        if not _NAME.match(role):
            yield fault(f"{shown(role)} is no name of a role", *path, "pools", expected="a lower-case word")
    for name, pool in launch.pools.items():
        place = (*path, "pools", name)
        if not _NAME.match(name) or name == TRAINER:
            yield fault(f"{shown(name)} is no name of a pool", *place, expected="a lower-case word")
        if not pool.roles:
            yield fault("a pool has at least one role", *place, "roles")
        if pool.server is None:
            if launch.kind != "ray":
                what = f"a pool without a server needs a launch of kind `ray`, not `{launch.kind}`"
                yield fault(what, *place)
            continue
        if not pool.server.words:
            yield fault("a server has a command", *place, "server", "words")
        for i, word in enumerate(pool.server.words):
            if _OTHER_FIELD.search(word):
                expected = "`{host}` and `{port}`"
                yield fault(
                    f"{shown(word)} has another field", *place, "server", "words", i, expected=expected
                )
        if not pool.server.ready.startswith("/"):
            yield fault(
                f"{shown(pool.server.ready)} is no path", *place, "server", "ready", expected="`/health`"
            )
        try:
            parse_duration(pool.server.timeout)
        except ValueError as error:
            yield fault(str(error), *place, "server", "timeout", expected=FORMS)


def _checkpoints(checkpoints: Checkpoints, fault: Fault) -> Iterator[Problem]:
    pattern = checkpoints.pattern
    before, field, after = pattern.partition("{step}")
    if not field or "{" in after or not _PATTERN.match(before + "0" + after) or ".." in pattern.split("/"):
        expected = "a path below the output folder with one `{step}`, such as `checkpoint-{step}`"
        yield fault(
            f"{shown(pattern)} is no pattern of checkpoints", "checkpoints", "pattern", expected=expected
        )
    if complete := checkpoints.complete:
        for key in ("file", "tracker"):
            name = getattr(complete, key)
            if name and (not _PATTERN.match(name) or ".." in name.split("/")):
                yield fault(f"{shown(name)} is no name of a file", "checkpoints", "complete", key)
    if pointer := checkpoints.pointer:
        folder = posixpath.dirname(before)
        if not folder:
            yield fault("checkpoints that something points to have a folder", "checkpoints", "pattern")
        for i, name in enumerate((pointer.file, *pointer.beside)):
            place = ("pointer", "beside", i - 1) if i else ("pointer", "file")
            if not _PATTERN.match(name) or ".." in name.split("/"):
                yield fault(f"{shown(name)} is no name below the output folder", "checkpoints", *place)
        if pointer.text.count("{step}") != 1 or "{" in pointer.text.replace("{step}", ""):
            what = f"{shown(pointer.text)} does not hold one `{{step}}`"
            yield fault(what, "checkpoints", "pointer", "text")
    stopped = checkpoints.warning.stopped
    if stopped is not None and not 0 <= stopped <= 255:
        yield fault(f"{stopped} is no exit code", "checkpoints", "warning", "stopped", expected="0 to 255")
