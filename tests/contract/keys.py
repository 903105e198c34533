"""The tables of upstream's keys under `recipes/FRAMEWORK/_keys`, read from the real packages.

`scripts/upstream-keys` writes them; a new release of a framework is a further version in TABLES.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kept import kept_interpreter, kept_wheel

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).with_name("inside")
HYDRA = ("hydra-core==1.3.8", "omegaconf==2.3.1")


@dataclass(frozen=True)
class Table:
    """What is read of a framework's releases. read: (wheel's folder, names) → name → key → type."""

    framework: str
    versions: tuple[str, ...]
    names: tuple[str, ...]
    how: str
    read: Callable[[Path, tuple[str, ...]], dict[str, dict[str, str]]]


def of_verl(wheel: Path, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """verl's configurations, composed without what verl needs beside Hydra."""
    python = kept_interpreter("hydra-venv", HYDRA, "34 MB")
    return answer(python, "hydra_keys.py", str(wheel / "verl/trainer/config"), *names)


def of_openrlhf(wheel: Path, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """OpenRLHF's command line, built without what OpenRLHF needs: its scripts' last blocks use argparse alone."""
    return answer(Path(sys.executable), "flag_keys.py", str(wheel), "openrlhf", *names)


def answer(python: Path, program: str, *words: str) -> dict[str, dict[str, str]]:
    """What a program of `inside/` prints."""
    command = [str(python), str(INSIDE / program), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


TABLES = (
    Table(
        "verl",
        ("0.9.0", "0.9.1"),
        ("ppo_trainer", "sft_trainer_engine"),
        "verl/trainer/config/{name}.yaml of the wheel verl {version}, composed by hydra-core 1.3.8",
        of_verl,
    ),
    Table(
        "openrlhf",
        ("0.11.0", "0.11.2"),
        ("train_sft", "train_dpo", "train_rm", "train_ppo_ray"),
        "the parser of openrlhf/cli/{name}.py of the wheel openrlhf {version}",
        of_openrlhf,
    ),
)


def made(table: Table, version: str) -> Iterator[tuple[Path, str]]:
    """Each file of a release and the text that it must have. Raises Unavailable."""
    found = table.read(kept_wheel(f"{table.framework}=={version}"), table.names)
    for name in table.names:
        source = table.how.format(name=name, version=version)
        content = {"source": source, "keys": dict(sorted(found[name].items()))}
        file = ROOT / "recipes" / table.framework / "_keys" / f"{name}-{version}.json"
        yield file, json.dumps(content, indent=1) + "\n"


def differences(file: Path, text: str, root: Path) -> Iterator[str]:
    """A line for each key that appeared, vanished or changed, with the line to edit, and the recipes that use it."""
    name, before = file.relative_to(root), file.read_text() if file.exists() else '{"keys": {}}'
    if before == text:
        return
    have, want = json.loads(before)["keys"], json.loads(text)["keys"]
    lines = before.splitlines()
    for key in sorted(have.keys() | want.keys()):
        if have.get(key) == want.get(key):
            continue
        if key not in have:
            after = 1 + sum(other < key for other in have)
            yield f"{name}:{after + 3}: upstream has a key more: {json.dumps(key)}: {json.dumps(want[key])}"
            continue
        number = next(
            at for at, line in enumerate(lines, 1) if line.lstrip().startswith(f"{json.dumps(key)}:")
        )
        if key in want:
            yield f"{name}:{number}: {json.dumps(key)} is of type {want[key]} upstream"
        else:
            yield f"{name}:{number}: {json.dumps(key)} is no more upstream"
            yield from uses(file.parents[1], key, root)
    if have == want:
        yield f"{name}:1: the same keys, written in another way"


def uses(folder: Path, key: str, root: Path) -> Iterator[str]:
    """Where the recipes beside the table name the key."""
    alone = re.compile(rf"(?<![\w.]){re.escape(key)}(?![\w.])")
    for recipe in sorted(folder.rglob("*.yaml")):
        for number, line in enumerate(recipe.read_text().splitlines(), 1):
            if alone.search(line):
                yield f"  {recipe.relative_to(root)}:{number}: {line.strip()}"


def main() -> None:
    """Write them all, and say which are other than they were."""
    for table in TABLES:
        for version in table.versions:
            for file, text in made(table, version):
                before = file.read_text() if file.exists() else ""
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
                print(f"{'as it was' if text == before else 'written'}: {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
