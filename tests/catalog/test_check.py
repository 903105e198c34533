"""Manifests: every fault is named with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import MANIFEST, catalog, problems_of, replaced, write_recipe

from tuneplane.errors import InputError

HERE = "# HERE"
STEPS = '  steps: {type: int, range: "[1, inf)", path: steps, doc: {en: Steps}}\n'


def faults(root: Path, text: str) -> list[tuple[str, str, str]]:
    """(what, key, expected) of each fault of a manifest; all of them stand where `# HERE` is in it."""
    file = write_recipe(root, text)
    with pytest.raises(InputError) as caught:
        _ = catalog(root).entries
    line = text[: text.index(HERE)].count("\n") + 1
    found = []
    for problem in problems_of(caught):
        place, _, key = problem.where.partition(" ")
        assert place == f"{file}:{line}", problem
        found.append((problem.what, key, problem.expected))
    return found


def test_the_manifest_that_the_cases_change_is_valid(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    found = catalog(tmp_path)
    entry = found.entries["toy/tuned"]
    assert (entry.default, entry.versions) == ("2.0.0", ["2.0.0"])
    assert found.folders("toy/tuned") == [tmp_path / "toy/tuned"]


TOP = [
    ("name: toy/tuned", "name: toy/other # HERE", "`toy/other` lies in the folder toy/tuned", "name", "toy/tuned"),
    ("default: 2.0.0", "default: 3.0.0 # HERE", "the default `3.0.0` is no version of this manifest", "framework.default", "one of 2.0.0"),
    ('requires: {core: ">=0.1,<0.2"}', "requires: {core: new} # HERE", "new is not a list of versions", "requires.core", "`>=A.B,<C.D`"),
    ("schema: 1", "schema: 2 # HERE", "`2` does not fit", "schema", "input should be 1"),
    ("category: supervised", "category: supervised\ncatgory: x # HERE", "unknown key `catgory`", "catgory", "`category`?"),
    ("title: {en: Toy}", "title: {zh: 玩具} # HERE", "the key `en` is missing", "title.en", ""),
    ("title: {en: Toy}", 'title: {en: Toy, zh: "玩\\n具"} # HERE', "`玩\\n具` is not one line of printable text", "title.zh", ""),
    ("version: 1.0.0", "version: 1.0 # HERE", "`1.0` is not text", "version", "text"),
    ("launch: {kind: torchrun, entry: {experiment: main.py}}", "launch: {kind: torchrun, entry: {experiment: a, module: b}} # HERE",
     "an entry names either `experiment` or `module`", "launch.entry", ""),
    ("launch: {kind: torchrun, entry: {experiment: main.py}}", "launch: {kind: mpi, entry: {experiment: a}} # HERE",
     "`mpi` does not fit", "launch.kind", "input should be 'process', 'torchrun', 'accelerate' or 'ray'"),
    ("data: {kind: any}", "data: {kind: any}\nenvironment: {A-B: x} # HERE", "`A-B` is no name of a variable", "environment.A-B", ""),
    ("data: {kind: any}", "data: {kind: any}\nenvironment: {RANK: '0'} # HERE", "`RANK` belongs to the launcher", "environment.RANK", ""),
    ("data: {kind: any}", "data: {kind: any}\nenvironment: {API_KEY: x} # HERE", "`API_KEY` looks like a secret, which stands in the secrets file", "environment.API_KEY", ""),
    ("data: {kind: any}", "data: {kind: any}\nenvironment: {NCCL_X: 1} # HERE", "`1` is not text", "environment.NCCL_X", "text"),
    ("data: {kind: any}", "data: {kind: any, train: maybe} # HERE", "`maybe` does not fit", "data.train", "input should be 'none', 'optional' or 'required'"),
]  # fmt: skip


LAUNCHES = [
    ("{kind: ray, entry: {experiment: a}, rendezvous: c10d}", "a launch of kind `ray` has no rendezvous", "launch.rendezvous", ""),
    ("{kind: ray, entry: {experiment: a}, options: {x: y}}", "a launch of kind `ray` has no options", "launch.options.x", ""),
    ("{kind: accelerate, entry: {experiment: a}, options: {num_machines: '2'}}", "the option `num_machines` belongs to tp", "launch.options.num_machines", ""),
    ("{kind: accelerate, entry: {experiment: a}, options: {'a b': '2'}}", "the option `a b` belongs to tp", "launch.options.a b", ""),
    ("{kind: ray, entry: {experiment: a}, roles: [actor, trainer]}", "2 pools have the role `trainer`", "launch.pools", ""),
    ("{kind: ray, entry: {experiment: a}, roles: [A]}", "`A` is no name of a role", "launch.pools", "a lower-case word"),
    ("{kind: ray, entry: {experiment: a}, pools: {A b: {roles: [x]}}}", "`A b` is no name of a pool", "launch.pools.A b", "a lower-case word"),
    ("{kind: ray, entry: {experiment: a}, pools: {x: {roles: []}}}", "a pool has at least one role", "launch.pools.x.roles", ""),
    ("{kind: torchrun, entry: {experiment: a}, pools: {x: {roles: [x]}}}", "a pool without a server needs a launch of kind `ray`, not `torchrun`", "launch.pools.x", ""),
    ("{kind: process, entry: {experiment: a}, pools: {x: {roles: [x], server: {words: []}}}}", "a server has a command", "launch.pools.x.server.words", ""),
    ("{kind: process, entry: {experiment: a}, pools: {x: {roles: [x], server: {words: ['{gpu}']}}}}", "`{gpu}` has another field", "launch.pools.x.server.words.0", "`{host}` and `{port}`"),
    ("{kind: process, entry: {experiment: a}, pools: {x: {roles: [x], server: {words: [s], ready: up}}}}", "`up` is no path", "launch.pools.x.server.ready", "`/health`"),
    ("{kind: process, entry: {experiment: a}, pools: {x: {roles: [x], server: {words: [s], timeout: soon}}}}", "`soon` is not a length of time", "launch.pools.x.server.timeout",
     "`90m`, `12h`, `1d12h`, `H:MM:SS` or `D-HH:MM:SS`"),
]  # fmt: skip


@pytest.mark.parametrize(("launch", "what", "key", "expected"), LAUNCHES)
def test_faults_of_a_launch(tmp_path: Path, launch: str, what: str, key: str, expected: str) -> None:
    old = "launch: {kind: torchrun, entry: {experiment: main.py}}"
    assert faults(tmp_path, replaced(MANIFEST, (old, f"launch: {launch} # HERE"))) == [(what, key, expected)]


CHECKPOINTS = [
    ("{format: f, pattern: step}", "`step` is no pattern of checkpoints", "checkpoints.pattern", "a path below the output folder with one `{step}`, such as `checkpoint-{step}`"),
    ("{format: f, pattern: '{step}/{step}'}", "`{step}/{step}` is no pattern of checkpoints", "checkpoints.pattern", "a path below the output folder with one `{step}`, such as `checkpoint-{step}`"),
    ("{format: f, pattern: '../{step}'}", "`../{step}` is no pattern of checkpoints", "checkpoints.pattern", "a path below the output folder with one `{step}`, such as `checkpoint-{step}`"),
    ("{format: f, pattern: 'c{step}', complete: {file: a, tracker: b}}", "a checkpoint is complete by `file` or by `tracker`", "checkpoints.complete", ""),
    ("{format: f, pattern: 'c{step}', complete: {file: '../x'}}", "`../x` is no name of a file", "checkpoints.complete.file", ""),
    ("{format: f, pattern: 'c{step}', warning: {stopped: 256}}", "256 is no exit code", "checkpoints.warning.stopped", "0 to 255"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "key", "expected"), CHECKPOINTS)
def test_faults_of_checkpoints(tmp_path: Path, text: str, what: str, key: str, expected: str) -> None:
    assert faults(tmp_path, f"{MANIFEST}checkpoints: {text} # HERE\n") == [(what, key, expected)]


@pytest.mark.parametrize(("old", "new", "what", "key", "expected"), TOP)
def test_faults_of_the_manifest(
    tmp_path: Path, old: str, new: str, what: str, key: str, expected: str
) -> None:
    assert faults(tmp_path, replaced(MANIFEST, (old, new))) == [(what, key, expected)]


DOC = "doc: {en: X}"
PARAMETERS = [
    ("Big: {type: int, path: p, " + DOC, "`Big` is no name of a parameter", "Big", "a lower-case word"),
    ("a-b: {type: int, path: p, " + DOC, "`a-b` is no name of a parameter", "a-b", "a lower-case word"),
    ("p: {type: int, path: --p, " + DOC, "`--p` is no name of a flag", "p.path", ""),
    ("p: {type: int, path: 'a b', " + DOC, "`a b` is no name of a flag", "p.path", ""),
    ("p: {type: list, path: p, " + DOC, "`items` goes with the type `list` and only with it", "p", ""),
    ("p: {type: int, items: int, path: p, " + DOC, "`items` goes with the type `list` and only with it", "p", ""),
    ("p: {type: enum, path: p, " + DOC, "`choices` go with the type `enum` and only with it", "p", ""),
    ("p: {type: str, choices: [a], path: p, " + DOC, "`choices` go with the type `enum` and only with it", "p", ""),
    ("p: {type: list, items: enum, path: p, " + DOC, "`choices` go with the type `enum` and only with it", "p", ""),
    ("p: {type: int, range: '1..2', path: p, " + DOC, "1..2 is not an interval such as `[0, 1)`", "p.range", ""),
    ("p: {type: int, range: '(1, 1)', path: p, " + DOC, "(1, 1) holds no number", "p.range", ""),
    ("p: {type: str, range: '[0, 1]', path: p, " + DOC, "a str has no range", "p.range", ""),
    ("p: {type: list, items: str, range: '[0, 1]', path: p, " + DOC, "a str has no range", "p.range", ""),
    ("p: {type: duration, range: '[0, 1]', path: p, " + DOC, "a duration has no range", "p.range", ""),
    ("p: {type: int, range: '[1, 9]', default: 0, path: p, " + DOC, "the default does not fit: `0` is out of range", "p.default", "a whole number in [1, 9]"),
    ("p: {type: float, default: .nan, path: p, " + DOC, "the default does not fit: `.nan` is not a finite number", "p.default", "a finite number"),
    ("p: {type: int, default: 1.5, path: p, " + DOC, "the default does not fit: `1.5` is not a whole number", "p.default", "a whole number"),
    ("p: {type: int, default: [1], path: p, " + DOC, "the default does not fit: a list is no int value", "p.default", "a whole number"),
    ("p: {type: str, default: 1.10, path: p, " + DOC, "the default of a text is not text", "p.default", ""),
    ("p: {type: str, default: no, path: p}", "the key `doc` is missing", "p.doc", ""),
    ("p: {type: path, default: 010, path: p, " + DOC, "the default of a text is not text", "p.default", ""),
    ("p: {type: enum, choices: ['1.10'], default: 1.10, path: p, " + DOC, "the default of a text is not text", "p.default", ""),
    ("p: {type: enum, choices: [a, b], default: c, path: p, " + DOC, "the default does not fit: `c` is not a choice", "p.default", "one of `a`, `b`"),
    ("p: {type: list, items: str, default: [a, 1.10], path: p, " + DOC, "the default of a text is not text", "p.default", ""),
    ("p: {type: list, items: int, default: [1, x], path: p, " + DOC, "the default does not fit: `x` is not a whole number", "p.default", "a whole number"),
    ("p: {type: duration, default: 90, path: p, " + DOC, "the default does not fit: 90 could be 90 minutes (as Slurm reads it) or 90 seconds", "p.default",
     "`90m`, `12h`, `1d12h`, `H:MM:SS` or `D-HH:MM:SS`"),
    ("p: {type: number, path: p, " + DOC, "`number` does not fit", "p.type", None),
    ("p: {type: enum, choices: [1.10], path: p, " + DOC, "`1.10` is not text", "p.choices.0", "text"),
    ('p: {type: int, path: p, doc: {en: "a\\nb"}}', "`a\\nb` is not one line of printable text", "p.doc.en", ""),
    ('p: {type: int, unit: "a\\tb", path: p, ' + DOC, "`a\\tb` is not one line of printable text", "p.unit", ""),
    ('p: {type: enum, choices: [a, "\\e[1m"], path: p, ' + DOC, "`\\x1b[1m` is not one line of printable text", "p.choices.1", ""),
    ("p: {type: int, path: p, docs: x, " + DOC, "unknown key `docs`", "p.docs", "`doc`?"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "what", "key", "expected"), PARAMETERS)
def test_faults_of_a_parameter(tmp_path: Path, line: str, what: str, key: str, expected: str | None) -> None:
    line = line if line.endswith("}}") or "doc:" not in line else line + "}"
    ((found, where, wanted),) = faults(tmp_path, replaced(MANIFEST, (STEPS, f"  {line} {HERE}\n")))
    assert (found, where) == (what, f"parameters.{key}")
    assert expected is None or wanted == expected


@pytest.mark.parametrize(
    ("version", "what", "key"),
    [("status: deprecated", "a deprecated version has no sunset date", ""),
     ("status: deprecated, sunset: soon", "a deprecated version has no sunset date", ""),
     ("rename: {rat: x}", "no parameter `rat`, did you mean `rate`?", "rename.rat"),
     ("rename: {rate: Rate}", "`Rate` is no name of a parameter", "rename"),
     ("rename: {rate: steps}", "2 parameters have the name `steps`", ""),
     ("rename: {steps: lr}", "2 parameters have the name `lr`", ""),
     ("remove: [step]", "no parameter `step`, did you mean `steps`?", "remove.step"),
     ("remove: [zzz]", "no parameter `zzz`", "remove.zzz"),
     ("paths: {zzz: a}", "no parameter `zzz`", "paths.zzz"),
     ("paths: {rate: --a}", "`--a` is no name of a flag", "paths.rate"),
     ("paths: {rate: steps}", "rate and steps have the path `steps`", ""),
     ("defaults: {zzz: 1}", "no parameter `zzz`", "defaults.zzz"),
     ("defaults: {rate: 2}", "the default does not fit: `2` is out of range", "defaults.rate"),
     ("defaults: {rate: [1]}", "the default does not fit: a list is no float value", "defaults.rate"),
     ("rename: {rate: speed}, defaults: {rate: 1}", "no parameter `rate`", "defaults.rate"),
     ("remove: [rate], paths: {rate: a}", "no parameter `rate`", "paths.rate"),
     ("add: {Top: {type: int, path: top, doc: {en: X}}}", "`Top` is no name of a parameter", "add.Top"),
     ("add: {top: {type: int, path: top, default: x, doc: {en: X}}}", "the default does not fit: `x` is not a whole number", "add.top.default"),
     ("add: {rate: {type: int, path: top, doc: {en: X}}}", "2 parameters have the name `rate`", ""),
     ("add: {top: {type: int, path: steps, doc: {en: X}}}", "steps and top have the path `steps`", ""),
     ("add: {top: {type: int, path: top, alias: lr, doc: {en: X}}}", "2 parameters have the name `lr`", ""),
     ("runtimeid: x", "unknown key `runtimeid`", "runtimeid"), ("requires: torch", "`torch` does not fit", "requires")],
)  # fmt: skip
def test_faults_of_a_version(tmp_path: Path, version: str, what: str, key: str) -> None:
    text = replaced(
        MANIFEST, ("    2.0.0: {runtime_id", f"    1.0.0: {{{version}}} {HERE}\n    2.0.0: {{runtime_id")
    )
    ((found, where, _),) = faults(tmp_path, text)
    assert (found, where) == (what, f"framework.versions.1.0.0{'.' + key if key else ''}")


@pytest.mark.parametrize(
    ("key", "expression", "what"),
    [("require", "rate <", "not an expression: unexpected 'end of template'"),
     ("require", "rate | nofilter", "not an expression: No filter named 'nofilter'."),
     ("when", "1) }}{{ (1", "not an expression: unexpected ')'"),
     ("require", "speed > 1", "unknown in version 2.0.0: `speed`"),
     ("require", "steps and range(3) and lipsum()", "unknown in version 2.0.0: `lipsum`, `range`"),
     ("require", "[rate, steps] | random", "not an expression: No filter named 'random'."),
     ("when", "learning_rate > 1", "unknown in version 2.0.0: `learning_rate`")],
)  # fmt: skip
def test_faults_of_a_rule(tmp_path: Path, key: str, expression: str, what: str) -> None:
    other = "require: 'true'" if key == "when" else "when: 'true'"
    rules = f"rules:\n  - {{require: 'true', message: {{en: M}}}}\n  - {{{other}, message: {{en: M}}, {key}: '{expression}'}} {HERE}\n"
    ((found, where, _),) = faults(tmp_path, MANIFEST + rules)
    assert (found, where) == (what, f"rules.1.{key}")


def test_a_rule_must_hold_for_every_version(tmp_path: Path) -> None:
    text = replaced(MANIFEST, ("    2.0.0: {", "    1.0.0: {remove: [steps]}\n    2.0.0: {"))
    found = faults(tmp_path, text + "rules: [{require: steps != 1, message: {en: M}}] # HERE\n")
    assert found == [("unknown in version 1.0.0: `steps`", "rules.0.require", "")]


def test_faults_of_all_manifests_are_reported_together(tmp_path: Path) -> None:
    first = write_recipe(
        tmp_path, replaced(MANIFEST, ("default: 0.1", "default: 7"), ("default: 2.0.0", "default: x"))
    )
    other = replaced(MANIFEST, ("name: toy/tuned", "name: toy/other"), ("type: int,", "type: itn,"))
    second = write_recipe(tmp_path, other, "toy/other")
    with pytest.raises(InputError) as caught:
        _ = catalog(tmp_path).entries
    places = [problem.where.replace(str(tmp_path), "") for problem in problems_of(caught)]
    assert places == [
        "/toy/other/recipe.yaml:18 parameters.steps.type",
        "/toy/tuned/recipe.yaml:10 framework.default",
        "/toy/tuned/recipe.yaml:17 parameters.rate.default",
    ]
    assert (first, second) == (tmp_path / "toy/tuned/recipe.yaml", tmp_path / "toy/other/recipe.yaml")


def test_argv_style_needs_no_path(tmp_path: Path) -> None:
    write_recipe(tmp_path, replaced(MANIFEST, ("style: flags", "style: argv"), (", path: steps", "")))
    assert "steps" in catalog(tmp_path).manifest("toy/tuned").parameters


FORMERLY = [
    ("alias: lr,", "alias: lr, formerly: [steps], # HERE\n    ", "`steps` is the name of a parameter now", "parameters.rate.formerly"),
    ("alias: lr,", "alias: lr, formerly: [rate], # HERE\n    ", "`rate` is the name of a parameter now", "parameters.rate.formerly"),
    ("{runtime_id: toy-2.0.0}", "{add: {kl: {type: int, path: kl, formerly: [rate], doc: {en: X}}}} # HERE",
     "`rate` is the name of a parameter now", "framework.versions.2.0.0.add.kl.formerly"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "what", "key"), FORMERLY)
def test_a_former_name_is_no_present_one(tmp_path: Path, old: str, new: str, what: str, key: str) -> None:
    assert faults(tmp_path, replaced(MANIFEST, (old, new))) == [(what, key, "")]


def test_a_former_name_is_of_one_parameter_and_may_be_that_of_a_version(tmp_path: Path) -> None:
    shared = replaced(
        MANIFEST,
        ("alias: lr,", "alias: lr, formerly: [pace],"),
        ("path: steps,", "path: steps, formerly: [pace],"),
    )
    write_recipe(tmp_path / "shared", shared)
    with pytest.raises(InputError) as caught:
        _ = catalog(tmp_path / "shared").entries
    assert {problem.what for problem in problems_of(caught)} == {"2 parameters were formerly `pace`"}
    renamed = replaced(
        MANIFEST,
        ("alias: lr,", "alias: lr, formerly: [pace, speed],"),
        ("{runtime_id: toy-2.0.0}", "{rename: {rate: pace}}"),
    )
    write_recipe(tmp_path / "renamed", renamed)
    assert catalog(tmp_path / "renamed").has("toy/tuned")
