"""Every case of every method on one release: compiled, given to upstream, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import yaml
from contract.bench import Bench, Compiled
from contract.cases import Case, Cases, Tried
from contract.frameworks.runs import Answer, Program

from tuneplane.errors import TuneplaneError
from tuneplane.plan.hydra import VARIABLES, Raw


class Framework(Tried, Protocol):
    """changes: keys that upstream always brings into another form after it has read them, and that form; unchecked: what
    no case can tell.
    """

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> tuple[str, ...]: ...

    @property
    def changes(self) -> Mapping[str, Callable[[Any], Any]]: ...

    @property
    def unchecked(self) -> str: ...

    def program(self, version: str) -> Program:
        """What answers for a release. Raises Unavailable."""


@dataclass(frozen=True)
class Outcome:
    """refused: why `tp` refuses the case; different: upstream's keys whose value is another one than was set."""

    case: Case
    refused: str = ""
    answer: Answer = field(default_factory=Answer)
    different: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """In a line; empty when upstream took all that was set."""
        if self.refused:
            return f"{self.case.name}: refused by tp: {self.refused}"
        if self.answer.error:
            return f"{self.case.name}: refused by upstream: {self.answer.error}"
        return f"{self.case.name}: {'; '.join(self.different)}" if self.different else ""


def outcomes(framework: Framework, program: Program, benches: Sequence[Bench]) -> dict[str, list[Outcome]]:
    """By method. Parameters that fail together are tried again one by one, so that each outcome tells which."""
    first = [
        (bench, case)
        for bench in benches
        for case in Cases(bench.recipe, framework).all(partial(_legal, bench))
    ]
    found = _tried(framework, program, first)
    again = [
        (bench, part)
        for (bench, case), outcome in zip(first, found, strict=True)
        if outcome.fault and len(case.about) > 1
        for part in Cases(bench.recipe, framework).apart(case)
    ]
    by_method: dict[str, list[Outcome]] = {bench.recipe.name: [] for bench in benches}
    for (bench, _), outcome in [
        *zip(first, found, strict=True),
        *zip(again, _tried(framework, program, again), strict=True),
    ]:
        by_method[bench.recipe.name].append(outcome)
    return by_method


def _tried(framework: Framework, program: Program, tries: Sequence[tuple[Bench, Case]]) -> list[Outcome]:
    compiled = [_compiled(bench, case) for bench, case in tries]
    asked = [
        request(bench, done, case.name == "starter")
        for (bench, case), done in zip(tries, compiled, strict=True)
        if isinstance(done, Compiled)
    ]
    answers = iter(program.answers(asked) if asked else [])
    return [
        _outcome(framework, case, done, next(answers)) if isinstance(done, Compiled) else Outcome(case, done)
        for (_, case), done in zip(tries, compiled, strict=True)
    ]


def _legal(bench: Bench, case: Case) -> bool:
    return isinstance(_compiled(bench, case), Compiled)


def _compiled(bench: Bench, case: Case) -> Compiled | str:
    try:
        return bench.compiled(case)
    except TuneplaneError as error:
        return "; ".join(f"{problem.what} ({problem.where})" for problem in error.problems)


def request(bench: Bench, compiled: Compiled, whole: bool = False) -> dict[str, Any]:
    """What a program of `inside/` is asked. whole: in the long way too, where there is a short one."""
    return {
        "config": bench.recipe.config.index,
        "words": compiled.words,
        "keys": list(compiled.expected),
        "environment": {VARIABLES[place]: path for place, path in bench.places.items() if place in VARIABLES},
        "whole": whole,
    }


def _outcome(framework: Framework, case: Case, compiled: Compiled, answer: Answer) -> Outcome:
    return Outcome(case, "", answer, tuple(differences(compiled.expected, answer, framework.changes)))


def differences(
    expected: Mapping[str, Any], answer: Answer, changes: Mapping[str, Callable[[Any], Any]]
) -> Iterator[str]:
    """Keys at which upstream has another value than was set, or changes it after it has read it."""
    for key, value in expected.items():
        if key in answer.values and not equal(value, answer.values[key]):
            yield f"{key} is {answer.values[key]!r} upstream, set was {value!r}"
        if key in answer.changed and answer.changed[key] != (changes[key](value) if key in changes else None):
            yield f"{key} is changed by upstream from {answer.values[key]!r} to {answer.changed[key]!r}"


def equal(value: Any, found: Any) -> bool:
    """Whether both are the same value; a number is a number, a truth is none."""
    if isinstance(value, Raw):
        value = yaml.safe_load(str(value))
    if isinstance(value, (list, tuple)):
        return (
            isinstance(found, list)
            and len(value) == len(found)
            and all(equal(one, other) for one, other in zip(value, found, strict=True))
        )
    if isinstance(value, bool) or isinstance(found, bool) or isinstance(value, str):
        return type(value) is type(found) and bool(value == found)
    return bool(value == found)
