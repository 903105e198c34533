"""`config.yaml`: every section, every value with its place, every fault of its shape at once."""

from __future__ import annotations

from typing import Any

import pytest
from builders import config, problems_of

from tuneplane.documents.tree import plain
from tuneplane.errors import InputError

FULL = """\
model: /models/Qwen2.5-7B
data: {train: data/train.parquet, validation: org/set@main}
params:
  learning_rate: 1e-6
  nested: [1, 2]
overrides:
  trainer.project_name: gsm8k
  trainer:
    logger: {level: 3, names: [a]}
env: {NCCL_DEBUG: WARN, EMPTY: ''}
secrets: [HF_TOKEN]
tracking: [console]
resources: {profile: h200:8, time: 12h, account: 007}
args: [--a, 010, '']
"""


def test_every_section() -> None:
    found = config(FULL)
    assert found.model is not None
    assert (found.model.text, found.model.where, found.model.source) == (
        "/models/Qwen2.5-7B",
        "exp/config.yaml:1 model",
        "config.yaml",
    )
    assert {key: (item.text, item.where) for key, item in found.data.items()} == {
        "train": ("data/train.parquet", "exp/config.yaml:2 data.train"), "validation": ("org/set@main", "exp/config.yaml:2 data.validation")}  # fmt: skip
    assert {key: (plain(item.node), item.where) for key, item in found.params.items()} == {
        "learning_rate": (1e-6, "exp/config.yaml:4 params.learning_rate"), "nested": ([1, 2], "exp/config.yaml:5 params.nested")}  # fmt: skip
    assert {key: (plain(item.node), item.where) for key, item in found.overrides.items()} == {
        "trainer.project_name": ("gsm8k", "exp/config.yaml:7 overrides.trainer.project_name"),
        "trainer.logger.level": (3, "exp/config.yaml:9 overrides.trainer.logger.level"),
        "trainer.logger.names": (["a"], "exp/config.yaml:9 overrides.trainer.logger.names")}  # fmt: skip
    assert {key: item.text for key, item in found.env.items()} == {"NCCL_DEBUG": "WARN", "EMPTY": ""}
    assert [item.text for item in found.secrets] == ["HF_TOKEN"] and [
        item.text for item in found.tracking
    ] == ["console"]
    assert {key: item.text for key, item in found.resources.items()} == {
        "profile": "h200:8",
        "time": "12h",
        "account": "007",
    }
    assert [(item.text, item.where) for item in found.args] == [
        ("--a", "exp/config.yaml:14 args.0"), ("010", "exp/config.yaml:14 args.1"), ("", "exp/config.yaml:14 args.2")]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "params:\nenv:\nsecrets: ~\nmodel:\ndata:\nargs:\n", "params: {}\nsecrets: []\n"],
)
def test_what_is_absent_or_empty_is_empty(text: str) -> None:
    found = config(text)
    assert found.model is None
    assert not any(
        [
            found.data,
            found.params,
            found.overrides,
            found.env,
            found.secrets,
            found.tracking,
            found.resources,
            found.args,
        ]
    )


@pytest.mark.parametrize(
    ("text", "what", "key", "expected"),
    [("parms: {}", "unknown key `parms`", "parms", "`params`?"),
     ("zzz: 1", "unknown key `zzz`", "zzz", "one of model, data, params, overrides, env, secrets, tracking, resources, args"),
     ("model: [a]", "a plain value is expected", "model", "text"), ("model: ''", "the text is empty", "model", "text"), ('model: "a\\0b"', "the text holds a NUL character", "model", "text"),
     ("data: x", "`data` is not a mapping", "data", "`key: value` lines"), ("data: {test: x}", "unknown key `test`", "data.test", "one of train, validation"),
     ("data: {train: ~}", "a plain value is expected", "data.train", "text"), ("data: {trian: x}", "unknown key `trian`", "data.trian", "`train`?"),
     ("params: [a]", "`params` is not a mapping", "params", "`key: value` lines"), ("overrides: 3", "`overrides` is not a mapping", "overrides", "`key: value` lines"),
     ("overrides: {a.b: 1, a: {b: 2}}", "the key `a.b` stands twice", "overrides.a.b", ""),
     ("env: {A: [1]}", "a variable's value is text", "env.A", 'text; `""` for an empty one'), ("env: {A: }", "a variable's value is text", "env.A", 'text; `""` for an empty one'),
     ("secrets: HF_TOKEN", "`secrets` is not a list", "secrets", "a list such as `[a, b]`"), ("secrets: [[A]]", "a word is expected", "secrets.0", 'text; `""` for an empty word'),
     ("secrets: [A-B]", "`A-B` is no name of a variable", "secrets.0", "a name alone"), ("secrets: ['']", '`""` is no name of a variable', "secrets.0", "a name alone"),
     ("tracking: [wandbb]", "unknown tracker `wandbb`", "tracking.0", "`wandb`?"), ("tracking: console", "`tracking` is not a list", "tracking", "a list such as `[a, b]`"),
     ("resources: {gpus: 8}", "unknown key `gpus`", "resources.gpus", None), ("resources: {profil: x}", "unknown key `profil`", "resources.profil", "`profile`?"),
     ("resources: {time: {a: 1}}", "a plain value is expected", "resources.time", "text"),
     ("args: {a: 1}", "`args` is not a list", "args", "a list such as `[a, b]`"), ("args: [a, ~]", "a word is expected", "args.1", 'text; `""` for an empty word'),
     ('args: ["a\\0b"]', "a word is expected", "args.0", 'text; `""` for an empty word')],
)  # fmt: skip
def test_faults(text: str, what: str, key: str, expected: str | None) -> None:
    with pytest.raises(InputError) as caught:
        config(f"# a comment\n{text}\n")
    (problem,) = problems_of(caught)
    assert (problem.what, problem.where) == (what, f"exp/config.yaml:2 {key}")
    assert expected is None or problem.expected == expected


def test_all_faults_are_reported_together_in_their_order() -> None:
    with pytest.raises(InputError) as caught:
        config("parms: {}\nmodel: []\nargs: 3\nenv: {A: }\n")
    assert [problem.where.partition(" ")[2] for problem in problems_of(caught)] == [
        "parms",
        "model",
        "args",
        "env.A",
    ]


def test_a_value_under_secrets_is_never_shown() -> None:
    with pytest.raises(InputError) as caught:
        config("secrets: ['HF_TOKEN=hf_canary']")
    said: Any = [problem.lines() for problem in problems_of(caught)]
    assert "canary" not in str(said) and "secrets file" in str(said)
