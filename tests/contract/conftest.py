"""What the contract tests share: each framework's outcomes, made once, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
from builders import own_cache  # noqa: F401
from contract import report
from contract.bench import Bench, tiny_model
from contract.frameworks.runs import Program
from contract.frameworks.table import FRAMEWORKS
from contract.named import methods
from contract.suite import Outcome, outcomes
from kept import Unavailable
from torch_python import unavailable


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Bench]:
    """The method on a release, in a folder whose name nothing may read as anything else."""
    work = tmp_path_factory.mktemp("it's a {work} [folder] $HOME é 中")
    model = tiny_model(work / "model")
    return cache(lambda method, version: Bench.of(method, version, work, model))


@pytest.fixture(scope="session")
def program() -> Iterator[Callable[[str, str], Program]]:
    """What answers for a framework on a release; a test that asks for one that cannot be had is skipped."""
    running = []

    @cache
    def of(framework: str, version: str) -> Program:
        try:
            made = FRAMEWORKS[framework].program(version)
        except Unavailable as error:
            unavailable(str(error))
        running.append(made)
        return made

    yield of
    for each in running:
        each.close()


@pytest.fixture(scope="session")
def tried(
    bench: Callable[[str, str], Bench], program: Callable[[str, str], Program]
) -> Iterator[Callable[[str, str], list[Outcome]]]:
    """What came of a method's cases on a release; a framework's releases are tried at the same time."""
    with ThreadPoolExecutor(2) as pool:

        @cache
        def releases(name: str) -> dict[str, Future[dict[str, list[Outcome]]]]:
            framework, found = FRAMEWORKS[name], {}
            for version in framework.versions:
                benches = [bench(method, version) for method in methods() if method.startswith(f"{name}/")]
                found[version] = pool.submit(outcomes, framework, program(name, version), benches)
            return found

        yield lambda method, version: releases(method.split("/")[0])[version].result()[method]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table stands at the end of the report."""
    if report.ROWS:
        terminalreporter.section("the catalog against upstream")
        for line in report.lines():
            terminalreporter.write_line(line)
