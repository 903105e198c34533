"""Apptainer images for the tests, made once and kept in the cache."""

from __future__ import annotations

from pathlib import Path

from .apptainer import apptainer_host
from .debian import debootstrap, mirror
from .spawn import IMAGES
from .tools import cached, pip, python_with, remove

BASE_SUITE = "bookworm"  # its Python is 3.11, for which CPU builds of PyTorch are at hand
PYTHON = (3, 11)
PACKAGES = ("python3", "procps", "iproute2", "hostname")
TORCH = ("torch==2.13.0", "numpy", "scikit-learn", "ray[default]", "accelerate")
WHEELS = TORCH[:3]
RAYS = ("2.52.1", "2.55.1", "2.60.0")
OLD_RAY = "2.51.2"  # the last that lets anybody in
_LAYOUT = 1


def python_sif() -> Path:
    """A small Debian 12 with Python, as a SIF file (seconds to build). Raises HarnessError."""
    return _image("python", ())


def torch_sif() -> Path:
    """The same with CPU PyTorch, Ray, Accelerate and scikit-learn (minutes to build). Raises HarnessError."""
    return _image("torch", TORCH)


def ray_sif(version: str) -> Path:
    """A small Debian 12 with Python and one release of Ray, as PyPI has it. Raises HarnessError."""
    return _image(f"ray-{version}", (f"ray=={version}",))


def base_sif() -> Path:
    """A small Debian 12 in which virtual environments can be made: what an image is built on. Raises HarnessError."""
    return _image("base", (), (*PACKAGES, "python3-venv"))


def wheels() -> Path:
    """A folder with the wheels of CPU PyTorch and scikit-learn for that Debian's Python. Raises HarnessError."""
    return cached("images", "wheels", {"wheels": WHEELS, "python": PYTHON}, _download)


def _download(folder: Path) -> None:
    words = ("download", "--quiet", "--only-binary=:all:", "--dest", folder, *WHEELS)
    pip(*words, python=python_with(PYTHON))


def in_host(sif: Path) -> str:
    """Where a host sees an image."""
    return f"{IMAGES}/{sif.name}"


def _image(name: str, wheels: tuple[str, ...], packages: tuple[str, ...] = PACKAGES) -> Path:
    recipe = {
        "suite": BASE_SUITE,
        "packages": packages,
        "wheels": wheels,
        "mirror": mirror(),
        "layout": _LAYOUT,
    }
    return cached("images", name, recipe, lambda sif: _build(sif, wheels, packages), ".sif")


def _build(sif: Path, wheels: tuple[str, ...], packages: tuple[str, ...]) -> None:
    root = sif.with_name(f"{sif.name}.root")
    remove(root)
    try:
        debootstrap(root, BASE_SUITE, packages)
        if wheels:
            _install(root, wheels)
        # a user cannot unpack device nodes, and a build would keep what is left here
        for name in ("dev", "run", "tmp", "var/cache/apt", "var/lib/apt/lists"):
            for entry in (root / name).iterdir():
                remove(entry)
        _pack(root, sif)
    finally:
        remove(root)


def _install(root: Path, wheels: tuple[str, ...]) -> None:
    """Put packages where Debian's Python finds them, and their programs on its PATH."""
    target = root / "usr/local/lib/python{}.{}/dist-packages".format(*PYTHON)
    pip(
        "install",
        "--quiet",
        "--no-compile",
        "--root-user-action=ignore",
        "--target",
        target,
        *wheels,
        python=python_with(PYTHON),
    )
    for script in (target / "bin").iterdir():
        data = script.read_bytes()
        if data.startswith(b"#!") and b"python" in data.partition(b"\n")[0]:
            data = b"#!/usr/bin/python3\n" + data.partition(b"\n")[2]
        placed = root / "usr/local/bin" / script.name
        placed.write_bytes(data)
        placed.chmod(0o755)
    remove(target / "bin")


def _pack(root: Path, sif: Path) -> None:
    """Build the SIF with Apptainer itself; fast compression, since time counts here and size does not."""
    squash = "-comp zstd -Xcompression-level 3"
    with apptainer_host() as host:
        host.bind(sif.parent, "/build")
        words = [
            "apptainer",
            "build",
            "--mksquashfs-args",
            squash,
            f"/build/{sif.name}",
            f"/build/{root.name}",
        ]
        host.run(words, user="root", timeout=1200, check=True)
