"""Which registry counts, whom it is believed from, and how old its last check may be."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import problems_of, site
from registry.shelves import OWN, publish_all

from tuneplane.errors import LockError
from tuneplane.registry.admission import age, published, registry_of, warnings
from tuneplane.registry.layout import Registry
from tuneplane.sites.load import NamedSite


def named(registry: Registry, **fields: Any) -> NamedSite:
    made = site(**{"publishers": {"uids": sorted(OWN)}, **fields})
    return NamedSite("here", Path("/here.yaml"), "0" * 64, made, registry.root)


def checked(registry: Registry, ago: float) -> None:
    record = json.loads(registry.checked.read_text())
    registry.checked.write_text(json.dumps(record | {"at": int(time.time() - ago)}))


def test_what_is_published_is_admitted(registry: Registry) -> None:
    publish_all(registry, "a", "b")
    assert published(named(registry)).publication.serial == 2 and warnings(named(registry)) == []


def refusal(site: NamedSite) -> str:
    with pytest.raises(LockError) as caught:
        published(site)
    [problem] = problems_of(caught)
    assert problem.hint == "tp catalog refresh"
    return problem.what


def test_nothing_there(registry: Registry) -> None:
    assert refusal(named(registry)) == f"the registry `{registry.root}` does not exist"
    registry.root.mkdir()
    assert refusal(named(registry)) == f"the registry `{registry.root}` publishes nothing yet"


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (3 * 86400 + 4000, "3d1h"),
        (86400, "1d"),
        (7261, "2h1m"),
        (3700, "1h1m"),
        (3599, None),
        (0, None),
        (-3600, None),
    ],
)
def test_freshness(registry: Registry, ago: int, said: str | None) -> None:
    publish_all(registry, "a")
    checked(registry, ago)
    refusing, warning = (named(registry, freshness={key: "1h"}) for key in ("refuse", "warn"))
    if said is None:
        assert published(refusing) and warnings(warning) == []
    else:
        assert refusal(refusing) == f"the registry was last checked {said} ago"
        assert published(warning) and warnings(warning) == [f"the registry was last checked {said} ago"]
    assert warnings(refusing) == [] and published(named(registry)) and warnings(named(registry)) == []


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"at": "yesterday", "by": "a", "host": "b"}', '{"at": null}', "[" * 100000]
)
@pytest.mark.usefixtures("hurried")
def test_a_check_that_nobody_knows_of(registry: Registry, text: str | None) -> None:
    publish_all(registry, "a")
    registry.checked.unlink()
    if text is not None:
        registry.checked.write_text(text)
    assert age(registry) is None
    assert (
        refusal(named(registry, freshness={"refuse": "1h"}))
        == "nobody knows when the registry was last checked"
    )
    assert warnings(named(registry, freshness={"warn": "1h"})) == [
        "nobody knows when the registry was last checked"
    ]
    assert published(named(registry))


def test_whom_the_site_names(registry: Registry) -> None:
    found = registry_of(named(registry, publishers={"uids": [7, 1001], "gid": 33}))
    assert (found.uids, found.gid) == (frozenset({0, 7, 1001}), 33)


def test_a_registry_that_the_user_named_may_be_their_own(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = replace(named(registry, publishers={}), foreign=True)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert registry_of(site).uids == {0, 4711} and registry_of(replace(site, foreign=False)).uids == {0}
    assert warnings(site) == [f"the registry is `{registry.root}`, not the site's"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_site_that_names_no_publisher_believes_root_alone(registry: Registry) -> None:
    publish_all(registry, "a")
    os.chown(registry.serial(1), 1001, -1)
    for publishers, right in (({}, False), ({"uids": [1001]}, True), ({"uids": [1002]}, False)):
        if right:
            assert published(named(registry, publishers=publishers))
        else:
            with pytest.raises(LockError, match="belongs to uid 1001"):
                published(named(registry, publishers=publishers))
