"""Which parameter of one recipe is which of another.

A name leads from framework version A to B over the manifest: A's name → the manifest's (A's `rename` read backwards)
→ the manifest's now (a name it was `formerly` known by) → B's name. What a version adds has no name of the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuneplane.catalog.manifest import Manifest, Parameter
from tuneplane.catalog.recipe import Recipe


def successors(old: Manifest, old_version: str, new: Manifest, new_version: str) -> dict[str, str]:
    """Name in the old recipe → name in the new one; a parameter without a successor is left out."""
    main = _known(new.parameters)
    before, now = old.framework.versions[old_version], new.framework.versions[new_version]
    added = _known(now.add)
    found: dict[str, str] = {}

    def lead(name: str, origin: str, added_first: bool) -> None:
        kept = main.get(origin)
        kept = None if kept is None or kept in now.remove else now.rename.get(kept, kept)
        candidates = (added.get(origin), kept) if added_first else (kept, added.get(origin))
        successor = next((candidate for candidate in candidates if candidate is not None), None)
        if successor is not None:
            found[name] = successor

    for origin in old.parameters:
        if origin not in before.remove:
            lead(before.rename.get(origin, origin), origin, False)
    for name in before.add:
        lead(name, name, True)
    return found


def guessed(new: Manifest, new_version: str) -> dict[str, str]:
    """Former name → name in the new recipe, for want of the old manifest."""
    now = new.framework.versions[new_version]
    found: dict[str, str] = {}
    for name, parameter in new.parameters.items():
        if name not in now.remove:
            found |= dict.fromkeys((*parameter.formerly, name), now.rename.get(name, name))
    for name, parameter in now.add.items():
        found |= dict.fromkeys((*parameter.formerly, name), name)
    return found


def parameter_of(recipe: Recipe, key: str) -> str | None:
    """The parameter that a key names, by its name or its alias."""
    if key in recipe.parameters:
        return key
    return next((name for name, parameter in recipe.parameters.items() if parameter.alias == key), None)


def _known(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """Every name that a parameter has or had → its name."""
    known = {word: name for name, parameter in parameters.items() for word in parameter.formerly}
    return known | {name: name for name in parameters}
