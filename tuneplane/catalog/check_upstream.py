"""Faults of what a manifest says about upstream: keys it sets, values it computes, columns, migrations."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from tuneplane.catalog.check_launch import Fault
from tuneplane.catalog.manifest import Manifest, Parameter
from tuneplane.catalog.params import BadValue, read_text, written
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.catalog.rules import SURROUNDINGS, TOPOLOGY, names_in, pool_names
from tuneplane.errors import Problem, nearest, shown

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_RAW = re.compile(r"[A-Za-z0-9_.\-]+\Z")
_FIELD = re.compile(r"\{(\w+)\}\Z")


def problems(manifest: Manifest, fault: Fault) -> Iterator[Problem]:
    """fault: (what, *path, expected=…) → the problem with its place."""
    if manifest.attached:
        yield fault("what is attached is found out, not written", "attached")
    if manifest.config.style == "argv" and (manifest.pinned or manifest.config.index):
        yield fault("the style `argv` tells upstream nothing", "config")
    pinned = [("pinned", key, text) for key, text in manifest.pinned.items()]
    for section, key, text in pinned:
        if not _KEY.match(key) or not _RAW.match(text):
            yield fault(f"{shown(f'{key}={text}')} is no key with a plain word", section, key)
    for key in manifest.elsewhere:
        if key not in manifest.pinned and all(
            key not in v.pinned for v in manifest.framework.versions.values()
        ):
            yield fault(f"{shown(key)} is not pinned", "elsewhere", key)
    for version in manifest.framework.versions:
        recipe = resolve(manifest, version)
        yield from _expressions(recipe, version, fault)
        yield from _keys(recipe, version, fault)
        yield from _layouts(recipe, version, fault)
        yield from _migrations(manifest, recipe, version, fault)


def parameter_problems(parameter: Parameter, fault: Fault, *path: str) -> Iterator[Problem]:
    """The same of one parameter."""
    kind = parameter.items or parameter.type
    if (parameter.type == "function") != bool(parameter.function):
        yield fault("`function` goes with the type `function` and only with it", *path)
    if parameter.words and parameter.type != "content":
        yield fault("`words` go with the type `content`", *path, "words")
    known = {"enum": parameter.choices, "bool": ["true", "false"], "content": parameter.words}.get(kind)
    for word in parameter.spelled:
        if known is not None and word not in known:
            yield fault(f"{shown(word)} is not among {', '.join(known)}", *path, "spelled", word)
    if parameter.otherwise and parameter.default is not None:
        yield fault("what has a default is never set otherwise", *path, "otherwise")


def _expressions(recipe: Recipe, version: str, fault: Fault) -> Iterator[Problem]:
    known = {*TOPOLOGY, *SURROUNDINGS, *pool_names(recipe.launch), *recipe.parameters}
    for text, path in _placed(recipe):
        try:
            missing = names_in(text) - known
        except ValueError as error:
            yield fault(str(error), *path)
            continue
        if missing:
            names = ", ".join(f"`{name}`" for name in sorted(missing))
            yield fault(f"unknown in version {version}: {names}", *path)


def _placed(recipe: Recipe) -> list[tuple[str, tuple[str | int, ...]]]:
    """Every expression beside rules, and where it stands."""
    return [
        *((owned.value, ("owned", key, "value")) for key, owned in recipe.owned.items() if owned.value),
        *((text, ("variables", name)) for name, text in recipe.variables.items()),
        *(
            (p.otherwise, ("parameters", name, "otherwise"))
            for name, p in recipe.parameters.items()
            if p.otherwise
        ),
        *((layout.when, ("data", "layouts", i, "when")) for i, layout in enumerate(recipe.data.layouts)),
    ]


def _keys(recipe: Recipe, version: str, fault: Fault) -> Iterator[Problem]:
    """One key is set by one: tp, or one parameter, or several of which a user sets one. None changes nothing."""
    place = ("framework", "versions", version)
    holders: dict[str, list[str]] = {}
    heard = _named(recipe)
    for name, p in recipe.parameters.items():
        keys = Counter(p.keys)
        for key, count in keys.items():
            holders.setdefault(key, []).append(name)
            if key in recipe.owned or count > 1:
                what = f"{shown(key)} is set by tp too" if count == 1 else f"{shown(key)} stands twice"
                yield fault(f"{what}: {name}", *place)
            elif (
                p.default is not None
                and not p.spelled
                and written(p.default) != recipe.pinned.get(key, written(p.default))
            ):
                yield fault(f"the default of {name} stands over the pin of {shown(key)}", *place)
        if not keys and name not in heard and recipe.config.style != "argv":
            yield fault(f"{name} changes nothing: it has no path, and no expression names it", *place)
        for other in p.excludes:
            if other not in recipe.parameters:
                close = nearest(other, recipe.parameters)
                hint = f", did you mean `{close}`?" if close else ""
                yield fault(f"{name} excludes {shown(other)}, which is no parameter{hint}", *place)
    for key, names in holders.items():
        for first, second in itertools.pairwise(names):
            together = {*recipe.parameters[first].excludes, *recipe.parameters[second].excludes}
            if not {first, second} & together:
                what = f"{first} and {second} have the path {shown(key)}"
                yield fault(what, *place, expected="one of them `excludes` the other")


def _named(recipe: Recipe) -> set[str]:
    """What expressions and columns name."""
    found = {
        match.group(1) for layout in recipe.data.layouts for c in layout.columns if (match := _FIELD.match(c))
    }
    for text, _ in _placed(recipe):
        with suppress(ValueError):
            found |= names_in(text)
    return found


def _layouts(recipe: Recipe, version: str, fault: Fault) -> Iterator[Problem]:
    for i, layout in enumerate(recipe.data.layouts):
        for column in layout.columns:
            match = _FIELD.match(column)
            if match and match.group(1) not in recipe.parameters:
                what = f"no parameter {shown(match.group(1))} in version {version}"
                yield fault(what, "data", "layouts", i, "columns")
            elif not match and ("{" in column or not column):
                yield fault(f"{shown(column)} is no column", "data", "layouts", i, "columns")


def _migrations(manifest: Manifest, recipe: Recipe, version: str, fault: Fault) -> Iterator[Problem]:
    for i, migration in enumerate(manifest.framework.versions[version].migrate):
        place = ("framework", "versions", version, "migrate", i)
        if not migration.before:
            yield fault("nothing is migrated", *place, "before")
        for name, value in migration.after.items():
            parameter = recipe.parameters.get(name)
            if parameter is None:
                yield fault(f"no parameter {shown(name)} in version {version}", *place, "after", name)
                continue
            try:
                read_text(parameter, written(value))
            except BadValue as error:
                yield fault(f"{name}: {error.what}", *place, "after", name, expected=error.expected)
