"""What a parameter takes, and the words of manifests that stand between texts, in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import expectation
from tuneplane.durations import FORMS

_KINDS = {
    "int": "整数",
    "float": "有限数值",
    "bool": "true 或 false",
    "str": "文本",
    "duration": FORMS.replace("`", "").replace(" or ", " 或 "),
    "path": "路径",
}
_GROUPS = {
    "actor": "策略模型",
    "agent": "智能体",
    "algorithm": "算法",
    "batch": "批次",
    "compute": "计算",
    "correction": "重要性修正",
    "critic": "价值模型",
    "data": "数据",
    "distillation": "蒸馏",
    "evaluation": "评测",
    "filter": "筛选",
    "general": "一般",
    "generation": "生成",
    "kl": "KL 约束",
    "lora": "LoRA",
    "loss": "损失",
    "memory": "显存",
    "method": "方法",
    "model": "模型",
    "optimization": "优化",
    "output": "输出",
    "parallelism": "并行",
    "preference": "偏好",
    "reference": "参考模型",
    "reward": "奖励",
    "rollout": "采样",
    "rollout correction": "采样修正",
    "schedule": "进度",
    "teacher": "教师模型",
    "train": "训练",
    "training": "训练",
    "validation": "验证",
}
_UNITS = {
    "GPUs": "GPU 数",
    "answers": "回答数",
    "batches": "批",
    "bytes": "字节",
    "epochs": "轮",
    "examples": "样本数",
    "images": "图像数",
    "pairs": "对",
    "processes": "进程数",
    "prompts": "提示数",
    "rows": "行",
    "samples": "样本数",
    "seconds": "秒",
    "sequences": "序列数",
    "steps": "步",
    "tokens": "token 数",
}


def grouped(parameters: Mapping[str, Parameter]) -> dict[str, dict[str, Parameter]]:
    """The parameters by their groups, both in the order of the manifest."""
    groups: dict[str, dict[str, Parameter]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(parameter.group, {})[name] = parameter
    return groups


def takes(parameter: Parameter, language: str) -> str:
    """What the parameter takes, in a few words."""
    if language != "zh":
        return expectation(parameter).replace("`", "")
    if parameter.type == "list":
        return f"列表，每项：{_takes(parameter, parameter.items)}"
    return _takes(parameter, parameter.type)


def _takes(parameter: Parameter, kind: str) -> str:
    if kind == "enum":
        return "、".join(parameter.choices) + " 之一"
    if kind == "function":
        if parameter.function_path:
            return "FILE 或 FILE:FUNCTION"
        return f"定义了函数 {parameter.function} 的文件"
    if kind == "content":
        return "或 ".join(["文件", *parameter.words])
    words = _KINDS[kind]
    if parameter.range:
        words += f"，范围 {parameter.range}"
    return f"{words}，单位：{_UNITS.get(parameter.unit, parameter.unit)}" if parameter.unit else words


def group_name(group: str, language: str) -> str:
    """A group of parameters; one that has no Chinese name here stays as it is."""
    return _GROUPS.get(group, group) if language == "zh" else group
