"""What a site publishes: the bundled recipes with its own over them, and the site files beside its own, all checked."""

from __future__ import annotations

from tuneplane.catalog.load import SourceCatalog
from tuneplane.errors import TuneplaneError
from tuneplane.faults import Faults
from tuneplane.in_force import source_catalog
from tuneplane.sites.load import NamedSite, checked_file, load_site, site_file, sites_beside


def sources(name: str | None, registry: str | None) -> tuple[NamedSite, SourceCatalog, dict[str, bytes]]:
    """The site, the catalog to publish, and the texts of site files by name.

    Raises SiteError or InputError with every fault of every file: of one that is invalid nothing is published.
    """
    faults, texts = Faults(), {}
    file = site_file(name)
    for beside, other in sites_beside(file).items():
        try:
            texts[beside] = checked_file(other)[0].encode()
        except TuneplaneError as error:
            faults.take(error)
    if file.stem not in texts:
        # whose recipes they would be cannot be known
        faults.check()
    named_site = load_site(name, registry)
    try:
        catalog = source_catalog(named_site)
        catalog.entries  # noqa: B018
    except TuneplaneError as error:
        faults.take(error)
    faults.check()
    return named_site, catalog, texts
