"""What the global options name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuneplane.registry.layout import Registry
    from tuneplane.sites.load import NamedSite


@dataclass(frozen=True)
class Chosen:
    """The words of `--site` and `--registry`, None where neither they nor their variables are set."""

    site: str | None = None
    registry: str | None = None

    def load(self) -> NamedSite:
        """The site, with the registry that counts there."""
        from tuneplane.sites.load import load_site

        return load_site(self.site, self.registry)


def registry_for(named_site: NamedSite) -> Registry:
    """The site's registry. Raises UsageError where there is none."""
    from tuneplane.errors import UsageError
    from tuneplane.registry.admission import registry_of

    if named_site.registry is None:
        raise UsageError.of(
            f"the site {named_site.name} has no registry",
            expected="`folders.registry` in its file, or --registry DIR",
        )
    return registry_of(named_site)
