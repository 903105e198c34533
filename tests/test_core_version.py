"""Whether this `tp` is one that a recipe asks for."""

from __future__ import annotations

import pytest

from tuneplane import __version__
from tuneplane.core_version import misfit, satisfies


@pytest.mark.parametrize(
    ("requirement", "version", "met"),
    [(">=0.1,<0.2", "0.1.0", True), (">=0.1,<0.2", "0.1.9", True), (">=0.1,<0.2", "0.2.0", False), (">=0.1,<0.2", "0.0.9", False),
     (">=0.9", "0.10.0", True), ("<0.10", "0.9", True), ("==0.1", "0.1.0", True), ("==0.1", "0.1.1", False), ("!=0.1.1", "0.1.1", False),
     (">0.1", "0.1.0", False), ("<=1", "1.0.0", True), (">=1,!=1.2,<2", "1.2.0", False), (" >= 0.1 , < 1 ", "0.5", True),
     (">=1.2.3.4", "1.2.3.5", True), (">=1.2.3.4", "1.2.3", False)],
)  # fmt: skip
def test_versions(requirement: str, version: str, met: bool) -> None:
    assert satisfies(requirement, version) is met


@pytest.mark.parametrize(
    "requirement", ["", "0.1", ">=", "~=0.1", ">=0.1,", ">=0.x", ">=0.1 <0.2", "=>0.1", ">=0.1rc1"]
)
def test_what_is_no_list_of_versions(requirement: str) -> None:
    with pytest.raises(ValueError, match="is not a list of versions"):
        satisfies(requirement, "0.1.0")


def test_a_later_clause_is_checked_though_an_earlier_fails() -> None:
    with pytest.raises(ValueError):
        satisfies(">=99,oops", "0.1.0")


def test_the_version_asked_for_by_default_is_this_one() -> None:
    assert satisfies(f"=={__version__}")


@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [(">=0", ""), (">=99", "too old"), (">98,!=0.0.0", "too old"), ("<0.0.1", "too new"), ("<=0.0.1,>=0", "too new"), ("==99", "too new")],
)  # fmt: skip
def test_what_this_tp_is_for_a_requirement(requirement: str, verdict: str) -> None:
    assert misfit(requirement) == verdict
    with pytest.raises(ValueError):
        misfit(f"{requirement},oops")
