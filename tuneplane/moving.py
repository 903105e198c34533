"""`config.yaml` under another recipe: which keys get which names, and whether the values still fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.documents.keys import renamed
from tuneplane.documents.text import decoded
from tuneplane.errors import InputError, shown
from tuneplane.experiment.config import Config, WrittenNode, read_config
from tuneplane.experiment.succession import guessed, parameter_of, successors
from tuneplane.faults import Faults
from tuneplane.plan.pools import pools
from tuneplane.plan.settings import check_rules, settle
from tuneplane.prepare import RESOURCE_KEYS
from tuneplane.sites.model import Site

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Succession:
    """From the recipe an experiment was made with to another. old: None when nobody knows it."""

    version: str
    manifest: Manifest
    recipe: Recipe
    old: Manifest | None

    def words(self, config: Config, faults: Faults) -> dict[str, str]:
        """Key under `params` → the key that the new recipe wants, for those that have one. Faults are added."""
        # without the old manifest the new one tells what its version has, if it still has it
        old = self.old or (self.manifest if self.version in self.manifest.framework.versions else None)
        before = resolve(old, self.version) if old else None
        now = self.recipe.framework_version
        names = successors(old, self.version, self.manifest, now) if old else {}
        found = {}
        for key, item in config.params.items():
            name = parameter_of(before, key) if before else None
            if name is None:
                found[key] = self._kept(key)
            elif name not in names:
                self._lost(key, item, faults)
            else:
                alias = self.recipe.parameters[names[name]].alias
                found[key] = key if key != name and key == alias else names[name]
        return found

    def _kept(self, key: str) -> str:
        """A key that the old recipe does not have: the user may have written the new name, or it is from before."""
        if self.old is not None or parameter_of(self.recipe, key) is not None:
            return key
        return guessed(self.manifest, self.recipe.framework_version).get(key, key)

    def _lost(self, key: str, item: WrittenNode, faults: Faults) -> None:
        recipe = self.recipe
        what = (
            f"{shown(key)} has no successor in {recipe.name} on {recipe.framework} {recipe.framework_version}"
        )
        faults.add(InputError, what, item.where, "a configuration without it", f"tp methods {recipe.name}")


def moved_config(
    data: bytes, name: str, change: Succession, site: Site, language: str
) -> tuple[bytes, list[tuple[str, str, int]]]:
    """The configuration for the new recipe, and (old key, new key, line) of every key that was renamed.

    Every byte outside those keys stays. Raises InputError with each parameter that has no successor, meets another, or
    whose value the new recipe does not take.
    """
    bom = _BOM if data.startswith(_BOM) else b""
    text = decoded(data, name)
    config = read_config(text, name, RESOURCE_KEYS)
    faults = Faults()
    words = change.words(config, faults)
    _check_meeting(config, words, change.recipe, faults)
    _check_values(config, words, change.recipe, site, language, faults)
    faults.check()
    changed = {key: word for key, word in words.items() if key != word}
    if not changed:
        return data, []
    lines = [(key, word, config.params[key].mark.line) for key, word in changed.items()]
    return bom + renamed(text, name, "params", changed).encode(), lines


def _check_meeting(config: Config, words: dict[str, str], recipe: Recipe, faults: Faults) -> None:
    """Two keys that would be one parameter: the second is taken out of `words`."""
    seen: dict[str, str] = {}
    for key, word in list(words.items()):
        name = parameter_of(recipe, word) or word
        if name in seen:
            first = config.params[seen[name]]
            what = f"{shown(seen[name])} and {shown(key)} would both be {shown(name)}"
            where = f"{config.params[key].where} and line {first.mark.line}"
            faults.add(InputError, what, where, "one of them")
            del words[key]
        seen.setdefault(name, key)


def _check_values(
    config: Config, words: Mapping[str, str], recipe: Recipe, site: Site, language: str, faults: Faults
) -> None:
    """Read every value as the new recipe does, under the old keys, and let the rules speak when all are sound."""
    params = {word: config.params[key] for key, word in words.items()}
    settings = settle(recipe, replace(config, params=params), (), faults)
    # what the site cannot give is not the upgrade's to say
    held = pools(site, recipe.launch, config, recipe.name, Faults())
    if held and not faults.found:
        check_rules(recipe, settings, held, language, faults)
