"""An interpreter with torch for the tests of supervisor and starters, made once and kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from kept import REQUIRED, Unavailable, kept_interpreter

REQUIREMENTS = ("torch==2.13.0", "numpy", "scikit-learn", "pillow", "accelerate", "ray")
PROBE = "import torch, numpy, sklearn, PIL, accelerate, ray"


def unavailable(why: str) -> NoReturn:
    """Skip a test that needs what is kept from the package index; with TUNEPLANE_REQUIRE_TORCH=1 let it fail."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The path of an interpreter with torch, numpy, scikit-learn, pillow, accelerate and ray."""
    given = os.environ.get("TUNEPLANE_TORCH_PYTHON")
    try:
        python = (
            Path(given).absolute() if given else kept_interpreter("torch-venv", REQUIREMENTS, "over 1 GB")
        )
        subprocess.run([python, "-c", PROBE], check=True, capture_output=True, text=True)
    except (OSError, Unavailable) as error:
        unavailable(f"no interpreter with torch in TUNEPLANE_TORCH_PYTHON or the test cache: {error}")
    except subprocess.CalledProcessError as error:
        unavailable(f"no interpreter with torch: {python}: {error.stderr.strip().splitlines()[-1]}")
    return python
