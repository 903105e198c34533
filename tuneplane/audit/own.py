"""The auditor's own inputs: recipe and site file by digest, from what the auditor's registry has ever published.

Without a registry the bundled catalog, with the auditor's own site files, is what is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import tee

from tuneplane.audit.model import Claims
from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.errors import LockError, TuneplaneError
from tuneplane.in_force import catalog_of
from tuneplane.prepare import table_of_keys
from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.registry.shelf import Shelf
from tuneplane.runtimes.image import record_of
from tuneplane.sites.load import NamedSite, load_site, read_site, site_files, text_digest
from tuneplane.sites.model import Site


@dataclass
class Own:
    """What was found and where, the newest serial that has it; None where nothing is published under the digest.

    keys: the recipe's table of upstream's keys.
    """

    recipe: Recipe | None = None
    keys: dict[str, str] | None = None
    site: Site | None = None
    site_name: str = ""
    site_digest: str = ""
    recipe_from: str = ""
    site_from: str = ""
    shelf: Shelf | None = None
    not_published: list[str] = field(default_factory=list)


def own_site(chosen: NamedSite, name: str) -> NamedSite:
    """The auditor's site for a script of the site `name`: what was chosen where it has a registry or that name, else
    the one that the auditor knows by that name.
    """
    if chosen.registry is not None or chosen.name == name or name not in site_files():
        return chosen
    return load_site(name)


def own_inputs(auditor: NamedSite, claims: Sequence[Claims]) -> Own:
    """The inputs that the first claims name, or the next where these are not published.

    Raises LockError when the registry cannot be trusted or read.
    """
    found, said = Own(), claims[0]
    for claim, catalogs in zip(claims, tee(_catalogs(auditor), len(claims)), strict=True):
        for catalog, source in catalogs:
            if found.recipe is None and (recipe := _recipe(catalog, claim)):
                found.recipe, found.recipe_from = recipe, source or "the bundled catalog"
                found.keys = table_of_keys(catalog, recipe)
            if found.site is None and (site := _site(auditor, catalog, claim)):
                found.site, found.site_from = site, source or f"{auditor.file}"
                found.site_name, found.site_digest = claim.site, claim.site_digest
            if found.recipe is not None and found.site is not None:
                _shelf(auditor, said, found)
                return found
    _shelf(auditor, said, found)
    if found.recipe is None:
        method = f"{said.method} for {said.framework_version}"
        found.not_published.append(f"the recipe of {method}, sha256:{said.recipe_digest}")
    if found.site is None:
        found.not_published.append(f"the site file of {said.site}, sha256:{said.site_digest}")
    return found


def _shelf(auditor: NamedSite, said: Claims, found: Own) -> None:
    """The record of the image, where the script names one."""
    named = record_of(said.image_source)
    if named is None:
        return
    runtime_id, number = named
    if auditor.registry is not None:
        from tuneplane.registry.admission import registry_of
        from tuneplane.registry.shelf import record

        found.shelf = record(registry_of(auditor), runtime_id, number)
    if found.shelf is None:
        found.not_published.append(f"the image record {number} of {runtime_id}")


def _catalogs(auditor: NamedSite) -> Iterator[tuple[Catalog, str]]:
    """Every catalog that counts, the newest first, each once, with its serial where it is published."""
    newest = catalog_of(auditor)
    if not isinstance(newest, PublishedCatalog):
        yield newest, ""
        return
    yield newest, f"serial {newest.publication.serial} of {newest.registry.root}"
    from tuneplane.registry.reading import history

    seen = {newest.publication.digest}
    for publication in history(newest.registry, newest.publication)[1:]:
        if publication.digest not in seen:
            seen.add(publication.digest)
            yield (
                PublishedCatalog(newest.registry, publication),
                f"serial {publication.serial} of {newest.registry.root}",
            )


def _recipe(catalog: Catalog, said: Claims) -> Recipe | None:
    """The method's recipe when it has the digest that was said."""
    if not catalog.has(said.method):
        return None
    try:
        manifest = catalog.manifest(said.method)
    except (TypeError, LockError):
        # published by a tp whose manifests have other keys: none that this tp could compile from
        return None
    if said.framework_version not in manifest.framework.versions:
        return None
    recipe = resolve(manifest, said.framework_version)
    return recipe if recipe.digest == said.recipe_digest else None


def _site(auditor: NamedSite, catalog: Catalog, said: Claims) -> Site | None:
    """The site when its published text has the digest that was said."""
    if not isinstance(catalog, PublishedCatalog):
        return auditor.site if (auditor.name, auditor.digest) == (said.site, said.site_digest) else None
    text = catalog.site_text(said.site)
    text = text.removeprefix("\ufeff") if text else None
    if text is None or text_digest(text) != said.site_digest:
        return None
    try:
        return read_site(text, f"the published site file {said.site}")
    except TuneplaneError:
        return None
