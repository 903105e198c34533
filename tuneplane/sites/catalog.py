"""The catalog in force at a site."""

from __future__ import annotations

import os

from tuneplane.catalog.load import Catalog, load_catalog
from tuneplane.errors import SiteError
from tuneplane.sites.load import NamedSite


def catalog_of(named_site: NamedSite) -> Catalog:
    """The catalog in force at a site: bundled recipes under its own. Raises SiteError for a folder that is none."""
    folders = [named_site.file.parent / os.path.expanduser(folder) for folder in named_site.site.recipes]
    for folder in folders:
        if not folder.is_dir():
            raise SiteError.of(f"the recipe folder {folder} does not exist", f"{named_site.file} recipes")
    return load_catalog(folders)
