"""An `apptainer` that notes how it is called and makes the image it is told to; it starts nothing."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from image_files import sif

_SCRIPT = """#!/bin/bash
place={place}
printf '%s\\0' "$@" '' >>"$place/calls"
env -0 >"$place/environ"
ls "$APPTAINER_TMPDIR" >"$place/scratch" 2>&1
case $1 in
    build)
        if [ -e "$place/says" ]; then cat "$place/says" >&2; exit 255; fi
        if [ -e "$place/sleeps" ]; then : >"$place/slept"; exec sleep 100; fi
        cp "$place/image" "${{@: -2:1}}"
        ;;
    *) [ ! -e "$place/mute" ] || {{ echo 'FATAL: no user namespaces' >&2; exit 255; }}
        cat "$place/holds" ;;
esac
"""


class Pretender:
    """The program at `path`, and what it was asked."""

    def __init__(self, place: Path, image: bytes | None = None) -> None:
        place.mkdir(parents=True)
        self.place = place
        self.path = place / "apptainer"
        self.path.write_text(_SCRIPT.format(place=quote(str(place))))
        self.path.chmod(0o755)
        self.makes(sif(b"x" * 5000, labels={"tuneplane.runtime": "toy"}) if image is None else image)
        (place / "holds").write_text('tuneplane-holds:["3.12.1", "x86_64", {"torch": "2.14.0"}]\n')

    def makes(self, image: bytes) -> None:
        """What a build leaves."""
        (self.place / "image").write_bytes(image)

    def fails(self, says: str) -> None:
        """Builds end with these words."""
        (self.place / "says").write_text(says)

    def mute(self) -> None:
        """No container starts."""
        (self.place / "mute").touch()

    def sleeps(self) -> None:
        """Builds take longer than anybody waits."""
        (self.place / "sleeps").touch()

    @property
    def slept(self) -> bool:
        return (self.place / "slept").exists()

    def calls(self) -> list[list[str]]:
        """The words of every call."""
        try:
            text = (self.place / "calls").read_text()
        except FileNotFoundError:
            return []
        return [call.split("\0") for call in text.split("\0\0") if call]

    def builds(self) -> list[list[str]]:
        return [call for call in self.calls() if call[0] == "build"]

    def environ(self) -> dict[str, str]:
        """The variables of the last call."""
        pairs = (self.place / "environ").read_text().split("\0")
        return dict(pair.partition("=")[::2] for pair in pairs if pair)

    def scratch(self) -> list[str]:
        """What lay in the scratch folder then."""
        return (self.place / "scratch").read_text().split()


def play(folder: Path, name: str, script: str) -> None:
    """A command, as a few lines of bash."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    os.chmod(folder / name, 0o755)
