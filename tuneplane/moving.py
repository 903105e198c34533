"""`config.yaml` under another recipe: which keys become which, and whether the values still fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tuneplane.catalog.manifest import Manifest, Migration
from tuneplane.catalog.params import written
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.documents.edits import Places, Put, rewritten
from tuneplane.documents.text import decoded
from tuneplane.documents.yaml import parse
from tuneplane.errors import InputError, shown
from tuneplane.experiment.config import CONFIG_FILE, Config, WrittenNode, read_config
from tuneplane.experiment.migration import Migrated, later, migrated, naming
from tuneplane.experiment.setting import given_text
from tuneplane.experiment.starter import Move
from tuneplane.experiment.succession import guessed, parameter_of, successors
from tuneplane.faults import Faults
from tuneplane.plan.expressions import sizes, without_paths
from tuneplane.plan.overrides import override_values
from tuneplane.plan.pools import pools
from tuneplane.plan.settings import check_rules, derived, settle
from tuneplane.prepare import RESOURCE_KEYS
from tuneplane.sites.model import Site

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Succession:
    """From the recipe an experiment was made with to another.

    old: None when nobody knows it; keys: gives the table of upstream's keys that overrides are held against.
    """

    version: str
    manifest: Manifest
    recipe: Recipe
    old: Manifest | None
    keys: Callable[[], Mapping[str, str] | None] = lambda: None

    def places(self, config: Config, faults: Faults) -> tuple[dict[str, list[Put]], list[Move]]:
        """What takes the place of each key under `params`, and what is told of it. Faults are added."""
        # without the old manifest the new one tells what its version has, if it still has it
        old = self.old or (self.manifest if self.version in self.manifest.framework.versions else None)
        before = resolve(old, self.version) if old else None
        now = self.recipe.framework_version
        names = successors(old, self.version, self.manifest, now) if old else {}
        places: dict[str, list[Put]] = {}
        moves: list[Move] = []
        for found in migrated(config, before, self._entries()) if before else []:
            places |= self._replaced(found)
            moves += _told(found, config)
        for key, item in config.params.items():
            if key in places:
                continue
            name = parameter_of(before, key) if before else None
            if before is None or name is None:
                word = self._kept(key)
            elif name in names:
                alias = self.recipe.parameters[names[name]].alias
                word = key if key != name and key == alias else names[name]
            else:
                self._lost(key, name, item, before, faults)
                continue
            places[key] = [Put(word)]
            if word != key:
                moves.append(Move(CONFIG_FILE, "renamed", f"{key} is {word} now", item.mark.line))
        return places, sorted(moves, key=lambda move: move.line)

    def _entries(self) -> list[Migration]:
        """What the new version says of earlier ones' values."""
        now = self.recipe.framework_version
        return self.manifest.framework.versions[now].migrate if later(self.version, now) else []

    def _replaced(self, found: Migrated) -> dict[str, list[Put]]:
        """The new parameters in the place of the old ones: one for one as far as they go, the rest behind the last."""
        puts = [
            Put(name, given_text(self.recipe.parameters[name], value))
            for name, value in found.entry.after.items()
        ]
        places = {key: puts[i : i + 1] for i, key in enumerate(found.keys)}
        places[found.keys[-1]] = puts[len(found.keys) - 1 :]
        return places

    def _kept(self, key: str) -> str:
        """A key that the old recipe does not have: the user may have written the new name, or it is from before."""
        if self.old is not None or parameter_of(self.recipe, key) is not None:
            return key
        return guessed(self.manifest, self.recipe.framework_version).get(key, key)

    def _lost(self, key: str, name: str, item: WrittenNode, before: Recipe, faults: Faults) -> None:
        recipe = self.recipe
        what = (
            f"{shown(key)} has no successor in {recipe.name} on {recipe.framework} {recipe.framework_version}"
        )
        expected = "a configuration without it"
        if entries := list(naming(name, before, self._entries())):
            what += " with this value"
            expected = "one of " + "; ".join(f"`{spoken(entry.before)}`" for entry in entries)
        faults.add(InputError, what, item.where, expected, f"tp methods {recipe.name}")


def _told(found: Migrated, config: Config) -> list[Move]:
    """The entry at the first of its keys, and each further key that goes with it."""
    first, *more = found.keys
    after = spoken(found.entry.after) or "not needed any more"
    told = [
        (first, f"{spoken(found.entry.before)} → {after}"),
        *((key, f"{key} goes with {first}") for key in more),
    ]
    return [Move(CONFIG_FILE, "migrated", what, config.params[key].mark.line) for key, what in told]


def moved_config(
    data: bytes, name: str, change: Succession, site: Site, language: str
) -> tuple[bytes, list[Move]]:
    """The configuration for the new recipe, and every key of it that became another.

    Every byte outside those keys stays. Raises InputError with each parameter that has no successor, meets another, or
    whose value the new recipe does not take.
    """
    bom = _BOM if data.startswith(_BOM) else b""
    text = decoded(data, name)
    config = read_config(text, name, RESOURCE_KEYS)
    faults = Faults()
    places, moves = change.places(config, faults)
    _check_meeting(config, places, change.recipe, faults)
    _check_values(config, places, change.recipe, site, language, faults)
    if config.overrides:
        override_values(change.recipe, config, change.keys(), faults)
    faults.check()
    if not moves:
        return data, []
    return bom + rewritten(text, name, "params", places).encode(), moves


def _check_meeting(config: Config, places: dict[str, list[Put]], recipe: Recipe, faults: Faults) -> None:
    """Two keys that would be one parameter: the second is taken out of `places`."""
    seen: dict[str, str] = {}
    for key, puts in list(places.items()):
        for put in puts:
            name = parameter_of(recipe, put.word) or put.word
            if name in seen and key in places:
                first = config.params[seen[name]]
                what = f"{shown(seen[name])} and {shown(key)} would both be {shown(name)}"
                where = f"{config.params[key].where} and line {first.mark.line}"
                faults.add(InputError, what, where, "one of them")
                del places[key]
            seen.setdefault(name, key)


def _check_values(
    config: Config, places: Places, recipe: Recipe, site: Site, language: str, faults: Faults
) -> None:
    """Read every value as the new recipe does, under the old keys, and let the rules speak when all are sound."""
    params = {put.word: _node(config.params[key], put) for key, puts in places.items() for put in puts}
    settings = settle(recipe, replace(config, params=params), (), faults)
    # what the site cannot give is not the upgrade's to say
    held = pools(site, recipe.launch, config, recipe.name, Faults())
    if held and not faults.found:
        around = {**without_paths(config, site), **sizes(recipe, held)}
        settings = derived(recipe, settings, around, faults)
        check_rules(recipe, settings, around, held[0].topology.profile, language, faults)


def _node(item: WrittenNode, put: Put) -> WrittenNode:
    """The value that the new key has, where the old one stands."""
    if put.value is None:
        return item
    return replace(item, node=parse(f"v: {put.value}", item.mark.file).entries["v"])


def spoken(values: Mapping[str, object]) -> str:
    """Values of parameters as a manifest writes them, in one line."""
    return ", ".join(
        f"{name}: {'none' if value is None else written(value)}" for name, value in values.items()
    )
