"""Secrets on the command line: what is refused, and a canary that is right inside the job and nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.world import Expected, World

expected = Expected("secrets")
CANARY = "c4n4ry-'\"$(touch pwned)`x`\\n=é;世界"


def secrets_file(world: World, text: str | bytes, mode: int = 0o600) -> Path:
    """The user's secrets file, as the bundled site has it."""
    file = world.home / ".config/tuneplane/secrets.env"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(mode)
    return file


def no_file(world: World) -> None:
    pass


def readable(world: World) -> None:
    secrets_file(world, f"HF_TOKEN={CANARY}\n", 0o644)


def without_the_name(world: World) -> None:
    secrets_file(world, f"OTHER={CANARY}\n")


def empty_value(world: World) -> None:
    secrets_file(world, "HF_TOKEN=\n")


def a_link(world: World) -> None:
    secrets_file(world, f"HF_TOKEN={CANARY}\n").rename(world.root / "real.env")
    (world.home / ".config/tuneplane/secrets.env").symlink_to(world.root / "real.env")


def a_folder(world: World) -> None:
    (world.home / ".config/tuneplane/secrets.env").mkdir(parents=True, mode=0o700)


def bad_lines(world: World) -> None:
    lines = [
        f"export HF_TOKEN={CANARY}",
        CANARY.replace("=", ""),
        f"A B={CANARY}",
        f'C="{CANARY}"',
        "D=1\r",
        "E=1",
        "E=2",
    ]
    secrets_file(world, "\n".join(lines) + "\n")


def a_nul(world: World) -> None:
    secrets_file(world, b"HF_TOKEN=a\0b\n")


REFUSED: dict[str, Callable[[World], None]] = {
    "no file": no_file,
    "readable by others": readable,
    "the name is missing": without_the_name,
    "the value is empty": empty_value,
    "a link": a_link,
    "a folder": a_folder,
    "bad lines": bad_lines,
    "a NUL byte": a_nul,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_secrets_file_that_cannot_be_used(world: World, name: str) -> None:
    (world.made() / "config.yaml").write_text("env: {A: b}\nsecrets: [HF_TOKEN]\n")
    REFUSED[name](world)
    before = world.tree()
    said = world.tp("validate", "exp")
    expected(said, name, world)
    assert world.tp("submit", "exp") == said and world.tree() == before
    assert "c4n4ry" not in said.err
    assert world.tp("compile", "exp").code == 0


def test_a_value_beside_its_name_is_not_said_again(world: World) -> None:
    (world.made() / "config.yaml").write_text("secrets: [HF_TOKEN=c4n4ry]\n")
    expected(world.tp("validate", "exp"), "a value beside its name", world)


def arguments() -> dict[str, bytes]:
    """The argument list of every process that can be seen, by number."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[entry.name] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def test_a_canary_is_right_inside_the_job_and_nowhere_else(world: World) -> None:
    file = world.root / "secrets here.env"
    file.write_text(f"# a comment\nOTHER=x\nTP_CANARY={CANARY}\n")
    file.chmod(0o600)
    base = {"runs": str(world.runs), "model_cache": "~/.cache/huggingface", "secrets": str(file)}
    world.site("bench", "local", folders=base)
    folder = world.made()
    (folder / "config.yaml").write_text("secrets: [TP_CANARY]\nargs: [one]\n")
    (folder / ".env").write_text(f"TP_CANARY={CANARY}\n")
    (folder / "train.sh").write_text(
        "#!/bin/bash\n"
        'printf %s "$TP_CANARY" | sha256sum >"$TUNEPLANE_OUTPUT_DIR/digest"\n'
        'echo "${OTHER-unset}" >"$TUNEPLANE_OUTPUT_DIR/other"\n'
        'tr "\\0" "\\n" </proc/$PPID/cmdline >"$TUNEPLANE_OUTPUT_DIR/parent"\n'
        'echo ready\nuntil [ -e "$TUNEPLANE_OUTPUT_DIR/go" ]; do sleep 0.05; done\n'
    )
    at = ("--site", "bench")
    for command in ("validate", "explain"):
        assert "c4n4ry" not in world.tp(*at, command, "exp", "--json").out
    script = world.tp(*at, "compile", "exp").out
    assert script and "c4n4ry" not in script
    said = world.tp(*at, "submit", "exp", "--json")
    assert (said.code, said.err) == (0, "")
    run = world.runs / json.loads(said.out)["run"]
    deadline = time.monotonic() + 30
    while not (run / "output/parent").exists():
        assert time.monotonic() < deadline, world.tp(*at, "job", "status", run.name)
        time.sleep(0.05)
    seen = arguments()
    assert any(str(run).encode() in line for line in seen.values()), "the job's processes can be seen"
    assert [number for number, line in seen.items() if b"c4n4ry" in line] == []
    shown = [world.tp(*at, "job", *words) for words in (("ls", "--json"), ("status", run.name, "--json"))]
    (run / "output/go").touch()
    shown.append(world.tp(*at, "job", "wait", run.name))
    shown.append(world.tp(*at, "job", "logs", run.name))
    assert [one.code for one in shown] == [0] * 4 and "c4n4ry" not in repr([said, *shown])

    digest = (run / "output/digest").read_text().split()[0]
    assert digest == hashlib.sha256(CANARY.encode()).hexdigest()
    assert (run / "output/other").read_text() == "unset\n"
    holding = []
    for parent, _, files in os.walk(run):
        holding += [
            os.path.join(parent, name) for name in files if b"c4n4ry" in Path(parent, name).read_bytes()
        ]
    assert holding == []
    assert [path for path in run.rglob("*") if path.name == ".env"] == []
