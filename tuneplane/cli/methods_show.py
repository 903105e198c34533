"""One method, with everything that a user may set and what tp sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuneplane.catalog.kinds import KINDS
from tuneplane.catalog.manifest import TRAINER, Manifest, Parameter, Version
from tuneplane.catalog.params import default_value, written
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.catalog.takes import group_name, grouped, takes
from tuneplane.cli.cells import indented, table
from tuneplane.cli.labels import label
from tuneplane.cli.output import clean
from tuneplane.documents.text import flow
from tuneplane.experiment.difference import Change, of_recipes, rule_text
from tuneplane.experiment.setting import setting_text
from tuneplane.experiment.succession import successors

_STEP = 2


def page(manifest: Manifest, recipe: Recipe, lang: str, cells: int) -> list[str]:
    """The method in lines of that many cells, section by section."""
    made = _Page(manifest, recipe, lang, cells)
    sections = [made.head(), table(list(made.facts()), cells), *made.sections()]
    lines: list[str] = []
    for section in filter(None, sections):
        lines += [*([""] if lines else []), *section]
    return [clean(line) for line in lines]


def differences(manifest: Manifest, recipe: Recipe) -> dict[str, tuple[Change, ...]]:
    """What is different on each other framework version than on the recipe's."""
    here, found = recipe.framework_version, {}
    for name in manifest.framework.versions:
        if name != here:
            other = resolve(manifest, name)
            changes = of_recipes(recipe, other, successors(manifest, here, manifest, name))
            # the digest of a table says nothing to a reader
            found[name] = tuple(change for change in changes if change.what != "keys")
    return found


