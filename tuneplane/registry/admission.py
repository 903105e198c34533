"""The catalog of a registry, admitted only when it can be trusted and is fresh enough."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tuneplane.durations import parse_duration, spoken
from tuneplane.errors import LockError, shown
from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.registry.layout import Publication, Registry
from tuneplane.registry.reading import Unsettled, newest, patiently, read_bytes
from tuneplane.registry.trust import check, check_there
from tuneplane.sites.load import NamedSite


def registry_of(named_site: NamedSite) -> Registry:
    """The registry that counts, with whom the site believes; in one that the user named also the user."""
    assert named_site.registry is not None
    publishers = named_site.site.publishers
    also = {os.getuid()} if named_site.foreign else set()
    return Registry(named_site.registry, frozenset({0, *publishers.uids, *also}), publishers.gid)


def published(named_site: NamedSite) -> PublishedCatalog:
    """What the site's registry publishes now.

    Raises LockError when somebody else could have changed it, when nothing is published, or when it was not checked
    for longer than the site allows.
    """
    registry = registry_of(named_site)
    check_there(registry)
    check(registry)
    publication = latest(registry)
    check_fresh(named_site)
    return PublishedCatalog(registry, publication)


def latest(registry: Registry) -> Publication:
    """The newest publication. Raises LockError when there is none."""
    found = newest(registry)
    if found is None:
        where = shown(str(registry.root), 300)
        raise LockError.of(f"the registry {where} publishes nothing yet", hint="tp catalog refresh")
    return found


def check_fresh(named_site: NamedSite) -> None:
    """Raises LockError when the registry was not checked for longer than the site allows."""
    refuse, registry = named_site.site.freshness.refuse, registry_of(named_site)
    if refuse and ((old := age(registry)) is None or old > parse_duration(refuse)):
        where = shown(str(registry.root), 300)
        raise LockError.of(_last_checked(old), where, f"within {refuse}", "tp catalog refresh")


def warnings(named_site: NamedSite) -> list[str]:
    """What a user should know of the registry: that it is not the site's, or has not been checked for long."""
    if named_site.registry is None:
        return []
    found = (
        [f"the registry is {shown(str(named_site.registry), 300)}, not the site's"]
        if named_site.foreign
        else []
    )
    warn = named_site.site.freshness.warn
    if warn and ((old := age(registry_of(named_site))) is None or old > parse_duration(warn)):
        found.append(_last_checked(old))
    return found


def _last_checked(old: int | None) -> str:
    if old is None:
        return "nobody knows when the registry was last checked"
    # minutes are of no interest after days
    rounded = old - old % 3600 if old >= 86400 else old - old % 60 if old >= 3600 else old
    return f"the registry was last checked {spoken(rounded)} ago"


def checked(registry: Registry) -> dict[str, Any]:
    """The record of the last check: when, by whom, on which host; empty when nobody knows."""

    def read() -> dict[str, Any]:
        try:
            data, _ = read_bytes(registry.checked)
        except FileNotFoundError:
            return {}
        try:
            record = json.loads(data)
            return {"at": int(record["at"]), "by": str(record["by"]), "host": str(record["host"])}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Unsettled("it is not whole") from None

    try:
        return patiently(read, "when it was checked", 0)
    except LockError:
        return {}


def age(registry: Registry) -> int | None:
    """Seconds since the registry was last held against its sources; None when nobody says."""
    record = checked(registry)
    return max(0, int(time.time()) - record["at"]) if record else None
