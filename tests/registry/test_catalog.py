"""The published catalog answers as the source it was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import MANIFEST, catalog, problems_of, replaced, whats, write_recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneplane.catalog.interface import Entry
from tuneplane.catalog.load import SourceCatalog, load_catalog
from tuneplane.catalog.manifest import Manifest
from tuneplane.catalog.recipe import resolve
from tuneplane.documents.shape import construct
from tuneplane.errors import InputError, LockError
from tuneplane.registry.catalog import PublishedCatalog
from tuneplane.registry.content import Content, build, written
from tuneplane.registry.layout import Registry
from tuneplane.registry.reading import newest
from tuneplane.registry.refresh import refresh


def published(registry: Registry, source: SourceCatalog, **sites: bytes) -> PublishedCatalog:
    return PublishedCatalog(registry, refresh(registry, build(source, sites)).publication)


def test_the_bundled_catalog_is_read_back_as_it_was(registry: Registry) -> None:
    source = load_catalog()
    made = published(registry, source, b=b"b: 1", a="é".encode())
    assert made.entries == source.entries and list(made.entries) == made.names
    for name in source.entries:
        assert made.has(name) and made.starter(name) == source.starter(name)
        mine, theirs = made.manifest(name), source.manifest(name)
        assert mine == theirs
        for version in theirs.framework.versions:
            assert resolve(mine, version).digest == resolve(theirs, version).digest
    assert (made.site_text("a"), made.site_text("b"), made.site_text("c")) == ("é", "b: 1", None)
    found = newest(registry)
    assert found is not None
    assert made.origin == {"registry": str(registry.root), "serial": 1, "digest": found.digest}


def test_every_field_of_a_manifest_survives(registry: Registry, tmp_path: Path) -> None:
    """Also those whose value is the default's or empty in one place and not in another."""
    write_recipe(tmp_path / "r", replaced(MANIFEST, ("  steps: {type: int", "  kinds: {type: list, path: kinds, items: enum, choices: [a, b], default: [], doc: {en: Kinds, zh: 种类}}\n  steps: {type: int"),
        ("2.0.0: {runtime_id: toy-2.0.0}", "2.0.0: {runtime_id: toy-2.0.0, rename: {steps: iterations}, defaults: {rate: 1}, add: {more: {type: bool, path: more, default: false, doc: {en: M}}}}")))  # fmt: skip
    source = catalog(tmp_path / "r")
    made = published(registry, source)
    assert made.manifest("toy/tuned") == source.manifest("toy/tuned")
    assert resolve(made.manifest("toy/tuned")) == resolve(source.manifest("toy/tuned"))


def test_an_empty_catalog(registry: Registry, tmp_path: Path) -> None:
    made = published(registry, catalog(tmp_path))
    assert (made.entries, made.names, made.has("x")) == ({}, [], False)


@pytest.mark.parametrize("ask", ["manifest", "starter"])
def test_an_unknown_method(registry: Registry, ask: str) -> None:
    made = published(registry, load_catalog())
    for name in ("custom/custm", 'custom/custom",', "custom/custom\n", "\ud800", "", "é"):
        assert not made.has(name)
        with pytest.raises(InputError, match="there is no method"):
            getattr(made, ask)(name)
    with pytest.raises(InputError, match="did you mean `custom/custom`"):
        getattr(made, ask)("custom/custm")


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=3), max_size=8),
    asked=st.lists(NAMES, max_size=4),
)
def test_a_line_is_found_by_its_name_and_no_other(
    tmp_path_factory: Any, lines: dict[str, Any], asked: list[str]
) -> None:
    """Whatever stands in the lines: a name in quotes within a text is not a line's name."""
    texts = {
        name: {"name": name, "text": {**text, "like": f'\n{{"name":"{name}x",'}}
        for name, text in lines.items()
    }
    rows = [json.dumps(x, separators=(",", ":")) for x in ({"schema": 1, "sites": {}}, *texts.values())]
    content = Content("\n".join(["[", ",\n".join(rows), "]", ""]).encode())
    registry = Registry(tmp_path_factory.mktemp("r"))
    made = PublishedCatalog(registry, refresh(registry, content).publication)
    assert made.names == list(lines)
    for name in (*lines, *asked, *(f"{name}x" for name in lines)):
        assert made._line(name) == texts.get(name)


