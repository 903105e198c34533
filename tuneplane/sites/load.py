"""Finding and reading site files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneplane.documents.load import load
from tuneplane.documents.text import read_text
from tuneplane.documents.tree import Mapping
from tuneplane.errors import Problem, SiteError, TuneplaneError, nearest, shown
from tuneplane.resources import bundled
from tuneplane.sites.folders import place
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class NamedSite:
    """A site with its name, the file that describes it and that file's sha256.

    registry: the folder that counts, None without one; foreign: the user named it in place of the site's.
    """

    name: str
    file: Path
    digest: str
    site: Site
    registry: Path | None = None
    foreign: bool = False


def site_folders() -> list[Path]:
    """Where site files lie, the first with a name wins: the admin's, the user's, the bundled examples."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [Path("/etc/tuneplane/sites"), Path(config, "tuneplane", "sites"), bundled("site-configs")]


def site_files() -> dict[str, Path]:
    """Name → file of every site that can be named."""
    found: dict[str, Path] = {}
    for folder in site_folders():
        for file in sorted(folder.glob("*.yaml")):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def load_site(name: str | None, registry: str | None = None) -> NamedSite:
    """The site of that name or file; without a name the only one of the admin's folder, else `local`.

    registry: one that counts in place of the site's. Raises SiteError with every fault of the file.
    """
    file = site_file(name)
    text, site = checked_file(file)
    own = place(site, site.folders.registry)
    own = os.path.abspath(own) if own else ""
    chosen = os.path.abspath(registry) if registry else own
    return NamedSite(
        file.stem, file, text_digest(text), site, Path(chosen) if chosen else None, chosen != own
    )


def checked_file(file: Path) -> tuple[str, Site]:
    """The text of a site file and what it says. Raises SiteError with every fault."""
    try:
        text = read_text(file, str(file))
        return text, read_site(text, str(file))
    except SiteError:
        raise
    except TuneplaneError as error:
        raise SiteError(*error.problems) from None


def sites_beside(file: Path) -> dict[str, Path]:
    """Name → file of the site `file` and of those that can be named and lie in its folder."""
    found = {name: other for name, other in site_files().items() if other.parent == file.parent}
    return dict(sorted({**found, file.stem: file}.items()))


def site_file(name: str | None) -> Path:
    """The file of the site of that name; see `load_site`. Raises SiteError when there is none."""
    if not name:
        return _default_file()
    if "/" in name or name.endswith(".yaml"):
        return Path(name).absolute()
    files = site_files()
    if name in files:
        return files[name]
    close = nearest(name, files)
    raise SiteError.of(
        f"there is no site {shown(name)}" + (f", did you mean `{close}`?" if close else ""),
        expected="one of " + ", ".join(files) + ", or the path of a site file",
        hint="tp site ls",
    )


def _default_file() -> Path:
    admins = sorted(site_folders()[0].glob("*.yaml"))
    if len(admins) > 1:
        names = ", ".join(file.stem for file in admins)
        raise SiteError.of(
            "this machine has several sites", str(site_folders()[0]), names, "tp --site NAME …"
        )
    return admins[0] if admins else bundled("site-configs") / "local.yaml"


def read_site(text: str, name: str) -> Site:
    """The site of a file's text; `name` is what messages call the file. Raises SiteError, InputError."""

    def faults(site: Site, tree: Mapping) -> Iterator[Problem]:
        from tuneplane.sites.check import problems

        return problems(site, tree)

    return load(Site, text, name, faults, SiteError)


def text_digest(text: str) -> str:
    """What a site file is called by: the sha256 of its text, a byte order mark left out."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()
