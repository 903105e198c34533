"""Fixtures of the tests that need real hosts. `TUNEPLANE_CLUSTER_SUITE` chooses trixie (default), bookworm or sid."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cluster import report
from cluster.harness import Cluster, ClusterSpec
from cluster.harness.apptainer import ApptainerHost, apptainer_host
from cluster.harness.frameworks import openrlhf_sif, verl_sif
from cluster.harness.images import RAYS, in_host, python_sif, ray_sif, torch_sif
from cluster.harness.requirements import give_up, missing


@pytest.fixture(scope="session")
def suite() -> str:
    """The Debian suite of the hosts; a test that asks for it is skipped where no host can be made."""
    lacking = missing()
    if lacking:
        give_up(lacking)
    return os.environ.get("TUNEPLANE_CLUSTER_SUITE", "trixie")


@pytest.fixture(scope="session")
def apptainer_suite(suite: str) -> str:
    """The same, where it has Apptainer."""
    if suite == "bookworm":
        pytest.skip("Debian's Apptainer does not run on bookworm")
    return suite


@pytest.fixture(scope="session")
def cluster(suite: str) -> Iterator[Cluster]:
    """One cluster of three nodes for all tests; whoever breaks a host of it mends it."""
    with Cluster(ClusterSpec(suite=suite)) as running:
        yield running


@pytest.fixture
def make_cluster(suite: str) -> Iterator[Callable[..., Cluster]]:
    """Start clusters of one's own, `make_cluster(nodes=2, accounting=True)`; they end with the test."""
    with ExitStack() as stack:

        def make(**spec: Any) -> Cluster:
            return stack.enter_context(Cluster(ClusterSpec(**{"suite": suite} | spec)))

        yield make


@pytest.fixture(scope="session")
def bare_host(apptainer_suite: str) -> Iterator[ApptainerHost]:
    """One host with Apptainer and without a cluster."""
    with apptainer_host(apptainer_suite) as host:
        yield host


@pytest.fixture(scope="session")
def python_image(apptainer_suite: str) -> str:
    """Where every host sees a small image with Python."""
    return in_host(python_sif())


@pytest.fixture(scope="session")
def torch_image(apptainer_suite: str) -> str:
    """Where every host sees an image with PyTorch, Accelerate, Ray and scikit-learn."""
    return in_host(torch_sif())


@pytest.fixture(scope="session")
def ray_image(apptainer_suite: str) -> str:
    """Where every host sees an image with the newest Ray and little else."""
    return in_host(ray_sif(RAYS[-1]))


@pytest.fixture(scope="session")
def verl_image(apptainer_suite: str) -> Callable[[str], str]:
    """Where every host sees an image with a release of verl: `verl_image("0.9.0")`."""
    return lambda version: in_host(verl_sif(version))


@pytest.fixture(scope="session")
def openrlhf_image(apptainer_suite: str) -> Callable[[str], str]:
    """The same with a release of OpenRLHF."""
    return lambda version: in_host(openrlhf_sif(version))


@pytest.fixture(scope="session")
def tiny(cluster: Cluster) -> Callable[[str], str]:
    """Where every host sees a tiny model and data, made by the Python of an image: see `inside/tiny.py`."""

    @cache
    def made(image: str) -> str:
        place = f"/shared/tiny/{Path(image).stem}"
        words = [
            "apptainer",
            "-s",
            "exec",
            "--cleanenv",
            "--no-mount",
            "home",
            "--bind",
            "/shared,/opt/tuneplane",
        ]
        program = ["python3", "/opt/tuneplane/tests/cluster/inside/tiny.py", place]
        cluster.run("login", [*words, image, *program], user="alice", check=True, timeout=180)
        return place

    return made


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was measured stands at the end of the report."""
    if report.TABLES:
        terminalreporter.section("measured on the cluster")
        for line in report.lines():
            terminalreporter.write_line(line)