def changed(registry: Registry, source: SourceCatalog, change: Any) -> PublishedCatalog:
    """The publication of a source with every manifest changed as a newer `tp` might have written it."""
    content = build(source, {})
    for path in [path for path in content.parts if path.startswith("methods/")]:
        old = content.parts.pop(path)
        data = json.loads(old)
        change(data)
        new = content.add("methods", json.dumps(data).encode())
        content.index = content.index.replace(path.removeprefix("methods/").encode(), new.encode())
    return PublishedCatalog(registry, refresh(registry, content).publication)


@pytest.mark.parametrize(
    "change",
    [lambda d: d.update(quantum={"on": True}), lambda d: d.update(launch={"sort": "teleport"}), lambda d: d["parameters"]["rate"].update(curve="s"), lambda d: d.update(parameters=7)],
)  # fmt: skip
def test_a_manifest_of_a_newer_tp(registry: Registry, tmp_path: Path, change: Any) -> None:
    write_recipe(tmp_path / "r")
    made = changed(registry, catalog(tmp_path / "r"), change)
    with pytest.raises(LockError) as caught:
        made.manifest("toy/tuned")
    [problem] = problems_of(caught)
    assert problem.what == "serial 1 has toy/tuned in a form that this tp does not know"
    assert problem.hint == "pip install --upgrade 'tuneplane>=0.1,<0.2'"


def test_an_index_of_a_newer_tp(registry: Registry, tmp_path: Path) -> None:
    write_recipe(tmp_path / "r")
    content = build(catalog(tmp_path / "r"), {})
    content.index = content.index.replace(b'"schema":1', b'"schema":2')
    made = PublishedCatalog(registry, refresh(registry, content).publication)
    for ask in (
        lambda: made.entries,
        lambda: made.names,
        lambda: made.has("x"),
        lambda: made.manifest("x"),
        lambda: made.site_text("x"),
    ):
        with pytest.raises(LockError) as caught:
            ask()
        assert whats(caught) == ["serial 1 has schema `2`"]


def test_a_line_with_more_keys_is_read(registry: Registry, tmp_path: Path) -> None:
    write_recipe(tmp_path / "r")
    content = build(catalog(tmp_path / "r"), {})
    content.index = content.index.replace(b'"category":', b'"stars":5,"category":')
    made = PublishedCatalog(registry, refresh(registry, content).publication)
    assert made.entries == catalog(tmp_path / "r").entries


def test_only_what_is_asked_for_is_read(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    made = published(registry, load_catalog())
    from tuneplane.registry import catalog as room

    read: list[str] = []
    real = room.verified
    monkeypatch.setattr(
        room, "verified", lambda path, digest: (read.append(path.parent.name), real(path, digest))[1]
    )
    monkeypatch.setattr(room, "_entry", lambda line: pytest.fail("an entry was made"))
    assert made.has("custom/custom") and made.manifest("custom/custom").name == "custom/custom"
    assert made.has("custom/custom") and len(read) == 2 and read[1] == "methods"


def test_what_is_as_by_default_is_not_written() -> None:
    data = {
        "name": "n",
        "title": {"en": "t"},
        "summary": {"en": "s"},
        "category": "c",
        "data": "d",
        "default": "v",
        "versions": [],
    }
    assert written(construct(Entry, data)) == data
    manifest = load_catalog().manifest("pytorch/image-classification")
    assert construct(Manifest, written(manifest)) == manifest and "pinned" not in written(manifest)


def test_the_last_serial_that_had_it(registry: Registry, tmp_path: Path) -> None:
    one = replaced(MANIFEST, ("2.0.0: {runtime_id: toy-2.0.0}", "2.0.0: {}\n    1.0.0: {}"))
    write_recipe(tmp_path / "one", one)
    published(registry, catalog(tmp_path / "one"))
    write_recipe(tmp_path / "two")
    second = published(registry, catalog(tmp_path / "two"))
    (tmp_path / "none").mkdir()
    last = published(registry, catalog(tmp_path / "none"))
    assert (second.last_serial("toy/tuned", "1.0.0"), second.last_serial("toy/tuned", "3")) == (1, None)
    assert (last.last_serial("toy/tuned"), last.last_serial("toy/tuned", "2.0.0")) == (2, 2)
    assert (last.last_serial("toy/tuned", "1.0.0"), last.last_serial("toy/other")) == (1, None)
    assert catalog(tmp_path / "two").last_serial("toy/other") is None


def test_tables_of_upstream_keys_are_published_with_the_methods(registry: Registry) -> None:
    source = load_catalog()
    made = published(registry, source)
    held = [(name, digest) for name in source.entries for digest in source.manifest(name).attached.values()]
    assert held and all(made.attached(*one) == source.attached(*one) for one in held)
