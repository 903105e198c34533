"""Images made by `tp` on a real cluster: built as a job, imported, used for training, taken back."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.harness.enter import IDS
from cluster.harness.images import base_sif, in_host, python_sif, wheels
from cluster.harness.spawn import images_dir
from cluster.harness.tools import cached, repo_root, tool, until
from cluster.researcher import OVERLAY, Researcher, Said

pytestmark = pytest.mark.cluster
DEFINITION = "/opt/tuneplane/runtimes/pytorch-2.14.0.def"
TOY = """
Bootstrap: localimage
From: {{ base }}

%arguments
    base=none
    seconds=0
    code=0

%post
    sleep {{ seconds }}
    exit {{ code }}
"""


class Admin(Researcher):
    """Alice with a registry and a folder for images."""

    def __init__(self, cluster: Cluster, kind: str = "apptainer", scratch: str = "/tmp") -> None:
        super().__init__(cluster, runtime=kind)
        folders = {**self.site["folders"], "scratch": scratch}
        folders |= {"images": f"{self.root}/images", "registry": f"{self.root}/registry"}
        if kind == "enroot":
            # which cannot mount every path
            folders["runs"] = f"/shared/home/{self.user}/runs"
        self.rewrite_site(folders=folders, publishers={"uids": [IDS[self.user]]}, recipes=[OVERLAY])
        assert self.tp("catalog", "refresh").code == 0

    def runtime(self, *words: str, timeout: float = 500) -> Said:
        return self.tp("runtime", *words, timeout=timeout)

    def images(self) -> list[str]:
        """Everything in the folder of images."""
        return sorted(path.name for path in self.folder("images").iterdir())

    def work(self) -> Path:
        """The one work folder that is there."""
        (name,) = [name for name in self.images() if name.startswith(".")]
        return self.folder(f"images/{name}")

    def facts(self, runtime_id: str) -> dict[str, Any]:
        said = self.runtime("show", runtime_id, "--json")
        assert said.code == 0, said
        (found,) = json.loads(said.out)["images"]
        return dict(found)

    def held_to_record(self, runtime_id: str) -> dict[str, Any]:
        """The facts of the registered image, whose file is the only thing in the folder and is as recorded."""
        facts = self.facts(runtime_id)
        name = f"{runtime_id}-{facts['arch']}-{facts['sha256'][:12]}.{facts['format']}"
        assert self.images() == [name] and facts["path"] == f"{self.root}/images/{name}"
        path = self.folder(facts["path"])
        assert hashlib.sha256(path.read_bytes()).hexdigest() == facts["sha256"]
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o444, IDS[self.user])
        self.assert_nothing_left([self.host, *self.cluster.spec.compute])
        assert self.runtime("verify", runtime_id).code == 0
        return facts


def test_pytorch_is_built_by_a_job_and_trains(cluster: Cluster, apptainer_suite: str) -> None:
    """The bundled definition with another base and index, used on two nodes, then retired and taken back."""
    # on a disk: it is more than the nodes' memory is for
    scratch = "/shared/home/alice/scratch"
    alice = Admin(cluster, scratch=scratch)
    alice.write(f"{scratch}/here", "")
    runtime_id = "pytorch-2.13.0"
    arguments = {
        "bootstrap": "localimage",
        "base": in_host(base_sif()),
        "system": "",
        "index": "/mnt",
        "packages": "torch==2.13.0 numpy scikit-learn",
    }
    words = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    said = alice.runtime(
        "build", runtime_id, "--definition", DEFINITION, *words, "--bind", f"{in_host(wheels())}:/mnt",
        "--job", "--compression", "zstd", "--python", "/opt/venv/bin/python", timeout=900,
    )  # fmt: skip
    assert said.code == 0, said
    facts = alice.held_to_record(runtime_id)
    assert [path.name for path in alice.folder(scratch).iterdir()] == ["here"]
    assert (facts["python"][:5], facts["packages"]["torch"][:6]) == ("3.11.", "2.13.0")
    digest = hashlib.sha256((repo_root() / "runtimes/pytorch-2.14.0.def").read_bytes()).hexdigest()
    assert facts["built"]["definition"] == f"sha256:{digest}"
    assert {f"argument {key}": value for key, value in arguments.items()}.items() <= facts["built"].items()

    alice.experiment("digits", method="pytorch/image-classification", version="2.13.0")
    run = alice.run("digits", "--profile", "cpu:2", "--set", "epochs=1", timeout=400)
    assert (run["state"], run["code"]) == ("completed", 0), alice.log(run["run"])
    assert json.loads(alice.output(run["run"], "result.json"))["hosts"] == ["n1", "n2"]
    assert f"record 1 of {runtime_id}" in alice.folder(f"runs/{run['run']}/job.sbatch").read_text()

    assert alice.runtime("retire", runtime_id).code == 0
    refused = alice.tp("submit", "digits", "--profile", "cpu:2")
    assert refused.code == 5 and "this site has no image" in refused.err
    assert alice.runtime("undo", runtime_id).code == 0
    assert alice.tp("validate", "digits").code == 0
    assert alice.runtime("undo", runtime_id).code == 0 and alice.tp("validate", "digits").code == 5
    alice.assert_nothing_left()


@pytest.fixture(scope="session")
def root_tar(apptainer_suite: str) -> str:
    """Where every host sees a tar of a small root filesystem with a device node."""

    def build(made: Path) -> None:
        folder = made.with_name(f"{made.name}.root")
        words = [tool("unsquashfs"), "-quiet", "-no-progress", "-no-xattrs", "-offset", str(offset())]
        subprocess.run([*words, "-dest", folder, python_sif()], check=True, capture_output=True)
        subprocess.run(["mknod", folder / "dev/null", "c", "1", "3"], check=True)
        subprocess.run(["tar", "-C", folder, "-cf", made, "."], check=True)
        subprocess.run(["rm", "-rf", folder], check=True)

    def offset() -> int:
        from tuneplane.runtimes.formats import facts_of

        return facts_of(python_sif()).filesystem[0]

    return in_host(cached("images", "root", {"of": python_sif().name, "layout": 1}, build, ".tar"))


def _config(layer: bytes) -> bytes:
    """The configuration of an image with one layer."""
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "FROM_DOCKER=yes"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
        }
    ).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _archive(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def docker_archive(path: Path, layer: bytes) -> None:
    """What `docker save` wrote before it knew of OCI."""
    config, digest = _config(layer), _sha256(layer)
    named = f"{_sha256(config)}.json"
    manifest = [{"Config": named, "RepoTags": ["toy:latest"], "Layers": [f"{digest}/layer.tar"]}]
    _archive(
        path, {named: config, f"{digest}/layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    )


def oci_archive(path: Path, layer: bytes) -> None:
    """What `skopeo copy … oci-archive:` writes."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        blobs[f"blobs/sha256/{_sha256(data)}"] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{_sha256(data)}", "size": len(data)}

    config, layers = blob(_config(layer), "config.v1+json"), [blob(layer, "layer.v1.tar")]
    manifest = {"schemaVersion": 2, "config": config, "layers": layers}
    manifests = [blob(json.dumps(manifest).encode(), "manifest.v1+json")]
    index = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    _archive(path, {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **blobs})


