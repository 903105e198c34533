"""Which experiments of a method are tried: the starter, every parameter with its values, the documented variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from contract.values import tried

from tuneplane.catalog.recipe import Recipe

NODES = "h200:16"
SPECIAL = ("profile", "validation", "more")
"""Names among a case's parameters that are none, see Case."""


@dataclass(frozen=True)
class Case:
    """One experiment. about: the parameters that it tries, none for a variant; profile: GPUs of the trainer; validation:
    whether there is validation data; more: further keys of `config.yaml`.
    """

    name: str
    params: Mapping[str, Any]
    about: tuple[str, ...] = ()
    profile: str = NODES
    validation: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)


class Tried(Protocol):
    """What a framework says about the cases of its methods.

    values: of a parameter whose bounds follow from a rule, or whose text upstream reads; companions: what a value must
    have beside it to be legal, as far as the method has it; alone: names of cases that go with no other.
    """

    @property
    def alone(self) -> frozenset[str]: ...

    @property
    def values(self) -> Mapping[str, Sequence[Any]]: ...

    @property
    def companions(self) -> Mapping[str, Callable[[Any], Mapping[str, Any]]]: ...

    def base(self, recipe: Recipe) -> Mapping[str, Any]:
        """What every experiment of the method must say."""

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The documented ways to use the method: a name, and what is set."""


class Cases:
    """Of a method on a release."""

    def __init__(self, recipe: Recipe, framework: Tried) -> None:
        self.recipe, self.framework = recipe, framework
        self.values = {
            name: list(framework.values.get(name, ())) or tried(parameter)
            for name, parameter in recipe.parameters.items()
        }

    def all(self, legal: Callable[[Case], bool]) -> Iterator[Case]:
        """Values of many parameters go together in one case, as far as `legal` has nothing against it."""
        yield self._case("starter", {})
        singles = [self.single(name, value) for name in self.values for value in self.values[name]]
        yield from (case for case in singles if case.name in self.framework.alone)
        yield from packed([case for case in singles if case.name not in self.framework.alone], legal)
        for name, params in self.framework.variants(self.recipe):
            yield self._case(name, params)

    def single(self, name: str, value: Any) -> Case:
        """A value of one parameter, and what belongs beside it."""
        beside = self.framework.companions.get(name, lambda _: {})(value)
        return self._case(f"{name}={value}", {**beside, name: value}, (name,))

    def apart(self, case: Case) -> list[Case]:
        """The case's parameters one by one, to tell which is at fault."""
        return [self.single(name, case.params[name]) for name in case.about]

    def _case(self, name: str, given: Mapping[str, Any], about: tuple[str, ...] = ()) -> Case:
        params = {key: value for key, value in given.items() if key in self.recipe.parameters}
        excluded = {other for key in params for other in self.recipe.parameters[key].excludes}
        excluded |= {key for key, p in self.recipe.parameters.items() if params.keys() & set(p.excludes)}
        base = {key: value for key, value in self.framework.base(self.recipe).items() if key not in excluded}
        special = {key: given[key] for key in SPECIAL if key in given}
        return Case(name, {**base, **params}, about, **special)


TRIES = 6
"""How many packs a case is tried in: where something is wrong with each of them, it ends."""


def packed(singles: Sequence[Case], legal: Callable[[Case], bool]) -> list[Case]:
    """Each case in the first pack that it fits into: no value twice, and nothing against the whole."""
    packs: list[Case] = []
    for single in singles:
        fitting = [(number, both) for number, pack in enumerate(packs) if (both := _joined(pack, single))]
        for number, both in fitting[:TRIES]:
            if legal(both):
                packs[number] = both
                break
        else:
            packs.append(single)
    return packs


def _joined(first: Case, second: Case) -> Case | None:
    """Both in one; None where they say different things."""
    sizes = [(case.profile, case.validation) for case in (first, second)]
    shared = first.params.keys() & second.params.keys()
    assert not first.more and not second.more
    if sizes[0] != sizes[1] or any(first.params[key] != second.params[key] for key in shared):
        return None
    # a companion of one must not be what the other tries
    if shared & {*first.about, *second.about}:
        return None
    params = {**first.params, **second.params}
    return Case(
        f"{first.name}, {second.name}",
        params,
        first.about + second.about,
        first.profile,
        first.validation,
    )
