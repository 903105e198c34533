"""Registered images on a real cluster: whatever happens to the file, no job starts another one than was registered."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.harness.enter import IDS
from cluster.harness.images import python_sif, torch_sif
from cluster.harness.tools import remove
from cluster.researcher import Researcher, Said, yaml

pytestmark = pytest.mark.cluster

OVERLAY = """\
extends: custom/custom
framework:
  versions:
    registered: {runtime_id: toy-1.0.0}
    needing: {runtime_id: toy-1.0.0, requires: [torch>=99, numpy]}
"""
"""The method of one's own program, once more in an image that a publisher registers."""
MEBI = 1 << 20
ALL_SAMPLED, SOME_SAMPLED = 58 * MEBI, 200 * MEBI
"""Below 64 MiB every block is sampled; of a larger image 64 are."""


class Shop:
    """A site whose publisher is bob, and alice, who may only read his registry; `image` is the registered file."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.base = cluster.shared / f"shop-{number}"
        self.inside = f"/shared/{self.base.name}"
        for name in ("images", "registry", "recipes/custom/custom"):
            (self.base / name).mkdir(parents=True)
        (self.base / "recipes/custom/custom/recipe.yaml").write_text(OVERLAY)
        self.image, self.path = self.base / "images/toy.sif", f"{self.inside}/images/toy.sif"
        folders = {"registry": f"{self.inside}/registry"}
        self.alice = Researcher(cluster, recipes=[f"{self.inside}/recipes"], runtime="apptainer")
        self.alice.rewrite_site(
            folders=self.alice.site["folders"] | folders, publishers={"uids": [IDS["bob"]]}
        )
        for parent, _, files in os.walk(self.base):
            for path in (parent, *(f"{parent}/{name}" for name in files)):
                os.chown(path, IDS["bob"], IDS["bob"])
        self.admin("catalog", "refresh")
        self.alice.experiment("exp", 'touch "$TUNEPLANE_OUTPUT_DIR/ran"', version="registered")

    def admin(self, *words: str, code: int = 0) -> Said:
        """The publisher's `tp`, for the same site."""
        # he cannot look into her folders
        site = self.base / "site.yaml"
        site.write_text(yaml(self.alice.site))
        command = ["tp", "--site", f"{self.inside}/site.yaml", *words]
        done = self.cluster.run("login", command, user="bob", cwd="/shared", timeout=120)
        said = Said(done.returncode, done.stdout, done.stderr)
        assert said.code == code, said
        return said

    def register(self, source: Path | None = None, size: int = 0, *options: str) -> None:
        """A copy of an image becomes the registered file, with zeros at its end up to `size`."""
        shutil.copyfile(source or python_sif(), self.image)
        if size:
            os.truncate(self.image, size)
        self.admin("runtime", "register", "toy-1.0.0", self.path, *options)

    def refused(self, said: str, host: str = "login") -> None:
        """alice's submission is refused for her image's sake, and leaves nothing."""
        done = self.alice.tp("submit", "exp", host=host)
        assert (done.code, done.out) == (5, ""), done
        assert said in done.err and self.path in done.err, done
        assert self.alice.runs() == []

    def waiting(self, host: str = "") -> str:
        """A run that is held."""
        return self.alice.submit("exp", "--hold", **({"host": host} if host else {}))

    def released(self, run: str) -> dict[str, Any]:
        self.alice.slurm("scontrol", "release", self.alice.record(run, "job.json")["id"])
        return self.alice.ended(run)


