"""The kinds of data that methods start from."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.catalog.manifest import Text


@dataclass(frozen=True)
class Kind:
    """What the data is called, and what is in it, in one line."""

    title: Text
    line: Text


def _kind(title: str, zh_title: str, line: str, zh_line: str) -> Kind:
    return Kind(Text(en=title, zh=zh_title), Text(en=line, zh=zh_line))


KINDS = {
    "instruction-response": _kind(
        "instructions with responses",
        "指令与回答",
        "Each example is a request and the answer to be learnt, or a conversation",
        "每条样本是一个请求和应学习的回答，或一段对话",
    ),
    "preference-pairs": _kind(
        "preference pairs",
        "偏好对",
        "For each prompt a better and a worse answer",
        "每个提示有一个较好的回答和一个较差的回答",
    ),
    "binary-feedback": _kind(
        "binary feedback",
        "二元反馈",
        "Single answers, each marked as good or bad",
        "单个回答，各自标为好或不好",
    ),
    "verifiable-tasks": _kind(
        "verifiable tasks",
        "可验证的任务",
        "Prompts whose answers a function, a program or a reward model can judge; no answers are needed",
        "提示的回答可由函数、程序或奖励模型评判；不需要现成的回答",
    ),
    "stronger-teacher": _kind(
        "a stronger teacher",
        "更强的教师模型",
        "Prompts, and a larger model that the smaller one learns from",
        "提示，以及供较小模型学习的较大模型",
    ),
    "labelled-images": _kind(
        "labelled images",
        "带标签的图像",
        "Images sorted into classes",
        "按类别整理的图像",
    ),
    "none": _kind(
        "no data of your own",
        "无需自备数据",
        "The method brings its data along, as evaluations do",
        "数据由方法自带，例如评测",
    ),
    "any": _kind(
        "any data",
        "任意数据",
        "What the data is depends on your own program",
        "数据取决于您自己的程序",
    ),
}
"""Kind → what it is. A method has one of these kinds."""
