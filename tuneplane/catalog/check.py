"""Faults of a manifest that its shape alone does not show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tuneplane.catalog.check_launch import problems as launch_problems
from tuneplane.catalog.check_upstream import parameter_problems
from tuneplane.catalog.check_upstream import problems as upstream_problems
from tuneplane.catalog.kinds import KINDS
from tuneplane.catalog.manifest import Manifest, Parameter, Rule, Text, Version
from tuneplane.catalog.params import BadValue, interval, read_node
from tuneplane.catalog.recipe import resolve
from tuneplane.catalog.requires import fault
from tuneplane.catalog.rules import SURROUNDINGS, TOPOLOGY, names_in, pool_names
from tuneplane.core_version import satisfies
from tuneplane.documents.tree import Node, at, find
from tuneplane.errors import Problem, nearest, shown
from tuneplane.names import refusal
from tuneplane.visible import visible

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*\Z")
_NUMERIC = ("int", "float")
_TEXTUAL = ("str", "enum", "path")


class Checker:
    """Collects problems of one manifest, each with its place in the merged tree."""

    def __init__(self, manifest: Manifest, tree: Node, name: str) -> None:
        self.manifest, self.tree, self.name = manifest, tree, name

    def problem(self, what: str, *path: str | int, expected: str = "", hint: str = "") -> Problem:
        mark, key = at(self.tree, path)
        return Problem(what, mark.at(key), expected, hint)

    def problems(self) -> Iterator[Problem]:
        manifest = self.manifest
        if manifest.name != self.name:
            yield self.problem(
                f"{shown(manifest.name)} lies in the folder {self.name}", "name", expected=self.name
            )
        if manifest.framework.default not in manifest.framework.versions:
            yield self.problem(
                f"the default {shown(manifest.framework.default)} is no version of this manifest",
                "framework",
                "default",
                expected="one of " + ", ".join(manifest.framework.versions),
            )
        try:
            satisfies(manifest.requires.core)
        except ValueError as error:
            yield self.problem(str(error), "requires", "core", expected="`>=A.B,<C.D`")
        for key, text in (("title", manifest.title), ("summary", manifest.summary)):
            yield from self.text(text, key)
        for name in manifest.environment:
            if why := refusal(name):
                yield self.problem(f"{shown(name)} {why}", "environment", name)
        for name, parameter in manifest.parameters.items():
            yield from self.parameter(parameter, "parameters", name)
        yield from self.formerly(manifest.parameters, manifest.parameters, "parameters")
        yield from self.versions()
        yield from self.rules()
        if manifest.data.kind not in KINDS:
            expected = "one of " + ", ".join(KINDS)
            yield self.problem(
                f"unknown kind of data {shown(manifest.data.kind)}", "data", "kind", expected=expected
            )
        yield from launch_problems(manifest, self.problem)
        yield from upstream_problems(manifest, self.problem)

    def parameter(self, parameter: Parameter, *path: str) -> Iterator[Problem]:
        name, kind = path[-1], parameter.items or parameter.type
        if not _NAME.match(name):
            yield self.problem(
                f"{shown(name)} is no name of a parameter", *path, expected="a lower-case word"
            )
        for key in (parameter.path, *parameter.also):
            yield from self.flag(key, *path, "path")
        yield from parameter_problems(parameter, self.problem, *path)
        yield from self.text(parameter.doc, *path, "doc")
        for word, *step in (
            (parameter.unit, "unit"),
            (parameter.group, "group"),
            *((choice, "choices", i) for i, choice in enumerate(parameter.choices)),
        ):
            yield from self.line(str(word), *path, *step)
        if (parameter.type == "list") != bool(parameter.items):
            yield self.problem("`items` goes with the type `list` and only with it", *path)
        if (kind == "enum") != bool(parameter.choices):
            yield self.problem("`choices` go with the type `enum` and only with it", *path)
        if parameter.range:
            try:
                interval(parameter.range)
            except ValueError as error:
                yield self.problem(str(error), *path, "range")
                return
            if kind not in _NUMERIC:
                yield self.problem(f"a {kind} has no range", *path, "range")
        yield from self.default(parameter, *path, "default")

    def text(self, text: Text, *path: str | int) -> Iterator[Problem]:
        for language in ("en", "zh"):
            yield from self.line(getattr(text, language), *path, language)

    def line(self, text: str, *path: str | int) -> Iterator[Problem]:
        """Texts stand in comments of `config.yaml` and in tables."""
        if not visible(text):
            yield self.problem(f"{shown(text)} is not one line of printable text", *path)

    def flag(self, text: str, *path: str) -> Iterator[Problem]:
        if text and self.manifest.config.style != "argv" and not _PATH.match(text):
            yield self.problem(f"{shown(text)} is no name of a flag", *path)

    def default(self, parameter: Parameter, *path: str) -> Iterator[Problem]:
        """The default that the document writes at `path`."""
        node, value = find(self.tree, path), parameter.default
        if node is None or value is None:
            return
        words = value if isinstance(value, list) else [value]
        if (parameter.items or parameter.type) in _TEXTUAL and not all(isinstance(w, str) for w in words):
            yield self.problem("the default of a text is not text", *path, hint="put it in quotes")
            return
        try:
            read_node(parameter, node)
        except BadValue as error:
            yield self.problem(f"the default does not fit: {error.what}", *path, expected=error.expected)

    def versions(self) -> Iterator[Problem]:
        for name, version in self.manifest.framework.versions.items():
            place = ("framework", "versions", name)
            if version.status == "deprecated" and not re.fullmatch(r"\d{4}-\d\d-\d\d", version.sunset):
                yield self.problem(
                    "a deprecated version has no sunset date", *place, expected="`sunset: YYYY-MM-DD`"
                )
            for i, text in enumerate(version.requires):
                if why := fault(text):
                    what = f"{shown(text)} is no requirement: {why}"
                    yield self.problem(what, *place, "requires", i, expected="`name==1.2` or `name>=1.2,<2`")
            for section, listed in (("rename", list(version.rename)), ("remove", version.remove)):
                for old in listed:
                    if old not in self.manifest.parameters:
                        yield self.unknown(old, self.manifest.parameters, *place, section, old)
            for new in version.rename.values():
                if not _NAME.match(new):
                    yield self.problem(f"{shown(new)} is no name of a parameter", *place, "rename")
            for key, parameter in version.add.items():
                yield from self.parameter(parameter, *place, "add", key)
            final = resolve(self.manifest, name).parameters
            yield from self.formerly(version.add, final, *place, "add")
            for section, keyed in (("paths", version.paths), ("defaults", version.defaults)):
                for key in keyed:
                    if key not in final:
                        yield self.unknown(key, final, *place, section, key)
                    elif section == "paths":
                        yield from self.flag(version.paths[key], *place, section, key)
                    else:
                        yield from self.default(final[key], *place, section, key)
            yield from self.distinct(version, final, *place)

    def formerly(
        self, parameters: Mapping[str, Parameter], present: Mapping[str, Parameter], *path: str
    ) -> Iterator[Problem]:
        """A former name leads an upgrade to one parameter, so it is no present name and nobody else's."""
        counts = Counter(word for parameter in parameters.values() for word in parameter.formerly)
        for name, parameter in parameters.items():
            for word in parameter.formerly:
                if word in present:
                    yield self.problem(
                        f"{shown(word)} is the name of a parameter now", *path, name, "formerly"
                    )
                elif counts[word] > 1:
                    yield self.problem(
                        f"{counts[word]} parameters were formerly {shown(word)}", *path, name, "formerly"
                    )

    def distinct(self, version: Version, final: dict[str, Parameter], *place: str) -> Iterator[Problem]:
        """In one version a name or an alias means one parameter."""
        kept = [version.rename.get(old, old) for old in self.manifest.parameters if old not in version.remove]
        aliases = [parameter.alias for name, parameter in final.items() if parameter.alias not in ("", name)]
        for word, count in Counter([*kept, *version.add, *aliases]).items():
            if count > 1:
                yield self.problem(f"{count} parameters have the name {shown(word)}", *place)

    def unknown(self, name: str, known: dict[str, Parameter], *path: str) -> Problem:
        close = nearest(name, known)
        return self.problem(
            f"no parameter {shown(name)}" + (f", did you mean `{close}`?" if close else ""), *path
        )

    def rules(self) -> Iterator[Problem]:
        versions = self.manifest.framework.versions
        for i, rule in enumerate(self.manifest.rules):
            yield from self.rule(rule, versions, "rules", i)
        for name, version in versions.items():
            for i, rule in enumerate(version.rules):
                yield from self.rule(rule, [name], "framework", "versions", name, "rules", i)

    def rule(self, rule: Rule, versions: Iterable[str], *place: str | int) -> Iterator[Problem]:
        """versions: those in which it holds."""
        yield from self.text(rule.message, *place, "message")
        for key, expression in (("require", rule.require), ("when", rule.when)):
            try:
                used = names_in(expression)
            except ValueError as error:
                yield self.problem(str(error), *place, key)
                continue
            for version in versions:
                recipe = resolve(self.manifest, version)
                known = {*TOPOLOGY, *SURROUNDINGS, *pool_names(recipe.launch), *recipe.parameters}
                if missing := used - known:
                    names = ", ".join(f"`{name}`" for name in sorted(missing))
                    yield self.problem(f"unknown in version {version}: {names}", *place, key)
