"""What upstream is told: pins, keys that tp sets, values that follow from others, overrides, in Hydra's grammar."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from builders import catalog, site, write_recipe
from plan.cases import FILES, plan, refused

from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.experiment.config import Located
from tuneplane.plan.inputs import Request

RECIPE = """\
schema: 1
name: toy/told
version: 1.0.0
title: {en: Toy}
summary: {en: A toy}
category: rl
requires: {core: ">=0.1,<0.2"}
framework: {kind: toy, default: 2.0.0, versions: {2.0.0: {runtime_id: toy-2.0.0}}}
launch:
  kind: ray
  entry: {module: toy.main}
  pools: {teacher: {roles: [teacher], need: optional}}
config: {style: hydra, index: main, open: [reward.extra]}
data: {kind: any, train: optional, validation: optional}
model: optional
tracking: [console, tensorboard, wandb]
pinned: {algorithm.name: grpo, trainer.legacy: "false"}
elsewhere: {algorithm.name: {ppo: toy/ppo}}
owned:
  trainer.nodes: {value: nodes, by: resources.profile}
  trainer.teachers: {value: teacher_nodes or none, by: resources.pools}
  trainer.out: {value: output / "check points", by: nothing}
  trainer.logger: {value: tracking, by: "`tracking`"}
  data.files: {value: train_data, by: "`data.train`"}
  ray.cpus: {by: resources.profile}