def layer_of(root_tar: str) -> bytes:
    return (images_dir() / Path(root_tar).name).read_bytes()


def inside(alice: Admin, facts: dict[str, Any], *words: str) -> str:
    done = alice.cluster.run(
        "n1", ["apptainer", "--quiet", "exec", "--cleanenv", facts["path"], *words], user="alice", check=True
    )
    return str(done.stdout)


def test_a_docker_archive_is_imported(cluster: Cluster, root_tar: str) -> None:
    """By its content, whatever it is called; on this machine."""
    alice = Admin(cluster)
    archive = f"{alice.root}/a:b.txt"
    docker_archive(alice.folder(archive), layer_of(root_tar))
    said = alice.runtime("import", "toy", archive, "--compression", "zstd")
    assert said.code == 0, said
    facts = alice.held_to_record("toy")
    assert facts["built"]["imported"] == f"docker archive {archive}"
    assert inside(alice, facts, "sh", "-c", "echo $FROM_DOCKER") == "yes\n"
    assert alice.runtime("retire", "toy").code == 0 and alice.runtime("undo", "toy").code == 0
    assert alice.facts("toy")["sha256"] == facts["sha256"]


@pytest.mark.long
@pytest.mark.parametrize("make", [docker_archive, oci_archive])
def test_compressed_archives_are_imported_by_a_job(
    cluster: Cluster, root_tar: str, make: Callable[[Path, bytes], None]
) -> None:
    alice = Admin(cluster)
    make(alice.folder("x"), layer_of(root_tar))
    subprocess.run(["gzip", "--fast", alice.folder("x")], check=True)
    said = alice.runtime("import", "toy", "x.gz", "--compression", "zstd", "--job", "--profile", "one:1")
    assert said.code == 0, said
    assert inside(alice, alice.held_to_record("toy"), "sh", "-c", "echo $FROM_DOCKER") == "yes\n"


