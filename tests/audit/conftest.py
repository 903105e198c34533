"""What is audited in several tests: a run on a Slurm site with an image, parameters, environment and a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite("audit.audited", "cli.world")

from audit.audited import submitted  # noqa: E402
from cli.world import REPOSITORY, World, lines  # noqa: E402
from image_files import sif  # noqa: E402

CONFIG = """
    model: models/base
    data: {train: /data/pairs}
    params: {beta: 0.2, warmup: 0, layers: [1, 2], note: "it's", template: ~/t.jinja}
    env: {NCCL_DEBUG: WARN, MINE: "a b"}
    secrets: [HF_TOKEN]
    resources: {profile: h200:8, time: 2h}
"""


@dataclass(frozen=True)
class Toy:
    """A run of the method with one of everything, its experiment and its image."""

    world: World
    experiment: Path
    image: Path
    run: Path

    @property
    def script(self) -> Path:
        return self.run / "job.sbatch"

    @property
    def record(self) -> Path:
        return self.run / "run.json"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all worlds: it holds only what follows from its keys."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def world(tmp_path: Path, cache: Path) -> Iterator[World]:
    """A world of its own; whatever was done in it, nothing has evaluated its folder's name."""
    made = World(tmp_path, cache)
    yield made
    assert not list(tmp_path.rglob("pwned"))


@pytest.fixture
def toy(world: World) -> Toy:
    image = world.root / "toy 1.sif"
    image.write_bytes(sif())
    world.site(
        "cluster",
        "slurm-apptainer",
        recipes=[str(REPOSITORY / "tests/cli/recipes")],
        folders={"runs": str(world.runs), "model_cache": "~/.cache/{user}"},
    )
    experiment = world.made("exp", "toy/tuned", "--site", "cluster")
    (experiment / "config.yaml").write_text(lines(CONFIG))
    (experiment / "models").mkdir()
    (experiment / "models/base").write_text("weights")
    run = submitted(world, str(experiment), "cluster", image=str(image), settings=(("kl_beta", "0.3"),))
    return Toy(world, experiment, image, run)
