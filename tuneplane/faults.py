"""Collecting problems of different kinds, so that one attempt reports them all."""

from __future__ import annotations

from tuneplane.errors import Problem, TuneplaneError


class Faults:
    """Problems found so far, each with the error class that tells its exit code."""

    def __init__(self) -> None:
        self.found: list[tuple[type[TuneplaneError], Problem]] = []

    def add(
        self, kind: type[TuneplaneError], what: str, where: str = "", expected: str = "", hint: str = ""
    ) -> None:
        self.found.append((kind, Problem(what, where, expected, hint)))

    def take(self, error: TuneplaneError) -> None:
        """Add the problems of an error that was raised."""
        self.found.extend((type(error), problem) for problem in error.problems)

    def check(self) -> None:
        """Raise all problems together, as the kind with the lowest exit code among them."""
        if self.found:
            kind = min((kind for kind, _ in self.found), key=lambda kind: kind.exit_code)
            raise kind(*(problem for _, problem in self.found))