ignored: {old: new, reward_file: reward.path}
variables: {TOY_BOARD: output / "board", TOY_MODE: "'offline' if not online else none", TOY_N: nodes * 2}
parameters:
  loss: {type: enum, choices: [plain, clip-cov], default: plain, spelled: {clip-cov: clip_cov}, path: actor.loss, doc: {en: Loss}}
  mean: {type: str, otherwise: "'sequence' if loss == 'clip-cov' else none", path: actor.mean, doc: {en: Mean}}
  seed: {type: int, default: 1, path: data.seed, also: [actor.seed, rollout.seed], doc: {en: Seed}}
  engines: {type: int, otherwise: world_size // width, path: engines, doc: {en: Engines}}
  width: {type: int, default: 1, path: width, doc: {en: Width}}
  normal: {type: bool, default: true, spelled: {"true": grpo, "false": dr_grpo}, path: algorithm.name, doc: {en: Normal}}
  reward: {type: function, function: score, function_path: reward.name, path: reward.path, excludes: [reward_url], doc: {en: Reward}}
  reward_url: {type: str, path: reward.path, doc: {en: Address}}
  template: {type: content, words: [default], spelled: {default: ""}, path: model.template, doc: {en: Template}}
  extra: {type: float, path: reward.extra.weight, doc: {en: Weight}}
  note: {type: str, path: note, doc: {en: Note}}
  start: {type: path, path: model.start, doc: {en: Start}}
rules:
  - {require: engines * width == world_size, message: {en: engines do not fill the GPUs}}
"""
KEYS = {
    "trainer.steps": "int",
    "trainer.note": "str",
    "trainer.list": "list",
    "actor.loss": "str",
    "reward.extra": "dict",
}
REWARD = "import math\nif math:\n    def score(x): return 1.0\nother = score\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    root = tmp_path_factory.mktemp("recipes")
    write_recipe(root, RECIPE, "toy/told")
    (root / "toy/_keys").mkdir()
    (root / "toy/_keys/main-2.0.0.json").write_text('{"source": "here", "keys": {}}')
    return resolve(catalog(root).manifest("toy/told"))


def words(recipe: Recipe, text: str = "", request: Request | None = None, **over: Any) -> dict[str, str]:
    """Key → value of each word after the entry."""
    found = plan(recipe, text, request, **{"keys": KEYS, **over}).words
    assert found[:3] == ("python3", "-m", "toy.main")
    return dict(word.split("=", 1) for word in found[3:])  # type: ignore[union-attr]


def settings(*pairs: tuple[str, str]) -> Request:
    return Request(settings=pairs)


def test_everything_upstream_is_told_stands_in_the_order_of_its_keys(told: Recipe) -> None:
    assert list(words(told).items()) == [
        ("actor.loss", '"plain"'),
        ("actor.seed", "1"),
        ("algorithm.name", '"grpo"'),
        ("data.seed", "1"),
        ("engines", "8"),
        ("rollout.seed", "1"),
        ("trainer.legacy", "false"),
        ("trainer.logger", '["console","tensorboard"]'),
        ("trainer.nodes", "1"),
        ("trainer.out", '"${oc.env:TUNEPLANE_OUTPUT_DIR}/check points"'),
        ("width", "1"),
    ]


@pytest.mark.parametrize(
    ("pair", "key", "value"),
    [(("loss", "clip-cov"), "actor.loss", '"clip_cov"'), (("loss", "clip_cov"), "actor.loss", '"clip_cov"'), (("loss", "clip-cov"), "actor.mean", '"sequence"'),
     (("normal", "false"), "algorithm.name", '"dr_grpo"'), (("seed", "7"), "rollout.seed", "7"), (("width", "4"), "engines", "2"),
     (("extra", "0.5"), "+reward.extra.weight", "0.5"), (("start", "conf"), "model.start", '"${oc.env:TUNEPLANE_EXPERIMENT_DIR}/conf"'),
     (("start", "/a b"), "model.start", '"/a b"'), (("start", "~/m"), "model.start", '"${oc.env:TUNEPLANE_USER_HOME}/m"'),
     (("note", "a,b={c}"), "note", '"a,b={c}"'), (("note", 'say "x"'), "note", r'"say \"x\""'), (("note", "it's"), "note", '"it\'s"'), (("note", "$x {y}"), "note", '"$x {y}"'),
     (("note", "end\\"), "note", r'"end\\"'), (("note", r"a\b"), "note", r'"a\b"'), (("note", ""), "note", '""'), (("note", "null"), "note", '"null"')],
)  # fmt: skip
def test_a_value_as_it_is_sent(told: Recipe, pair: tuple[str, str], key: str, value: str) -> None:
    assert words(told, "", settings(pair))[key] == value


def test_what_was_chosen_wins_over_what_would_follow(told: Recipe) -> None:
    found = words(told, "", settings(("loss", "clip-cov"), ("mean", "token")))
    assert found["actor.mean"] == '"token"'


def test_the_home_of_the_user_is_handed_in_only_where_a_word_asks_for_it(told: Recipe) -> None:
    names = [v.name for v in plan(told, "", settings(("start", "~/m"))).environment]
    assert "TUNEPLANE_USER_HOME" in names
    assert "TUNEPLANE_USER_HOME" not in [v.name for v in plan(told).environment]


def test_rules_see_what_follows(told: Recipe) -> None:
    code, [(what, _)] = refused(told, "", settings(("width", "3")))
    assert (code, what) == (3, "engines do not fill the GPUs")


def test_pools_and_data_files(told: Recipe) -> None:
    located = {
        key: Located(key, "x", f"/data/{i}", True) for i, key in enumerate(("data.train", "data.train.1"))
    }
    text = "resources: {pools: {teacher: 'h200:16'}}"
    found = words(told, text, located=located)
    assert (found["trainer.teachers"], found["data.files"]) == ("2", '["/data/0","/data/1"]')


@pytest.mark.parametrize(
    ("online", "mode"), [(False, "offline"), (True, None)], ids=["nodes without a network", "with one"]
)
def test_variables_that_follow(told: Recipe, online: bool, mode: str | None) -> None:
    made = plan(told, site=site(network={"online": online}))
    found = {v.name: str(v.value) for v in made.environment if v.name.startswith("TOY_")}
    wanted = {"TOY_BOARD": "<output>/board", "TOY_N": "2", **({"TOY_MODE": mode} if mode else {})}
    assert found == wanted


def test_a_function_of_a_file(told: Recipe) -> None:
    over = {"texts": {"conf/r.py": REWARD}, "has_file": frozenset([*FILES, "conf/r.py"])}
    found = words(told, "params: {reward: conf/r.py}", **over)
    assert found["reward.path"] == '"${oc.env:TUNEPLANE_EXPERIMENT_DIR}/conf/r.py"'
    assert found["reward.name"] == '"score"'
    assert words(told, "params: {reward: 'conf/r.py:other'}", **over)["reward.name"] == '"other"'


@pytest.mark.parametrize(
    ("text", "what"),
    [("reward: gone.py", "no file `gone.py` of the experiment would be frozen"), ("reward: 'r.py:scored'", "r.py defines no `scored`"),
     ("reward: 'r.py:a b'", "`r.py:a b` names no function of a file"), ("template: gone.j2", "no file `gone.j2` of the experiment would be frozen"),
     ("{reward: r.py, reward_url: x}", "`reward` and `reward_url` cannot both be set")],
)  # fmt: skip
def test_files_that_do_not_hold_what_they_should(told: Recipe, text: str, what: str) -> None:
    wrapped = text if text.startswith("{") else f"{{{text}}}"
    code, problems = refused(told, f"params: {wrapped}", texts={"r.py": REWARD})
    assert code == 3 and what in [one for one, _ in problems]


def test_the_text_of_a_file_is_sent(told: Recipe) -> None:
    text = "{% for m in messages %}'{{ m }}'\n{% endfor %}"
    found = words(told, "params: {template: conf/t.j2}", texts={"conf/t.j2": text})
    assert found["model.template"] == f'"{text}"'
    assert "model.template" not in words(told, "params: {template: default}")


@pytest.mark.parametrize(
    "text",
    ["params: {note: 'a ${x}'}", "params: {start: '/a/${x}'}", "overrides: {trainer.list: [a, '${x}']}"],
)
def test_what_upstream_would_fill_in_is_refused(told: Recipe, text: str) -> None:
    [(what, *_)] = faults(told, text)
    assert "holds `${`, and upstream fills in what follows" in what


@pytest.mark.parametrize(
    ("override", "value"),
    [("trainer.steps: 5", "5"), ("trainer: {steps: 1e-3}", "0.001"), ("trainer.note: 'yes, it is'", '"yes, it is"'), ("trainer.note: '5'", '"5"'),
     ("trainer.note: null", "null"), ("trainer.note: true", "true"), ("trainer.list: [a, 1, 2.5]", '["a",1,2.5]'), ("trainer.list: []", "[]"), ("trainer.note: {}", "{}")],
)  # fmt: skip
def test_overrides(told: Recipe, override: str, value: str) -> None:
    key = re.split(r"[: ]", override)[0]
    key = key if "." in key else "trainer.steps"
    assert words(told, f"overrides: {{{override}}}")[key] == value


def test_an_open_section_takes_any_key(told: Recipe) -> None:
    assert words(told, "overrides: {reward.extra.deep.er: 1}")["+reward.extra.deep.er"] == "1"


@pytest.mark.parametrize(
    "key",
    [
        "reward.extra.a=1,b",
        "reward.extra.a b",
        "reward.extra.a@b",
        "reward.extra.a:b",
        "reward.extra.",
        "reward.extra.a..b",
        "reward.extra.é",
    ],
)
def test_a_key_below_an_open_section_is_no_grammar(told: Recipe, key: str) -> None:
    [(what, where, expected, _)] = faults(told, f"overrides: {{{key!r}: 1}}")
    assert (what, where) == (f"`{key}` is no key", f"exp/config.yaml:1 overrides.{key}")
    assert expected == "words of letters, digits and `_` with dots between"


@pytest.mark.parametrize(
    "text",
    [
        "params: {note: '%s'}",
        "params: {start: '/%s'}",
        "overrides: {trainer.note: '%s'}",
        "overrides: {trainer.list: ['%s']}",
    ],
)
def test_what_one_argument_cannot_hold_is_refused(told: Recipe, text: str) -> None:
    [(what, _, expected, _)] = faults(told, text % ("x" * (1 << 17)))
    assert what.startswith("the value has 13107") and expected == "less than 128 KiB"


@pytest.mark.parametrize(
    ("key", "what", "expected", "hint"),
    [("trainer.stepz", "toy 2.0.0 has no key `trainer.stepz`", "`trainer.steps`?", ""), ("trainer", "`trainer` is a section of toy 2.0.0", "its keys, such as `trainer.steps`", ""),
     ("actor.loss", "`actor.loss` has a name of its own", "`params.loss`", ""), ("data.seed", "`data.seed` has a name of its own", "`params.seed`", ""), ("rollout.seed", "`rollout.seed` has a name of its own", "`params.seed`", ""),
     ("reward.name", "`reward.name` has a name of its own", "`params.reward`", ""), ("trainer.nodes", "`trainer.nodes` belongs to tp", "resources.profile", ""), ("ray.cpus", "`ray.cpus` belongs to tp", "resources.profile", ""),
     ("old.a.b", "toy takes `old.a.b` and does not heed it", "`new.a.b`", ""), ("reward_file", "toy takes `reward_file` and does not heed it", "`params.reward`", ""),
     ("trainer.legacy", "`trainer.legacy` is what makes this method: it is always `false`", "", "tp methods toy/told"), ("+trainer.legacy", "`trainer.legacy` is what makes this method: it is always `false`", "", "tp methods toy/told")],
)  # fmt: skip
def test_keys_that_are_refused(told: Recipe, key: str, what: str, expected: str, hint: str) -> None:
    problems = faults(told, f"overrides: {{{key!r}: x}}")
    assert problems == [(what, f"exp/config.yaml:1 overrides.{key}", expected, hint)]


@pytest.mark.parametrize("section", ["params", "overrides"])
def test_a_pin_names_the_method_that_has_the_value(told: Recipe, section: str) -> None:
    [(what, _, _, hint)] = faults(told, f"{section}: {{algorithm.name: ppo}}")
    assert what == "`algorithm.name` is what makes this method: it is always `grpo`"
    assert hint == "tp new NAME --method toy/ppo"


def faults(recipe: Recipe, text: str) -> list[tuple[str, str, str, str]]:
    from tuneplane.errors import TuneplaneError

    with pytest.raises(TuneplaneError) as caught:
        plan(recipe, text, keys=KEYS)
    return [dataclasses.astuple(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "what"),
    [("tracking: [wandb]", "`wandb` needs its key"), ("tracking: [console, console]", "`console` stands twice"), ("tracking: [mlflow]", "unknown tracker `mlflow`")],
)  # fmt: skip
def test_tracking_that_is_refused(told: Recipe, text: str, what: str) -> None:
    from tuneplane.errors import TuneplaneError

    with pytest.raises(TuneplaneError) as caught:
        plan(told, text)
    assert [problem.what for problem in caught.value.problems] == [what]


def test_tracking(told: Recipe) -> None:
    found = words(told, "{tracking: [wandb], secrets: [WANDB_API_KEY]}")
    assert found["trainer.logger"] == '["wandb"]'


@pytest.mark.parametrize(
    ("text", "keys"),
    [("data: {train: a}", ["train"]), ("data: {train: [a, b], validation: [c]}", ["train", "train.1", "validation"])],
)  # fmt: skip
def test_data_is_a_path_or_a_list(text: str, keys: list[str]) -> None:
    from builders import config

    assert list(config(text).data) == keys


@pytest.mark.parametrize(
    ("text", "what"),
    [("data: {train: []}", "the list is empty"), ("data: {train: [a, a]}", "`a` stands twice"), ("data: {train: [a, 'b:c']}", "`b:c` holds a colon"),
     ("data: {train: [[a]]}", "a plain value is expected"), ("data: {other: [a]}", "unknown key `other`")],
)  # fmt: skip
def test_lists_of_data_that_are_refused(text: str, what: str) -> None:
    from builders import config

    from tuneplane.errors import TuneplaneError

    with pytest.raises(TuneplaneError) as caught:
        config(text)
    assert [problem.what for problem in caught.value.problems] == [what]