def flip(file: Path, at: int, keep_times: bool = False) -> None:
    """Another byte at one place."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte[0] ^ 1]))
    if keep_times:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def of_another_architecture(file: Path, target: Path) -> None:
    """The same SIF, which says in its head and of its file system that it is for aarch64."""
    data = bytearray(file.read_bytes())
    data[45:48] = b"04\0"
    count, start = struct.unpack_from("<qq", data, 88)
    for number in range(count):
        at = start + 585 * number
        kind, used = struct.unpack_from("<i?", data, at)
        if used and kind == 0x4004:
            extra = at + 585 - 384 + 8
            data[extra : extra + 3] = b"04\0"
    target.write_bytes(data)


_shops = iter(range(1000))


@pytest.fixture
def shop(cluster: Cluster, apptainer_suite: str) -> Iterator[Shop]:
    made = Shop(cluster, next(_shops))
    yield made
    remove(made.base)


# ---- what submit sees


def test_a_changed_file_is_refused_at_submit(shop: Shop) -> None:
    """One byte; one byte with the times put back; other content; another file under the name; none; as it was."""
    shop.register()
    other, whole = "is not the registered image: its sha256 is", python_sif().read_bytes()
    flip(shop.image, 40_000_000)
    shop.refused(other)
    flip(shop.image, 40_000_000)
    flip(shop.image, 57_000_001, keep_times=True)
    shop.refused(other)
    assert other in shop.admin("runtime", "verify", code=5).err
    shop.image.write_bytes(whole[:-1] + b"x")
    shop.refused(other)
    (shop.image.parent / "new").write_bytes(whole[:-1] + b"y")
    (shop.image.parent / "new").rename(shop.image)
    shop.refused(other)
    shop.image.write_bytes(whole[:-1])
    shop.refused(f"has {len(whole) - 1} bytes, not {len(whole)}")
    shop.image.unlink()
    shop.refused("is gone")
    shop.image.write_bytes(whole)
    assert "is as it was registered" in shop.admin("runtime", "verify", "--full").out
    run = shop.alice.submit("exp")
    assert shop.alice.ended(run)["state"] == "completed", shop.alice.log(run)


@pytest.mark.long
def test_another_architecture(shop: Shop) -> None:
    """Registered for other nodes it is not found for these; named by a user it is refused."""
    of_another_architecture(python_sif(), shop.image)
    shop.admin("runtime", "register", "toy-1.0.0", shop.path, "--no-probe")
    done = shop.alice.tp("submit", "exp")
    assert done.code == 5 and "no image for `toy-1.0.0`, only sif-aarch64" in done.err, done
    done = shop.alice.tp("submit", "exp", "--image", shop.path)
    assert done.code == 5 and "is for aarch64, and the nodes are x86_64" in done.err, done
    assert shop.alice.runs() == []


@pytest.mark.long
def test_another_inode_elsewhere_is_the_same_file(shop: Shop) -> None:
    """On network mounts hosts see other inodes and times: size and seconds count there, and the samples in the job."""
    shop.register()
    show = (
        f"cp -p {shop.path} /tmp/elsewhere.sif && touch -d @{int(shop.image.stat().st_mtime)} /tmp/elsewhere.sif"
        f" && mount --bind /tmp/elsewhere.sif {shop.path} && stat -c %i {shop.path}"
    )
    shop.alice.experiment("there", "exit 0", version="registered", config={"resources": {"nodelist": "n2"}})
    done = shop.cluster.run("n2", ["sh", "-ec", show], check=True)
    try:
        assert int(done.stdout) != shop.image.stat().st_ino
        run = shop.alice.submit("there", host="n2")
        assert shop.alice.ended(run)["state"] == "completed", shop.alice.log(run)
    finally:
        shop.cluster.run("n2", ["sh", "-c", f"umount {shop.path}; rm -f /tmp/elsewhere.sif"], check=True)


# ---- what a job sees


def gone(shop: Shop) -> str:
    shop.image.unlink()
    return "the image is gone"


def flipped(shop: Shop) -> str:
    flip(shop.image, 30_000_000, keep_times=True)
    return "the image has another content in the sampled blocks"


def shorter(shop: Shop) -> str:
    os.truncate(shop.image, 57 * MEBI)
    return "the image has another size: 59768832 bytes"


@pytest.mark.parametrize(
    "happens", [gone, pytest.param(flipped, marks=pytest.mark.long), pytest.param(shorter, marks=pytest.mark.long)]
)  # fmt: skip
def test_what_happens_while_a_job_waits(shop: Shop, happens: Any) -> None:
    shop.register()
    run = shop.waiting()
    said = happens(shop)
    facts = shop.released(run)
    why = "the image is not the one that this script was compiled for"
    assert (facts["state"], facts["code"], facts["why"]) == ("failed", 5, why), facts
    assert said in shop.alice.log(run)
    assert not shop.alice.folder(f"runs/{run}/output/ran").exists()


@pytest.mark.long
def test_on_one_node_of_two(shop: Shop) -> None:
    """The first node sees the image as it was: it is the second that ends the job."""
    shop.register()
    config = {"resources": {"nodelist": "n1,n2"}}
    shop.alice.experiment("two", 'touch "$TUNEPLANE_OUTPUT_DIR/ran"', version="registered", config=config)
    run = shop.alice.submit("two", "--profile", "one:2", "--hold")
    show = f"cp {shop.path} /tmp/other.sif && printf x | dd of=/tmp/other.sif bs=1 seek=9000000 conv=notrunc status=none && mount --bind /tmp/other.sif {shop.path}"
    shop.cluster.run("n2", ["sh", "-ec", show], check=True)
    try:
        facts = shop.released(run)
        why = "its image is not the one that this script was compiled for on node 1 (n2)"
        assert (facts["state"], facts["code"], facts["why"]) == ("failed", 5, why), facts
        assert not shop.alice.folder(f"runs/{run}/output/ran").exists()
        shop.alice.assert_nothing_left(["n1"])
    finally:
        shop.cluster.run("n2", ["sh", "-c", f"umount {shop.path}; rm -f /tmp/other.sif"], check=True)


@pytest.mark.long
@pytest.mark.parametrize("verify", ["full", "samples", "staged"])
def test_a_byte_that_no_sample_sees(shop: Shop, verify: str) -> None:
    """With the times put back it is seen where the image was registered; elsewhere by reading all of it, in the job."""
    shop.register(None, SOME_SAMPLED)
    blocks = SOME_SAMPLED // MEBI
    sampled = {i * (blocks - 1) // 63 for i in range(64)}
    between = next(block for block in range(150, blocks) if block not in sampled)
    flip(shop.image, between * MEBI + 5, keep_times=True)
    shop.refused("is not the registered image")
    runtime: dict[str, Any] = {"kind": "apptainer", "gpu": "none", "verify": "full"}
    if verify == "staged":
        runtime["staging"] = {"folder": "/tmp", "keep_free": "0"}
    shop.alice.rewrite_site(runtime=runtime if verify != "samples" else {**runtime, "verify": "samples"})
    run = shop.alice.submit("exp", host="n2")
    facts = shop.alice.ended(run)
    if verify == "samples":
        # the file system in it is whole: what was flipped lies behind it
        assert facts["state"] == "completed", facts
        return
    assert (facts["state"], facts["code"]) == ("failed", 5), facts
    if verify == "full":
        assert facts["why"] == "the image does not have its digest"
    else:
        assert facts["why"].startswith("its image is not the one that this script was compiled for on node 0")
        assert "the image is not the one that was registered: its sha256 is" in shop.alice.log(run)
        shop.cluster.run("n1", ["sh", "-c", "rm -rf /tmp/tuneplane-images-*"])


# ---- what a method asks of an image


def test_requirements(shop: Shop) -> None:
    """What registration found is told at submit; what nobody looked into is told by the job."""
    shop.register()
    shop.alice.experiment("needing", 'touch "$TUNEPLANE_OUTPUT_DIR/ran"', version="needing")
    done = shop.alice.tp("submit", "needing")
    assert done.code == 5 and "needs torch>=99, and the image of toy-1.0.0 does not hold it" in done.err, done
    assert "needs numpy" in done.err and shop.alice.runs() == []
    run = shop.alice.submit("needing", "--image", shop.path)
    facts = shop.alice.ended(run)
    assert facts["state"] == "failed" and facts["code"] == 125, facts
    assert facts["why"] == (
        "the image has no torch, and the method needs torch>=99; "
        "the image has no numpy, and the method needs numpy on node 0 (n1)"
    )
    assert not shop.alice.folder(f"runs/{run}/output/ran").exists()


@pytest.mark.long
def test_requirements_of_versions(shop: Shop, torch_image: str) -> None:
    shop.register(torch_sif())
    held = json.loads(shop.admin("runtime", "show", "toy-1.0.0", "--json").out)["images"][0]["packages"][
        "torch"
    ]
    shop.alice.experiment("needing", "exit 0", version="needing")
    done = shop.alice.tp("submit", "needing")
    assert done.code == 5 and f"needs torch>=99, and the image of toy-1.0.0 holds torch {held}" in done.err, (
        done
    )
    assert "numpy" not in done.err
    facts = shop.alice.run("needing", "--image", torch_image)
    assert facts["why"].startswith(
        f"the image has torch {held}, and the method needs torch>=99 on node 0 (n"
    ), facts
