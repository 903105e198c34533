"""The catalog in force at a site: what its registry publishes, or without one the bundled recipes under its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tuneplane.catalog.interface import Catalog
from tuneplane.catalog.load import SourceCatalog, load_catalog
from tuneplane.errors import SiteError
from tuneplane.sites.load import NamedSite

if TYPE_CHECKING:
    from tuneplane.registry.shelf import Shelf


def catalog_of(named_site: NamedSite) -> Catalog:
    """The catalog that counts. Raises LockError when the site's registry cannot be read or trusted."""
    if named_site.registry is None:
        return source_catalog(named_site)
    from tuneplane.registry.admission import published

    return published(named_site)


def shelf_of(named_site: NamedSite, runtime_id: str) -> Shelf | None:
    """The images that the site's registry has for a runtime id; None without a registry or without any."""
    if named_site.registry is None:
        return None
    from tuneplane.registry.admission import registry_of
    from tuneplane.registry.shelf import newest

    return newest(registry_of(named_site), runtime_id)


def registry_warnings(named_site: NamedSite) -> list[str]:
    """What a user should know of the site's registry."""
    if named_site.registry is None:
        return []
    from tuneplane.registry.admission import warnings

    return warnings(named_site)


def source_catalog(named_site: NamedSite) -> SourceCatalog:
    """The bundled recipes with the site's laid over them. Raises SiteError for a folder that is none."""
    folders = [named_site.file.parent / os.path.expanduser(folder) for folder in named_site.site.recipes]
    for folder in folders:
        if not folder.is_dir():
            raise SiteError.of(f"the recipe folder {folder} does not exist", f"{named_site.file} recipes")
    return load_catalog(folders)