class _Page:
    """A page in the making: all of it is in one language and as wide as the terminal."""

    def __init__(self, manifest: Manifest, recipe: Recipe, lang: str, cells: int) -> None:
        self.manifest, self.recipe, self.lang, self.cells = manifest, recipe, lang, cells

    def label(self, text: str) -> str:
        return label(text, self.lang)

    def said(self, title: str, *lines: str) -> list[str]:
        """A section: its title, and each line behind a blank."""
        shown = [part for line in lines for part in indented(line, _STEP, self.cells, 2 * (line[:2] == "- "))]
        return [*indented(self.label(title), 0, self.cells), *shown] if lines else []

    def head(self) -> list[str]:
        recipe, lang = self.recipe, self.lang
        lines = [f"{recipe.name}{self.label(': ')}{recipe.title.read(lang)}", recipe.summary.read(lang)]
        if recipe.use:
            lines.append(f"{self.label('when to use it')}{self.label(': ')}{recipe.use.read(lang)}")
        return [part for line in lines for part in indented(line, 0, self.cells)]

    def facts(self) -> Iterator[tuple[str, str]]:
        recipe, words = self.recipe, self.label
        framework = self.manifest.framework
        yield words("framework"), f"{recipe.framework} {recipe.framework_version}"
        yield words("versions"), ", ".join(self.version(name, v) for name, v in framework.versions.items())
        yield words("runtime id"), recipe.runtime_id or words("none: name an image with --image")
        yield words("recipe"), recipe.version
        yield words("digest"), recipe.digest
        yield words("launch"), self.launch()
        yield words("model"), words(recipe.model)
        yield from self.data()
        yield words("tracking"), ", ".join(recipe.tracking)
        if recipe.checkpoints:
            resume = words(recipe.checkpoints.resume)
            yield (
                words("checkpoints"),
                f"{recipe.checkpoints.pattern}, {words('resume')}{words(': ')}{resume}",
            )
        if recipe.metrics.names:
            yield words("metrics"), ", ".join(recipe.metrics.names)
        yield words("overrides"), self.overrides()

    def version(self, name: str, version: Version) -> str:
        framework = self.manifest.framework
        marks = [self.label("default")] if name == framework.default and len(framework.versions) > 1 else []
        if version.status == "deprecated":
            marks.append(f"{self.label('deprecated until')} {version.sunset}")
        return f"{name} ({', '.join(marks)})" if marks else name

    def launch(self) -> str:
        launch = self.recipe.launch
        entry = f"-m {launch.entry.module}" if launch.entry.module else launch.entry.experiment
        return f"{launch.kind}{self.label(': ')}{' '.join([*launch.interpreter, entry])}"

    def data(self) -> Iterator[tuple[str, str]]:
        data, words = self.recipe.data, self.label
        title = f" ({KINDS[data.kind].title.read(self.lang)})" if data.kind in KINDS else ""
        needs = [f"{words(part)}{words(' ')}{words(getattr(data, part))}" for part in ("train", "validation")]
        yield words("data"), f"{data.kind}{title}{words(': ')}{words('; ').join(needs)}"
        if data.formats:
            yield "", f"{words('formats')}{words(': ')}{', '.join(data.formats)}"
        for layout in data.layouts:
            when = "" if layout.when == "true" else f" ({words('when')} {layout.when})"
            yield "", f"{words('columns')}{words(': ')}{', '.join(layout.columns)}{when}"
        if data.doc:
            yield "", data.doc.read(self.lang)

    def overrides(self) -> str:
        recipe, words = self.recipe, self.label
        if not recipe.keys:
            return words("none are taken")
        known = words("keys of the upstream release")
        sections = ", ".join(f"{section}.*" for section in recipe.config.open)
        return f"{known}{words('; ')}{words('open sections')}{words(': ')}{sections}" if sections else known

    def sections(self) -> Iterator[list[str]]:
        recipe = self.recipe
        yield self.said("nodes", *self.pools())
        title = "pinned: what makes the method, refused wherever it is written"
        yield self.said(title, *map(self.pinned, recipe.pinned))
        owned = [(" " * _STEP + key, owned.by) for key, owned in recipe.owned.items()]
        title = "set by tp: refused wherever they are written; set instead"
        yield [*indented(self.label(title), 0, self.cells), *table(owned, self.cells)] if owned else []
        yield self.said("environment", *(f"{name}={text}" for name, text in recipe.environment.items()))
        yield self.parameters()
        yield self.said("rules", *(f"- {rule.message.read(self.lang)}" for rule in recipe.rules))
        yield self.versions()

    def pools(self) -> Iterator[str]:
        launch, words = self.recipe.launch, self.label
        if not launch.pools and not launch.roles:
            return
        yield f"{TRAINER}{words(': ')}{self.roles([TRAINER, *launch.roles])}"
        for name, pool in launch.pools.items():
            parts = [self.roles(pool.roles), words(pool.need)]
            if pool.server:
                parts.append(f"{words('server')} {' '.join(pool.server.words)}")
            yield f"{name}{words(': ')}{words('; ').join(parts)}"

    def roles(self, roles: Sequence[str]) -> str:
        return f"{self.label('roles')} {', '.join(roles)}"

    def pinned(self, key: str) -> str:
        methods: dict[str, str] = {}
        for value, method in self.recipe.elsewhere.get(key, {}).items():
            if method != self.recipe.name:
                methods.setdefault(method, value)
        named = [f"{method} {self.label('has')} {value}" for method, value in methods.items()]
        more = f" ({', '.join(named)})" if named else ""
        return f"{key} = {self.recipe.pinned[key]}{more}"

    def parameters(self) -> list[str]:
        if not self.recipe.parameters:
            return []
        lines = [self.label("parameters")]
        for i, (group, members) in enumerate(grouped(self.recipe.parameters).items()):
            lines += [*([""] if i else []), " " * _STEP + group_name(group, self.lang)]
            lines += [line for name, each in members.items() for line in self.parameter(name, each)]
        return lines

    def parameter(self, name: str, parameter: Parameter) -> Iterator[str]:
        words = self.label
        default = default_value(parameter)
        head = name if default is None else f"{name} = {setting_text(parameter, default)}"
        if parameter.alias not in ("", name):
            head += f" ({words('alias')} {parameter.alias})"
        yield from indented(head, 2 * _STEP, self.cells)
        lines = [parameter.doc.read(self.lang), self.label("; ").join(self.details(parameter))]
        yield from (part for line in lines for part in indented(line, 4 * _STEP, self.cells))

    def details(self, parameter: Parameter) -> Iterator[str]:
        words = self.label
        yield takes(parameter, self.lang)
        if parameter.otherwise:
            yield f"{words('follows')}{words(': ')}{parameter.otherwise}"
        paths = [path for path in (parameter.path, parameter.function_path, *parameter.also) if path]
        if paths:
            yield f"{words('upstream')} {', '.join(paths)}"
        if parameter.spelled:
            pairs = [f"{ours} → {flow(theirs)}" for ours, theirs in parameter.spelled.items()]
            yield f"{words('sent as')} {', '.join(pairs)}"
        if parameter.excludes:
            yield f"{words('not beside')} {', '.join(parameter.excludes)}"

    def versions(self) -> list[str]:
        found = differences(self.manifest, self.recipe)
        lines: list[str] = []
        for name, version in self.manifest.framework.versions.items():
            other = name != self.recipe.framework_version
            shown = [*self.identity(version), *self.changes(name, found[name])] if other else []
            shown += self.migrations(version)
            if other or shown:
                lines += indented(self.version(name, version), _STEP, self.cells)
                lines += [part for line in shown for part in indented(line, 2 * _STEP, self.cells)]
        return [self.label("differences between versions"), *lines] if lines else []

    def identity(self, version: Version) -> Iterator[str]:
        if version.runtime_id != self.recipe.runtime_id:
            yield f"{self.label('runtime id')}{self.label(': ')}{version.runtime_id or '-'}"

    def changes(self, name: str, changes: Sequence[Change]) -> Iterator[str]:
        """Rules by what they say to a user, parameters that come and go by what they take."""
        other = resolve(self.manifest, name)
        messages = {
            rule_text(rule): rule.message.read(self.lang) for rule in (*self.recipe.rules, *other.rules)
        }
        for change in changes:
            text, (section, _, key) = change.now or change.before, change.what.partition(".")
            parameter = (other if change.how == "added" else self.recipe).parameters.get(key)
            if change.what == "rules" and text in messages:
                change = Change(self.label("rules"), change.how, "", messages[text])
            elif section == "parameters" and change.how in ("added", "removed") and parameter:
                change = Change(change.what, change.how, "", self.described(parameter))
            yield self.change(change)

    def described(self, parameter: Parameter) -> str:
        default = default_value(parameter)
        text = takes(parameter, self.lang)
        if default is None:
            return text
        return f"{text}{self.label('; ')}{self.label('default')} {setting_text(parameter, default)}"

    def change(self, change: Change) -> str:
        words = self.label
        if change.how in ("added", "removed"):
            text = change.now or change.before
            return f"{change.what}{words(': ')}{words(change.how)}{words('; ') + text if text else ''}"
        if change.how == "renamed":
            return f"{change.before} → {change.now}{words(': ')}{words('renamed')}"
        what = change.what if change.how == "changed" else f"{change.what}.{change.how}"
        return f"{what}{words(': ')}{change.before or '-'} → {change.now or '-'}"

    def migrations(self, version: Version) -> Iterator[str]:
        for entry in version.migrate:
            before, after = (
                ", ".join(
                    f"{name}: {'-' if value is None else written(value)}" for name, value in values.items()
                )
                for values in (entry.before, entry.after)
            )
            after = after or self.label("not needed any more")
            yield f"{self.label('an upgrade to it')}{self.label(': ')}{before} → {after}"
