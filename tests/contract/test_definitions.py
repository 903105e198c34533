"""The pins of every runtime definition against the package index: they exist, and they fit one another.

`uv` reads only metadata: of a wheel of 600 MB it fetches the few kilobytes at its end. Nothing is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from tuneplane.runtimes.definitions import build_file, definition_names, load_definition

NAMES = sorted(definition_names())
WHEELS = "x86_64-manylinux_2_35"  # of Debian 12 and Ubuntu 24.04, the roots that images begin with
# What these need stands in their sources, but uv would have to run a setup.py, one of which imports torch:
# PKG-INFO of flash-attn 2.8.3, deepspeed 0.19.5 and 0.19.6
SOURCES = """\
[[dependency-metadata]]
name = "flash-attn"
requires-dist = ["torch", "einops"]

[[dependency-metadata]]
name = "deepspeed"
requires-dist = [
    "einops", "hjson", "msgpack", "ninja", "numpy", "packaging>=20.0", "psutil", "py-cpuinfo", "pydantic>=2.0.0",
    "torch>=2.0.0", "tqdm",
]
"""
UNREACHABLE = ("Failed to fetch", "Could not connect", "error sending request", "dns error")


def lacking(what: str) -> NoReturn:
    if os.environ.get("TUNEPLANE_REQUIRE_TOOLS") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def uv() -> str:
    """The path of `uv`, which the `test` extra brings."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or lacking("`uv` is not installed")


def index() -> str:
    """The package index of this machine's pip, or PyPI."""
    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return os.environ.get("PIP_INDEX_URL") or done.stdout.strip() or "https://pypi.org/simple"


def uploaded_before(name: str) -> list[str]:
    """The option that reads the index as the build file does."""
    found = re.search(r"^ +before=(\S+)$", build_file(name).read_text(), re.MULTILINE)
    return ["--exclude-newer", found[1]] if found else []


def resolve(uv: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `uv` makes of the pins of a definition, and of all that they require."""
    definition = load_definition(name)
    folder.mkdir()
    (folder / "wanted.in").write_text("\n".join(definition.packages) + "\n")
    (folder / "uv.toml").write_text(SOURCES)
    options = ["--python-version", definition.python.version, "--python-platform", WHEELS, "--no-header"]
    if "packages=" not in build_file(name).read_text():
        options.append("--no-deps")  # what upstream's image holds lies in several environments
    words = [uv, "pip", "compile", "--quiet", "--config-file", "uv.toml", *options, *uploaded_before(name)]
    plain = {key: value for key, value in os.environ.items() if not key.startswith("UV_")}
    own = {"UV_CACHE_DIR": os.environ["TUNEPLANE_TEST_CACHE"] + "/uv", "UV_DEFAULT_INDEX": index()}
    return subprocess.run(
        [*words, "wanted.in"],
        cwd=folder,
        env=plain | own,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="session")
def resolutions(
    uv: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, subprocess.CompletedProcess[str]]:
    """Runtime id → its resolution; all at one time, since the index is what each waits for."""
    folder = tmp_path_factory.mktemp("resolutions")
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda name: resolve(uv, name, folder / name), NAMES)
        return dict(zip(NAMES, found, strict=True))


@pytest.mark.tools
@pytest.mark.parametrize("name", NAMES)
def test_the_pins_resolve(name: str, resolutions: dict[str, subprocess.CompletedProcess[str]]) -> None:
    definition, done = load_definition(name), resolutions[name]
    if done.returncode and any(words in done.stderr for words in UNREACHABLE):
        lacking(f"no package index can be reached: {done.stderr.strip().splitlines()[-1].strip()}")
    assert done.returncode == 0, done.stderr
    resolved = dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", done.stdout, re.MULTILINE))
    assert definition.pins().items() <= resolved.items()
    assert resolved.get("ray", "") == definition.ray
