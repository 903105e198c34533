"""The plan of an image's build: what is run, where, and what the script's head says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tuneplane.plan.model import Directive, Ref, Value

DEFINITION_FILE, IMAGE_PART = "build.def", "image.part"
"""In the work folder, where the script is started: the definition's copy, and the image until it is whole."""
COMPRESSIONS = {"gzip": "", "zstd": "-comp zstd -Xcompression-level 3"}
"""How the SquashFS is compressed → words for mksquashfs; gzip is what Apptainer does."""

Step = Literal["definition", "address", "plain", "docker", "oci", "root", "copy"]
"""How the image comes to be: from a definition, an address, a file or folder as it is, one of three archives, or as a
copy of a file that is an image already."""


@dataclass(frozen=True)
class ImageBuild:
    """Everything that a build script says.

    source: the file or folder that is read, or an address; unpacker: the program that takes off the source's
    compression; arguments: `KEY=VALUE` for the definition; binds: folders that the build sees, `FROM:TO`; processors: how
    many mksquashfs uses, which would otherwise be all of the node, 0 for those; directives: none when the script runs on
    this machine; facts: (label, text) lines for its head.
    """

    runtime_id: str
    step: Step
    source: str
    apptainer: str
    scheduler: Literal["slurm", "local"]
    unpacker: str = ""
    arguments: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    compression: str = "gzip"
    processors: int = 0
    directives: tuple[Directive, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def on_disk(self) -> bool:
        """Whether the source is a file or folder that the machine must see."""
        return self.step not in ("definition", "address")

    @property
    def words(self) -> tuple[Value, ...]:
        """The command that makes the image."""
        if self.step == "copy":
            return ("cp", "--reflink=auto", "--", self.source, IMAGE_PART)
        squash = [f"-processors {self.processors}"] if self.processors else []
        squash += [COMPRESSIONS[self.compression]] if COMPRESSIONS[self.compression] else []
        options = [
            *(("--mksquashfs-args", " ".join(squash)) if squash else ()),
            *self._binds(),
            *(word for text in self.arguments for word in ("--build-arg", text)),
        ]
        return (self.apptainer, "build", *options, IMAGE_PART, self._from())

    def _binds(self) -> tuple[Value, ...]:
        """Apptainer would show the commands of a definition the machine's own /tmp, which can be small."""
        if self.step != "definition":
            return ()
        own = (Ref("scratch", f"/tmp:{folder}") for folder in ("/tmp", "/var/tmp"))
        values: list[Value] = [*own, *self.binds]
        return tuple(word for value in values for word in ("--bind", value))

    def _from(self) -> Value:
        if self.step == "definition":
            return DEFINITION_FILE
        if self.step == "docker":
            # by a plain name: a colon in the file's own would end it
            return Ref("scratch", "/source", "docker-archive:")
        if self.step == "oci":
            # unpacked by tar: Apptainer fails on an archive that does not name its folders (seen in 1.4.5)
            return Ref("scratch", "/root", "oci:")
        return Ref("scratch", "/root") if self.step == "root" else self.source