@pytest.mark.long
def test_an_oci_archive_is_imported(cluster: Cluster, root_tar: str) -> None:
    alice = Admin(cluster)
    oci_archive(alice.folder("x"), layer_of(root_tar))
    assert alice.runtime("import", "toy", "x", "--compression", "zstd").code == 0
    assert inside(alice, alice.held_to_record("toy"), "sh", "-c", "echo $FROM_DOCKER") == "yes\n"


@pytest.mark.long
def test_a_root_filesystem_is_imported_for_a_site_that_takes_sqsh(cluster: Cluster, root_tar: str) -> None:
    """Its device node is left out, since only root makes those; the SQSH is imported again at an Apptainer site."""
    alice = Admin(cluster, "enroot")
    said = alice.runtime("import", "toy", root_tar, "--compression", "zstd")
    assert said.code == 0, said
    facts = alice.held_to_record("toy")
    assert (facts["format"], facts["arch"], facts["compression"]) == ("sqsh", "x86_64", "zstd")
    assert inside(alice, facts, "cat", "/etc/debian_version").startswith("12.")

    again = Admin(cluster)
    said = again.runtime("import", "toy", facts["path"], "--compression", "zstd")
    assert said.code == 0, said
    other = again.held_to_record("toy")
    assert other["format"] == "sif" and inside(again, other, "cat", "/etc/debian_version").startswith("12.")
    # a SIF is an image already: the very same bytes
    third = Admin(cluster, "enroot")
    assert third.runtime("import", "copied", other["path"]).code == 0
    assert third.facts("copied")["format"] == "sqsh"


def toy(alice: Admin) -> list[str]:
    alice.write("toy.def", TOY)
    return [
        "build", "toy", "--definition", "toy.def", "--build-arg", f"base={in_host(python_sif())}",
        "--compression", "zstd",
    ]  # fmt: skip


@pytest.mark.long
def test_a_build_that_fails_is_kept_and_says_why(cluster: Cluster, apptainer_suite: str) -> None:
    alice = Admin(cluster)
    said = alice.runtime(*toy(alice), "--job", "--build-arg", "code=3")
    assert said.code == 5 and "the %post of the definition failed" in said.err, said
    work = alice.work()
    assert f"{alice.root}/images/{work.name}/build.log" in said.err
    assert (work / "outcome").read_text() == "5\n" and not (work / "image").exists()
    assert alice.runtime("show", "toy").code == 5
    alice.assert_nothing_left()


def sleeps(cluster: Cluster, host: str) -> bool:
    return any(process.argv == ["sleep", "300"] for process in cluster.processes(host))


@pytest.mark.long
def test_a_job_that_is_cancelled_leaves_nothing_but_its_log(cluster: Cluster, apptainer_suite: str) -> None:
    alice = Admin(cluster)
    words = [
        "tp",
        "--site",
        f"{alice.root}/site.yaml",
        "runtime",
        *toy(alice),
        "--job",
        "--build-arg",
        "seconds=300",
    ]
    process = cluster.popen("login", words, user="alice", cwd=alice.root, stdout=-1, stderr=-1)
    until(lambda: any(sleeps(cluster, host) for host in cluster.spec.compute), "the build sleeps", 90)
    process.send_signal(2)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "is cancelled" in err, (out, err)
    work = alice.work()
    until(lambda: (work / "outcome").exists(), "the script has ended", 60)
    assert (work / "outcome").read_text() == "143\n"
    alice.assert_nothing_left()


@pytest.mark.long
def test_a_job_outlives_its_tp_and_its_image_can_be_registered(
    cluster: Cluster, apptainer_suite: str
) -> None:
    alice = Admin(cluster)
    words = ["tp", "--site", f"{alice.root}/site.yaml", "runtime", *toy(alice), "--job"]
    words += ["--build-arg", "seconds=3"]
    process = cluster.popen("login", words, user="alice", cwd=alice.root, stdout=-1, stderr=-1)
    until(lambda: list(alice.folder(alice.root).glob("images/.toy.*/job.json")), "it is submitted", 60)
    process.kill()
    process.communicate(timeout=60)
    work = alice.work()
    until(lambda: (work / "outcome").exists(), "the job is done", 120)
    assert (work / "outcome").read_text() == "0\n" and alice.images() == [work.name]
    said = alice.runtime("import", "toy", f"{alice.root}/images/{work.name}/image")
    assert said.code == 0, said
    facts = alice.facts("toy")
    assert sorted(alice.images()) == [work.name, Path(facts["path"]).name]
