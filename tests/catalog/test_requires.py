"""What a method asks of an image's packages, against what registration found."""

from __future__ import annotations

import pytest

from tuneplane.catalog.requires import fault, normalized, required_name, unmet

HELD = {
    "torch": "2.13.0+cpu",
    "flash-attn": "2.8.1",
    "ray": "2.50.0",
    "vllm": "0.12.0rc1",
    "odd": "not a version",
    "x": "",
}


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("torch", None),
        ("torch==2.13.0", None),
        ("torch>=2.12,<3", None),
        ("torch==2.14.0", "torch 2.13.0+cpu"),
        ("torch==2.13.0+cpu", None),
        ("torch==2.13.0+cu130", "torch 2.13.0+cpu"),
        ("torch!=2.13.0", "torch 2.13.0+cpu"),
        ("Flash_Attn>=2", None),
        ("flash.attn[extra]>=3", "flash-attn 2.8.1"),
        ("ray[default,serve] ~= 2.49", None),
        ("vllm>=0.11", None),
        ("vllm>=0.12.0", "vllm 0.12.0rc1"),
        ("deepspeed", ""),
        ("deepspeed>=0.1", ""),
        ("x", ""),
        ("odd", None),
        ("odd>=1", "odd not a version"),
        ("not a requirement", ""),
        ("torch==", "torch 2.13.0+cpu"),
    ],
)
def test_what_is_met_and_what_is_there_instead(requirement: str, said: str | None) -> None:
    assert list(unmet([requirement], HELD)) == ([] if said is None else [(requirement, said)])


def test_each_that_is_not_met_in_the_given_order() -> None:
    assert list(unmet(["b", "torch", "a>1"], HELD)) == [("b", ""), ("a>1", "")]
    assert list(unmet([], HELD)) == [] == list(unmet(["torch"], HELD))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch", "torch"),
        (" Flash_Attn[a,b] >=2", "flash-attn"),
        ("a.b__c-.d==1", "a-b-c-d"),
        ("x;python_version<'3'", "x"),
        ("x@https://e", "x"),
        ("", ""),
    ],
)
def test_names(text: str, name: str) -> None:
    assert required_name(text) == name and normalized(name) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch", ""),
        ("torch[a]>=2,<3", ""),
        ("torch (>=2)", ""),
        ("torch; python_version < '3'", "only a name and versions are looked at"),
        ("torch @ https://example.org/torch.whl", "only a name and versions are looked at"),
    ],
)
def test_faults(text: str, said: str) -> None:
    assert fault(text) == said


@pytest.mark.parametrize("text", ["", "==2", "torch==", "torch 2", "a b", "torch>=two"])
def test_what_is_no_requirement_is_told_in_one_line(text: str) -> None:
    assert fault(text) and "\n" not in fault(text)
