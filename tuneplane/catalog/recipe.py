"""A manifest resolved for one framework version, and the digest a lock names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import field
from typing import Any

from tuneplane.catalog.manifest import (
    Checkpoints,
    Config,
    Data,
    Launch,
    Manifest,
    Metrics,
    Need,
    Owned,
    Parameter,
    Rule,
    Text,
    Tracker,
)
from tuneplane.documents.shape import document
from tuneplane.errors import InputError, nearest, shown

TEXTS = frozenset({"title", "summary", "doc", "message", "group"})
"""Fields that only people read."""
_OUTSIDE = TEXTS | {"status", "sunset", "formerly", "use", "elsewhere"}
"""Fields that the digest leaves out: no script, run or refusal follows from them."""


@document
class Recipe:
    """What one method is for one framework version. keys: sha256 of the table of upstream's keys, empty without one."""

    name: str
    version: str
    title: Text
    summary: Text
    category: str
    core: str
    framework: str
    framework_version: str
    status: str
    sunset: str
    runtime_id: str
    requires: list[str]
    launch: Launch
    config: Config
    data: Data
    model: Need
    use: Text | None = None
    environment: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    tracking: list[Tracker] = field(default_factory=lambda: ["console"])
    pinned: dict[str, str]
    elsewhere: dict[str, dict[str, str]] = field(default_factory=dict)
    owned: dict[str, Owned]
    ignored: dict[str, str] = field(default_factory=dict)
    keys: str = ""
    parameters: dict[str, Parameter]
    rules: list[Rule]
    checkpoints: Checkpoints | None
    metrics: Metrics

    @property
    def digest(self) -> str:
        """sha256 over all that can change a script, a run or a refusal: everything but texts and status."""
        return _digest(canonical(self))


def resolve(manifest: Manifest, framework_version: str | None = None) -> Recipe:
    """The recipe for a framework version, the manifest's default when none is named.

    Raises InputError when the manifest has no such version.
    """
    wanted = framework_version or manifest.framework.default
    versions = manifest.framework.versions
    if wanted not in versions:
        close = nearest(wanted, versions)
        raise InputError.of(
            f"{manifest.name} has no framework version {shown(wanted)}"
            + (f", did you mean `{close}`?" if close else ""),
            expected="one of " + ", ".join(versions),
        )
    version = versions[wanted]
    return Recipe(
        name=manifest.name,
        version=manifest.version,
        title=manifest.title,
        summary=manifest.summary,
        category=manifest.category,
        core=manifest.requires.core,
        framework=manifest.framework.kind,
        framework_version=wanted,
        status=version.status,
        sunset=version.sunset,
        runtime_id=version.runtime_id,
        requires=version.requires,
        launch=version.launch or manifest.launch,
        config=manifest.config,
        data=manifest.data,
        model=manifest.model,
        use=manifest.use,
        environment=manifest.environment,
        variables=manifest.variables,
        tracking=manifest.tracking,
        pinned={**manifest.pinned, **version.pinned},
        elsewhere=manifest.elsewhere,
        owned={**manifest.owned, **version.owned},
        ignored=manifest.ignored,
        keys=manifest.attached.get(index_file(manifest, wanted), ""),
        parameters=_parameters(manifest, wanted),
        rules=[*manifest.rules, *version.rules],
        checkpoints=manifest.checkpoints,
        metrics=manifest.metrics,
    )


def index_file(manifest: Manifest, wanted: str) -> str:
    """The name under `_keys/` of the table of upstream's keys for a framework version; empty without one."""
    version = manifest.framework.versions[wanted]
    return f"{manifest.config.index}-{version.keys or wanted}.json" if manifest.config.index else ""


def _parameters(manifest: Manifest, wanted: str) -> dict[str, Parameter]:
    """The version's parameters: the manifest's, renamed, re-pathed, with other defaults, less and more."""
    version = manifest.framework.versions[wanted]
    parameters: dict[str, Parameter] = {}
    for name, parameter in manifest.parameters.items():
        if name in version.remove:
            continue
        name = version.rename.get(name, name)
        changes: dict[str, Any] = {}
        if name in version.paths:
            changes["path"] = version.paths[name]
        if name in version.defaults:
            changes["default"] = version.defaults[name]
        parameters[name] = dataclasses.replace(parameter, **changes) if changes else parameter
    return {**parameters, **version.add}


def canonical(value: Any) -> Any:
    """`value` as data, less what only people read and less fields that are as they are by default.

    So a field that a later `tp` gives to manifests leaves the digests of recipes that do not use it.
    """
    if dataclasses.is_dataclass(value):
        return {
            item.name: canonical(getattr(value, item.name))
            for item in dataclasses.fields(value)
            if item.name not in _OUTSIDE and getattr(value, item.name) != _default(item)
        }
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    return [canonical(item) for item in value] if isinstance(value, list) else value


def _default(item: dataclasses.Field[Any]) -> Any:
    factory = item.default_factory
    return item.default if factory is dataclasses.MISSING else factory()


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
