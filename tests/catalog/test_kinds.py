"""The kinds of data, and what parameters take, in both languages."""

from __future__ import annotations

import re

import pytest
from builders import parameter

from tuneplane.catalog.kinds import KINDS
from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.takes import group_name, grouped, takes
from tuneplane.visible import visible


def test_each_kind_is_said_in_one_line_in_both_languages() -> None:
    for name, kind in KINDS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        for text in (kind.title, kind.line):
            assert text.zh != text.en and all(visible(words) and words for words in (text.en, text.zh))
            assert not text.en.endswith(".") and not text.zh.endswith("。")


@pytest.mark.parametrize(
    ("made", "en", "zh"),
    [
        (parameter("int", range="[1, 2]", unit="steps"), "a whole number in [1, 2], in steps", "整数，范围 [1, 2]，单位：步"),
        (parameter("float", unit="furlongs"), "a finite number, in furlongs", "有限数值，单位：furlongs"),
        (parameter("bool"), "true or false", "true 或 false"),
        (parameter("str"), "text", "文本"),
        (parameter("path"), "a path", "路径"),
        (parameter("enum", choices=["a", "b"]), "one of a, b", "a、b 之一"),
        (parameter("list", items="enum", choices=["a"]), "a list, each item one of a", "列表，每项：a 之一"),
        (parameter("duration"), "90m, 12h, 1d12h, H:MM:SS or D-HH:MM:SS", "90m, 12h, 1d12h, H:MM:SS 或 D-HH:MM:SS"),
        (parameter("function", function="f", function_path="x"), "FILE or FILE:FUNCTION", "FILE 或 FILE:FUNCTION"),
        (parameter("function", function="f"), "a file that defines f", "定义了函数 f 的文件"),
        (parameter("content", words=["default"]), "a file or default", "文件或 default"),
    ],
)  # fmt: skip
def test_what_a_parameter_takes(made: Parameter, en: str, zh: str) -> None:
    assert (takes(made, "en"), takes(made, "zh")) == (en, zh)


def test_groups_are_kept_together() -> None:
    made = {name: parameter("int", group=group) for name, group in (("a", "x"), ("b", "y"), ("c", "x"))}
    assert {group: list(members) for group, members in grouped(made).items()} == {"x": ["a", "c"], "y": ["b"]}
    assert (group_name("data", "zh"), group_name("data", "en"), group_name("x", "zh")) == (
        "数据",
        "data",
        "x",
    )
