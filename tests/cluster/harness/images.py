"""Apptainer images for the tests, made once and kept in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .apptainer import apptainer_host
from .debian import debootstrap, in_root, mirror
from .spawn import IMAGES
from .tools import cached, pip, python_with, remove, sh

BASE_SUITE = "bookworm"  # its Python is 3.11, for which CPU builds of PyTorch are at hand
PYTHON = (3, 11)
PACKAGES = ("python3", "procps", "iproute2", "hostname")
TORCH = ("torch==2.13.0", "numpy", "scikit-learn", "ray[default]", "accelerate")
WHEELS = TORCH[:3]
RAYS = ("2.52.1", "2.55.1", "2.60.0")
OLD_RAY = "2.51.2"  # the last that lets anybody in
TARGET = "usr/local/lib/python{}.{}/dist-packages".format(*PYTHON)
_LAYOUT = 1


def python_sif() -> Path:
    """A small Debian 12 with Python, as a SIF file (seconds to build). Raises HarnessError."""
    return image("python", ())


def torch_sif() -> Path:
    """The same with CPU PyTorch, Ray, Accelerate and scikit-learn (minutes to build). Raises HarnessError."""
    return image("torch", TORCH)


def ray_sif(version: str) -> Path:
    """A small Debian 12 with Python and one release of Ray, as PyPI has it. Raises HarnessError."""
    return image(f"ray-{version}", (f"ray=={version}",))


def base_sif() -> Path:
    """A small Debian 12 in which virtual environments can be made: what an image is built on. Raises HarnessError."""
    return image("base", (), (*PACKAGES, "python3-venv"))


def wheels() -> Path:
    """A folder with the wheels of CPU PyTorch and scikit-learn for that Debian's Python. Raises HarnessError."""
    return cached("images", "wheels", {"wheels": WHEELS, "python": PYTHON}, _download)


def _download(folder: Path) -> None:
    words = ("download", "--quiet", "--only-binary=:all:", "--dest", folder, *WHEELS)
    pip(*words, python=python_with(PYTHON))


def in_host(sif: Path) -> str:
    """Where a host sees an image."""
    return f"{IMAGES}/{sif.name}"


def image(
    name: str,
    wheels: tuple[str, ...],
    packages: tuple[str, ...] = PACKAGES,
    *,
    alone: tuple[str, ...] = (),
    standins: tuple[str, ...] = (),
    imported: str = "",
) -> Path:
    """An image with Debian packages and with Python packages as pip takes them. Raises HarnessError.

    `alone` are Python packages without what they depend on; `standins` are modules (`flash_attn/utils.py`) of
    packages that cannot be installed, which have any name and do nothing; `imported` is a statement run once, so
    that the image holds the compiled code of what a program imports, and nobody compiles it at each start.
    """
    more = {"alone": alone, "standins": standins and (*standins, STANDIN), "imported": imported}
    recipe = {
        "suite": BASE_SUITE,
        "packages": packages,
        "wheels": wheels,
        "mirror": mirror(),
        "layout": _LAYOUT,
        **{key: value for key, value in more.items() if value},
    }

    def fill(root: Path) -> None:
        debootstrap(root, BASE_SUITE, packages)
        _install(root, wheels)
        _install(root, alone, "--no-deps")
        for module in standins:
            _stand_in(root / TARGET / module)
        if imported:
            in_root(root, "python3", "-c", imported)

    return cached("images", name, recipe, lambda sif: _build(sif, fill), ".sif")


def _build(sif: Path, fill: Callable[[Path], None]) -> None:
    with _in_memory(sif.with_name(f"{sif.name}.root")) as root:
        fill(root)
        # a user cannot unpack device nodes, and a build would keep what is left here
        for name in ("dev", "run", "tmp", "var/cache/apt", "var/lib/apt/lists"):
            for entry in (root / name).iterdir():
                remove(entry)
        _pack(root, sif)


@contextmanager
def _in_memory(folder: Path) -> Iterator[Path]:
    """A folder in memory while it is filled: on a disk, a system's many files take longer to delete than to write."""
    if os.path.ismount(folder):  # of a build that was killed
        sh("umount", "--lazy", folder)
    remove(folder)
    folder.mkdir()
    sh("mount", "-t", "tmpfs", "-o", "mode=755,size=8g", "tmpfs", folder)
    try:
        yield folder
    finally:
        sh("umount", "--lazy", folder)
        folder.rmdir()


def _install(root: Path, wheels: Sequence[str], *options: str) -> None:
    """Put packages where Debian's Python finds them, and their programs on its PATH."""
    if not wheels:
        return
    target = root / TARGET
    words = ("install", "--quiet", "--no-compile", "--root-user-action=ignore", "--target", target)
    pip(*words, *options, *wheels, python=python_with(PYTHON))
    for script in (target / "bin").glob("*"):
        data = script.read_bytes()
        if data.startswith(b"#!") and b"python" in data.partition(b"\n")[0]:
            data = b"#!/usr/bin/python3\n" + data.partition(b"\n")[2]
        placed = root / "usr/local/bin" / script.name
        placed.write_bytes(data)
        placed.chmod(0o755)
    remove(target / "bin")


STANDIN = '''"""Stands where the real one cannot be installed: it has every name, and nothing can be done with it."""

__version__ = "99"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def unusable(*args, **options):
        raise RuntimeError(f"{__name__}.{name} is a stand-in")

    return type(name, (), {"__new__": unusable, "__module__": __name__})
'''


def _stand_in(module: Path) -> None:
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(STANDIN)


def _pack(root: Path, sif: Path) -> None:
    """Build the SIF with Apptainer itself; fast compression, since time counts here and size does not."""
    squash = "-comp zstd -Xcompression-level 3"
    with apptainer_host() as host:
        host.bind(sif.parent, "/build")
        host.bind(root, "/system")
        words = [
            "apptainer",
            "build",
            "--mksquashfs-args",
            squash,
            f"/build/{sif.name}",
            "/system",
        ]
        host.run(words, user="root", timeout=1200, check=True)
