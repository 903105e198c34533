"""What the global options name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
