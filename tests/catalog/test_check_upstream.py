"""Manifests: faults of what they say about upstream, and what lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import catalog, replaced, whats, write_recipe

from tuneplane.catalog.recipe import resolve
from tuneplane.errors import InputError

MANIFEST = """\
schema: 1
name: toy/told
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: rl
requires: {core: ">=0.1,<0.2"}
framework:
  kind: toy
  default: 2.0.0
  versions:
    2.0.0: {}
    3.0.0: {keys: 2.0.0, migrate: [{before: {rate: 1}, after: {kind: a}}], rules: [{require: rate > 0, message: {en: R}}]}
launch: {kind: torchrun, entry: {module: toy}}
config: {style: hydra, index: main}
data: {kind: any, train: optional, layouts: [{columns: ["{column}", a.b], when: rate > 0}]}
pinned: {loss.kind: plain}
elsewhere: {loss.kind: {other: toy/other}}
owned: {nodes: {value: nodes, by: resources}}
variables: {TOY: output / "x"}
parameters:
  rate: {type: float, default: 1, path: rate, also: [other.rate], doc: {en: Rate}}
  kind: {type: enum, choices: [a, b], spelled: {a: A}, otherwise: "'a'", path: kind, doc: {en: Kind}}
  column: {type: str, default: text, path: column, doc: {en: Column}}
  reward: {type: function, function: f, path: reward, excludes: [url], doc: {en: Reward}}
  url: {type: str, path: reward, doc: {en: Address}}
  template: {type: content, words: [default], path: template, doc: {en: Template}}
rules: [{require: rate < 2 or validation_data, message: {en: R}}]
"""


def made(root: Path, text: str = MANIFEST, table: str = "main-2.0.0.json", data: str = "{}") -> Path:
    write_recipe(root, text, "toy/told")
    (root / "toy/_keys").mkdir(exist_ok=True)
    (root / "toy/_keys" / table).write_text(data)
    return root


def test_the_manifest_that_the_cases_change_is_valid(tmp_path: Path) -> None:
    found = catalog(made(tmp_path))
    assert list(found.entries) == ["toy/told"]
    manifest = found.manifest("toy/told")
    assert [rule.require for rule in resolve(manifest, "3.0.0").rules] == [
        "rate < 2 or validation_data",
        "rate > 0",
    ]
    old, new = (resolve(manifest, version) for version in ("2.0.0", "3.0.0"))
    assert old.keys == new.keys and found.attached("toy/told", old.keys) == b"{}"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [("path: column, ", "path: loss.kind, ", "the default of column stands over the pin of `loss.kind`"), ("words: [default], path: template", "words: [default]", "template changes nothing"), ("loss.kind: plain", "loss.kind: 'a b'", "`loss.kind=a b` is no key with a plain word"), ("elsewhere: {loss.kind", "elsewhere: {loss.sort", "`loss.sort` is not pinned"),
     ("value: nodes,", "value: nodez,", "unknown in version 2.0.0: `nodez`"), ("value: nodes,", "value: 'nodes +',", "not an expression: "), ('TOY: output / "x"', "TOY: outpt", "unknown in version 2.0.0: `outpt`"),
     ("otherwise: \"'a'\"", "otherwise: c", "unknown in version 2.0.0: `c`"), ("otherwise: \"'a'\"", "otherwise: \"'a'\", default: a", "what has a default is never set otherwise"),
     ("spelled: {a: A}", "spelled: {c: C}", "`c` is not among a, b"), ("also: [other.rate]", "also: [rate]", "`rate` stands twice: rate"), ("path: column", "path: nodes", "`nodes` is set by tp too: column"),
     ("excludes: [url], ", "", "reward and url have the path `reward`"), ("excludes: [url]", "excludes: [urls, url]", "reward excludes `urls`, which is no parameter, did you mean `url`?"),
     ("type: function, function: f,", "type: function,", "`function` goes with the type `function` and only with it"), ("type: str, path: reward", "type: str, words: [x], path: reward", "`words` go with the type `content`"),
     ('"{column}"', '"{colum}"', "no parameter `colum` in version 2.0.0"), ('"{column}"', '"a{column}"', "`a{column}` is no column"), ("when: rate > 0", "when: rat > 0", "unknown in version 2.0.0: `rat`"),
     ("before: {rate: 1}", "before: {}", "nothing is migrated"), ("after: {kind: a}", "after: {kinds: a}", "no parameter `kinds` in version 3.0.0"), ("after: {kind: a}", "after: {kind: c}", "kind: `c` is not a choice"),
     ("require: rate > 0,", "require: rat > 0,", "unknown in version 3.0.0: `rat`"), ("kind: any", "kind: anything", "unknown kind of data `anything`"), ("index: main", "index: other", "there is no table _keys/other-2.0.0.json"),
     ("schema: 1", "schema: 1\nattached: {x: y}", "what is attached is found out, not written"), ("style: hydra, index: main", "style: argv", "the style `argv` tells upstream nothing")],
)  # fmt: skip
def test_faults(tmp_path: Path, old: str, new: str, what: str) -> None:
    text = replaced(MANIFEST, (old, new))
    with pytest.raises(InputError) as caught:
        _ = catalog(made(tmp_path, text)).entries
    assert any(one.startswith(what) for one in whats(caught)), whats(caught)


def test_another_table_of_keys_is_another_recipe(tmp_path: Path) -> None:
    """It decides what is refused. What changes under a catalog that was read is refused too."""
    first = catalog(made(tmp_path))
    before = resolve(first.manifest("toy/told")).digest
    made(tmp_path, data='{"keys": {}}')
    after = resolve(catalog(tmp_path).manifest("toy/told"))
    assert after.digest != before
    with pytest.raises(InputError) as caught:
        first.attached("toy/told", resolve(first.manifest("toy/told")).keys)
    assert whats(caught) == ["main-2.0.0.json of toy/told changes while it is read"]


def test_rules_of_shared_pieces_hold_beside_the_methods_own(tmp_path: Path) -> None:
    shared = "rules: [{require: rate < 9, message: {en: S}}]\n"
    made(tmp_path, f"include: [../_shared.yaml]\n{MANIFEST}")
    (tmp_path / "toy/_shared.yaml").write_text(shared)
    found = resolve(catalog(tmp_path).manifest("toy/told"))
    assert [rule.require for rule in found.rules] == ["rate < 9", "rate < 2 or validation_data"]
